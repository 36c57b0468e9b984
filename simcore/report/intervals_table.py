"""The headline numbers of every candidate with their intervals over the replications."""

from collections.abc import Sequence

from simcore.planner.document import MetricInterval, Plan
from simcore.report.table import Table
from simcore.report.units import NOTHING, digits


def intervals_tables(plan: Plan, names: Sequence[str]) -> tuple[Table, ...]:
    """One row a candidate, `names` in their order; no table where a plan holds no intervals."""
    found = [{each.metric: each for each in candidate.intervals} for candidate in plan.candidates]
    headings = {each.metric: each.name for row in found for each in row.values()}
    if not headings:
        return ()
    rows = tuple(
        (name, *(_cell(row.get(metric)) for metric in headings))
        for name, row in zip(names, found, strict=True)
    )
    source = (
        f"Means over {plan.speedup.num_replications} replications with 95 % intervals for one more "
        "draw of recorded requests, cost error and seed."
    )
    caption = "Headlines with their intervals"
    return (Table(caption, ("candidate", *headings.values()), rows, source),)


def _cell(found: MetricInterval | None) -> str:
    """Value and interval in the unit that reads best for the value."""
    if found is None:
        return NOTHING
    scale, unit = _scale(found)
    value, low, high = (digits(each / scale) for each in (found.value, *found.interval))
    return f"{value} {unit} ({low} to {high})"


def _scale(found: MetricInterval) -> tuple[float, str]:
    if found.unit == "share":
        return 0.01, "%"
    if found.unit != "s":
        return 1.0, found.unit or "×"
    for unit, scale in (("s", 1.0), ("ms", 1e-3)):
        if found.value >= scale:
            return scale, unit
    return 1e-6, "µs"
