"""The tables of docs/validation.md: predicted, measured, error and noise, from committed files."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from simcore.truth import Verdict, verdict_of
from tests.engines.figures import NAMES

PAGE = Path(__file__).parents[2] / "docs" / "validation.md"
BEGIN, END = "<!-- engine: begin -->\n", "<!-- engine: end -->\n"
SHOWN = (
    ("ttft_p50_s", "TTFT p50, ms", 1e3),
    ("ttft_p95_s", "TTFT p95, ms", 1e3),
    ("tpot_p50_s", "TPOT p50, ms", 1e3),
    ("tpot_p95_s", "TPOT p95, ms", 1e3),
    ("e2e_p50_s", "E2E p50, ms", 1e3),
    ("e2e_p95_s", "E2E p95, ms", 1e3),
    ("output_tokens_per_s", "tokens/s", 1.0),
    ("tokens_per_cycle", "tokens a cycle", 1.0),
)


@dataclass(frozen=True)
class Compared:
    """One figure of one cell."""

    predicted: float
    measured: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Of the repeats."""
        return float(np.mean(self.measured))

    @property
    def error(self) -> float:
        """Predicted over measured, less 1."""
        return self.predicted / self.mean - 1.0

    @property
    def noise(self) -> float:
        """How far apart the repeats lie, by their mean."""
        return (max(self.measured) - min(self.measured)) / self.mean


@dataclass(frozen=True)
class Decided:
    """Whether speculating beats not speculating at one load: mean E2E time, off over on."""

    predicted: float
    measured: float
    noise: float

    @property
    def verdict(self) -> Verdict:
        """right, wrong, or too close to tell by measuring."""
        return verdict_of(self.predicted - 1.0, self.measured - 1.0, self.noise)


Cells = dict[str, dict[str, Compared]]


def compare(folder: Path) -> Cells:
    """Cell -> figure -> both sides, of every cell that was measured."""
    predicted = json.loads((folder / "predicted.json").read_text(encoding="utf-8"))["cells"]
    measured: dict[str, list[dict[str, float]]] = {}
    for path in sorted(folder.glob("measured_*.json")):
        measured |= json.loads(path.read_text(encoding="utf-8"))["cells"]
    return {
        cell: {
            name: Compared(values[name], tuple(run[name] for run in measured[cell]))
            for name in NAMES
        }
        for cell, values in predicted.items()
        if cell in measured
    }


def decisions(cells: Cells) -> dict[str, Decided]:
    """Cell of a speculating condition -> on or off, on both sides."""
    found = {}
    for cell, values in cells.items():
        condition, load = cell.split("/")
        if condition == "off":
            continue
        off, on = cells[f"off/{load}"]["e2e_mean_s"], values["e2e_mean_s"]
        found[cell] = Decided(
            off.predicted / on.predicted, off.mean / on.mean, off.noise + on.noise
        )
    return found


def write_page(results: Path) -> None:
    """Make the page's part, and compared.json beside each study's results, anew."""
    for folder in _studies(results):
        text = json.dumps(as_json(folder), indent=1) + "\n"
        (folder / "compared.json").write_text(text, encoding="utf-8")
    page = PAGE.read_text(encoding="utf-8")
    before, rest = page.split(BEGIN)
    _, after = rest.split(END)
    PAGE.write_text(before + BEGIN + render(results) + END + after, encoding="utf-8")


def as_json(folder: Path) -> dict[str, object]:
    """What is compared, as plain values."""
    cells = compare(folder)
    return {
        "cells": {
            cell: {
                name: {
                    "predicted": found.predicted,
                    "measured": list(found.measured),
                    "error": found.error,
                    "noise": found.noise,
                }
                for name, found in values.items()
            }
            for cell, values in cells.items()
        },
        "on_or_off": {
            cell: {**vars(decided), "verdict": decided.verdict}
            for cell, decided in decisions(cells).items()
        },
    }


def render(results: Path) -> str:
    """The tables in Markdown."""
    return "".join(line + "\n" for folder in _studies(results) for line in _lines(folder))


def _studies(results: Path) -> list[Path]:
    return sorted(path.parent for path in results.glob("*/predicted.json"))


def _lines(folder: Path) -> Iterator[str]:
    cells = compare(folder)
    facts = json.loads((folder / "predicted.json").read_text(encoding="utf-8"))
    rates = ", ".join(f"{load} {rate:g}" for load, rate in facts["rates_per_s"].items())
    yield f"### {folder.name}"
    yield ""
    yield f"Predicted on {facts['date'][:10]}. Requests a second: {rates}."
    yield ""
    yield "| cell | " + " | ".join(title for _, title, _ in SHOWN) + " |"
    yield "|---|" + "---:|" * len(SHOWN)
    for cell, values in cells.items():
        entries = (_entry(values[name], scale) for name, _, scale in SHOWN)
        yield f"| {cell} | " + " | ".join(entries) + " |"
    yield "| median error, noise | " + " | ".join(_summary(cells)) + " |"
    yield ""
    yield "| cell | speed-up predicted | measured | noise | on or off |"
    yield "|---|---:|---:|---:|---|"
    for cell, decided in decisions(cells).items():
        yield (
            f"| {cell} | {decided.predicted:.2f} | {decided.measured:.2f} "
            f"| {decided.noise:.0%} | {decided.verdict} |"
        )
    yield ""


def _entry(found: Compared, scale: float) -> str:
    values = f"{found.predicted * scale:.3g} / {found.mean * scale:.3g}"
    return f"{values}, {found.error:+.0%} ({found.noise:.0%})"


def _summary(cells: Cells) -> Iterator[str]:
    for name, _, _ in SHOWN:
        errors = [abs(values[name].error) for values in cells.values()]
        noises = [values[name].noise for values in cells.values()]
        yield f"{np.median(errors):.0%} ({np.median(noises):.0%})" if cells else ""
