"""An overview as plain text for a terminal."""

from simcore.report.overview import Overview
from simcore.report.plain import visible
from simcore.report.table import Table


def overview_text(overview: Overview) -> str:
    """Heading, basis, tables in columns, and the notes."""
    lines = [overview.heading, *overview.basis]
    for table in overview.tables:
        if table.rows:
            lines += ["", *_lines(table)]
    if overview.notes:
        lines += ["", *(f"- {note}" for note in overview.notes)]
    return visible("\n".join(lines))


def _lines(table: Table) -> list[str]:
    cells = [table.header, *table.rows]
    widths = [max(len(row[column]) for row in cells) for column in range(len(table.header))]
    columns = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]
    return [*filter(None, (table.caption,)), *columns, *filter(None, (table.source,))]
