"""The checks against engines as tables: errors with their noise, and decisions."""

from collections.abc import Callable
from statistics import median

from simcore.planner.load.accuracy import METRICS, REGIMES, Accuracy
from simcore.report.units import NOTHING, digits, percent, seconds
from simcore.truth import Choice, Figure, Study

Row = dict[str, str]
ABBREVIATED = {"ttft", "tpot", "e2e"}
REGIME_NAMES = {
    "roomy": "stable, memory ample",
    "kv_tight": "stable, memory limits the batch",
    "near_saturation": "80 % of the bound and more",
}


def error_rows(study: Study) -> list[Row]:
    """One row a cell and figure: predicted, measured, error, noise."""
    return [
        {
            "cell": cell.name,
            "figure": _figure_name(each.metric),
            "predicted": _written(each)(each.predicted),
            "measured": ", ".join(_written(each)(value) for value in each.measured),
            "error": _signed(each.error),
            "noise": NOTHING if each.noise is None else percent(each.noise),
        }
        for cell in study.cells
        for each in cell.figures
    ]


def median_rows(study: Study) -> list[Row]:
    """One row a figure: the median size of its error over the cells, and of the noise."""
    by_metric: dict[str, list[Figure]] = {}
    for cell in study.cells:
        for each in cell.figures:
            by_metric.setdefault(each.metric, []).append(each)
    rows = []
    for metric, figures in by_metric.items():
        errors = [abs(each.error) for each in figures if each.error is not None]
        noises = [each.noise for each in figures if each.noise is not None]
        rows.append(
            {
                "figure": _figure_name(metric),
                "median error": percent(median(errors)) if errors else NOTHING,
                "median noise": percent(median(noises)) if noises else NOTHING,
                "cells": f"{len(figures)}",
            }
        )
    return rows


def choice_rows(study: Study) -> list[Row]:
    """One row a decision: speed-up by speculating, predicted and measured."""
    return [
        {
            "cell": each.cell,
            "speed-up predicted": digits(each.predicted),
            "speed-up measured": digits(each.measured),
            "noise": NOTHING if each.noise is None else percent(each.noise),
            "on or off": each.verdict,
        }
        for each in study.choices
    ]


def choices_sentence(choices: tuple[Choice, ...]) -> str:
    """How many decisions were right."""
    clear = [each for each in choices if each.verdict != "too close"]
    right = sum(each.verdict == "right" for each in clear)
    close = len(choices) - len(clear)
    tail = f"; {close} too close to tell by measuring" if close else ""
    return f"{right} of {len(clear)} decisions between on and off were right{tail}"


def accuracy_rows(found: Accuracy) -> list[Row]:
    """Median and 90th percentile of |closed form / simulated − 1|, a row a regime."""
    rows = []
    for regime in REGIMES:
        errors = found.regimes[regime]
        row = {"regime": REGIME_NAMES[regime], "scenarios": f"{errors.num_points:,}"}
        for metric in METRICS:
            error = getattr(errors, metric)
            values = (error.median_rel, error.p90_rel)
            shown = [NOTHING if each is None else percent(each) for each in values]
            row[_figure_name(metric)] = " / ".join(shown)
        rows.append(row)
    return rows


def _figure_name(metric: str) -> str:
    """The unit stands with the value, a rate's with its name."""
    if metric.endswith("_per_s"):
        return metric.removesuffix("_per_s").replace("_", " ") + "/s"
    first, *rest = metric.removesuffix("_s").split("_")
    return " ".join([first.upper() if first in ABBREVIATED else first, *rest])


def _written(figure: Figure) -> Callable[[float], str]:
    if figure.unit == "s":
        return seconds
    return lambda value: f"{digits(value)} {figure.unit}"


def _signed(error: float | None) -> str:
    return NOTHING if error is None else f"{100 * error:+.0f} %"
