"""A sweep as plain text for a terminal: the best of each load, ties, and what was left out."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from simcore.metrics.headlines import HEADLINES
from simcore.planner.run_table import METRICS
from simcore.planner.sweep_grid import Omission
from simcore.planner.sweep_result import SweepResult, asked_labels
from simcore.report.metric_words import written
from simcore.report.units import NOTHING, count

MAX_ROWS = 40
MAX_REASONS = 4
MAX_CELL = 40


def sweep_text(found: SweepResult) -> str:
    """How much was done, the best service under each load, and what a reader must know."""
    lines = [sweep_basis(found), "", *_table(found)]
    if len(found.best) > MAX_ROWS:
        lines.append(f"... and {len(found.best) - MAX_ROWS:,} loads more; best.csv has all")
    return "\n".join([*lines, "", *sweep_notes(found)])


def sweep_basis(found: SweepResult) -> str:
    """How much was done, and what is best."""
    space = found.space
    return (
        f"Sweep of {space.scenario.name}: {count(len(found.configurations), 'configurations')}, "
        f"{count(found.num_simulated, 'runs')} simulated, {found.num_reused:,} found in the store; "
        f"best by {space.objective}, 95 % intervals, paired by seed; specplan "
        f"{found.origin['specplan_version']}"
    )


def sweep_notes(found: SweepResult) -> list[str]:
    """What was left out and why, and the caveats."""
    lines = _omitted("cannot be simulated", found.invalid)
    lines += _omitted("left out by the estimate", found.pruned)
    if found.merged:
        lines.append(f"{count(len(found.merged), 'combinations')} came to a service named before.")
    return [*lines, *(f"Note: {caveat}" for caveat in found.caveats)]


def _table(found: SweepResult) -> list[str]:
    rows = best_rows(found)
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def best_rows(found: SweepResult) -> list[tuple[str, ...]]:
    """A header, then the best of each load, MAX_ROWS at most."""
    axes = list(found.space.axes)
    asked = [name for name in axes if asked_labels({name: None})]
    answers = [name for name in axes if name not in asked]
    header = (*map(_short, [*asked, *answers]), found.space.objective, "indistinguishable from it")
    rows: list[tuple[str, ...]] = [header]
    for row in found.best.head(MAX_ROWS).to_dict("records"):
        labels = [_cell(row[name]) for name in (*asked, *answers)]
        rows.append((*labels, _objective(row, found.space.objective), _ties(row)))
    return rows


def _objective(row: Mapping[Any, Any], objective: str) -> str:
    headline = next(each for each in HEADLINES if each.metric == METRICS[objective])
    value, low, high = (row[f"{objective}{end}"] for end in ("", "_low", "_high"))
    if low is None or low != low:  # noqa: PLR0124 - NaN: one seed has no interval
        return written(headline, value)
    return f"{written(headline, value)} ({written(headline, low)} to {written(headline, high)})"


def _ties(row: Mapping[Any, Any]) -> str:
    same = len(row["indistinguishable"])
    return f"{same} of {row['num_compared'] - 1} others" if same else "none"


def _omitted(what: str, omissions: tuple[Omission, ...]) -> list[str]:
    """How many, and the commonest reasons."""
    if not omissions:
        return []
    reasons = Counter(each.reason for each in omissions).most_common()
    lines = [f"{count(len(omissions), 'combinations')} {what}:"]
    lines += [f"  {number:,} ×: {reason}" for reason, number in reasons[:MAX_REASONS]]
    if len(reasons) > MAX_REASONS:
        lines.append(f"  and {len(reasons) - MAX_REASONS:,} other reasons; omitted.csv has all")
    return lines


def _short(name: str) -> str:
    return name.rpartition(".")[2]


def _cell(value: object) -> str:
    if value is None or value != value:  # noqa: PLR0124 - NaN: no value on this axis
        return NOTHING
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return text if len(text) <= MAX_CELL else text[: MAX_CELL - 1] + "…"
