"""A crossover map as plain text for a terminal."""

from simcore.planner.crossover_document import Cell, CrossoverMap
from simcore.report.picture import origin_line
from simcore.report.units import digits

METRIC_WORDS = {"e2e": "mean E2E", "tpot": "mean TPOT"}
MARKS = {"measured": " ", "extrapolated": "*"}
GROWING = {"off": "off∞ ", "on": "on∞ ", "both": "∞ "}


def map_text(found: CrossoverMap) -> str:
    """One line a row from the top, the break-even line, and how to read it."""
    rows = [_line(y, cells) for y, cells in zip(found.y.values, found.cells, strict=True)]
    cells = [*reversed(rows), ["", *(f"{digits(x)} " for x in found.x.values)]]
    widths = [max(len(line[column]) for line in cells) for column in range(len(cells[0]))]
    lines = [
        f"Speed-up {METRIC_WORDS[found.metric]} off / on, {found.proposer}, "
        f"{'simulated' if found.is_simulated else 'closed form'}: "
        f"up {found.y.name} ({found.y.unit}), across {found.x.name} ({found.x.unit})",
        origin_line(found.origin),
        "",
        *(
            " ".join(text.rjust(width) for text, width in zip(line, widths, strict=True)).rstrip()
            for line in cells
        ),
        "",
        *break_even_words(found),
        "* outside the measured cost domain; –: refused; off∞, on∞, ∞: that queue grows for ever",
        *(f"Note: {note}" for note in found.notes),
        *refusal_words(found),
    ]
    return "\n".join(lines)


def _line(y: float, cells: tuple[Cell, ...]) -> list[str]:
    return [f"{y:g}", *(_number(cell) for cell in cells)]


def _number(cell: Cell) -> str:
    if cell.speedup is not None:
        return f"{cell.speedup:.2f}{MARKS[cell.state]}"
    return GROWING.get(cell.grows or "", "– ")


def break_even_words(found: CrossoverMap) -> list[str]:
    """Where the line runs, or that there is none."""
    if not found.break_even:
        above = [c.speedup > 1.0 for row in found.cells for c in row if c.speedup is not None]
        where = "everywhere" if above and all(above) else "nowhere" if not any(above) else "partly"
        return [f"No break-even line on this map: speculation is faster {where}."]
    points = ", ".join(f"({digits(each.x)}, {digits(each.y)})" for each in found.break_even)
    return [f"Break-even at ({found.x.unit}, {found.y.unit}): {points}"]


def refusal_words(found: CrossoverMap) -> list[str]:
    """Each reason once, with how many cells it holds for."""
    counts: dict[str, int] = {}
    for row in found.cells:
        for cell in row:
            if cell.state == "refused":
                counts[cell.reason] = counts.get(cell.reason, 0) + 1
    return [f"Refused ({count} cells): {reason}" for reason, count in counts.items()]
