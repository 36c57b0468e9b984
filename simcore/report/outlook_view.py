"""What would change a plan: the crossover map and the sensitivity, as sentences and tables."""

from simcore.planner.crossover_document import Cell, CrossoverMap
from simcore.planner.document import Plan
from simcore.planner.sensitivity_document import End, Sensitivity
from simcore.report.map_text import break_even_words
from simcore.report.sensitivity_figures import flip_words
from simcore.report.table import Table
from simcore.report.units import NOTHING, digits, rate, ratio

MOST_COLUMNS = 7  # of a map's loads that fit on a page
GROWING = {"off": "off grows", "on": "on grows", "both": "both grow"}


def outlook_tables(plan: Plan) -> tuple[Table, ...]:
    """Speed-up by load and draft length, and the inputs that move it; none that nobody made."""
    found = []
    if plan.crossover is not None:
        found.append(_map_table(plan.crossover))
    if plan.sensitivity is not None:
        found.append(_sensitivity_table(plan.sensitivity))
    return tuple(found)


def map_sentence(found: CrossoverMap) -> str:
    """Where speculation breaks even on the map."""
    words = " ".join(break_even_words(found))
    return f"{words.removesuffix('.')}. Closed form; hatched cells lie outside the measured domain."


def sensitivity_sentence(found: Sensitivity) -> str:
    """The strongest input, and what flips the decision within its range."""
    flips = [
        f"{each.name} ({flip_words(each)})"
        for each in found.effects
        if each.flip is not None and each.flip.is_within_range
    ]
    strongest = found.effects[0] if found.effects else None
    text = f"Base: {found.proposer}, γ = {found.num_speculative_tokens}, {_speedup(found.base)}."
    if strongest is not None:
        low, high = strongest.low, strongest.high
        text += (
            f" Moved over its plausible range, {strongest.name} matters most: {_speedup(low)} at "
            f"{digits(low.value)}, {_speedup(high)} at {digits(high.value)} {strongest.unit}."
        )
    if not flips:
        return f"{text} No input flips the decision within its plausible range."
    return f"{text} Within its plausible range the decision is flipped by: {'; '.join(flips)}."


def _map_table(found: CrossoverMap) -> Table:
    step = -(-len(found.x.values) // MOST_COLUMNS)
    columns = range(0, len(found.x.values), step)
    rows = tuple(
        (f"{y:g} {found.y.unit}", *(_cell(cells[column]) for column in columns))
        for y, cells in zip(found.y.values, found.cells, strict=True)
    )
    header = (found.y.name, *(rate(found.x.values[column], found.x.unit) for column in columns))
    source = (
        "Closed form (docs/background/estimate.md); *: outside the measured cost domain; grows: "
        "the queue of that service grows for ever."
    )
    return Table(f"Speed-up by load and draft length: {found.proposer}", header, rows, source)


def _cell(cell: Cell) -> str:
    if cell.speedup is None:
        return GROWING.get(cell.grows or "", NOTHING)
    return f"{ratio(cell.speedup)}{' *' if cell.state == 'extrapolated' else ''}"


def _sensitivity_table(found: Sensitivity) -> Table:
    rows = tuple(
        (
            each.name,
            f"{digits(each.base)} {each.unit}",
            f"{_speedup(each.low)} at {digits(each.low.value)}",
            f"{_speedup(each.high)} at {digits(each.high.value)}",
            flip_words(each),
            each.range_reason,
        )
        for each in found.effects
    )
    header = ("input", "here", "speed-up at its low end", "at its high end", "decision", "range")
    source = "One input at a time, by the closed form; a gain above 1 speculates."
    return Table("Which input flips the decision", header, rows, source)


def _speedup(end: End) -> str:
    return ratio(end.speedup) if end.speedup is not None else end.reason
