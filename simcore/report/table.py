"""A table of ready text, and how Markdown writes it without trusting a word of it."""

import html
import re
from collections.abc import Iterable
from dataclasses import dataclass

from simcore.report.plain import one_line
from simcore.report.units import NOTHING

# Signs that Markdown reads anywhere; a low line inside a word means nothing to it.
MARKDOWN_SIGNS = re.compile(r"[\\`*\[\]|~$#@]|(?<![^\W_])_|_(?![^\W_])")
# What makes a list, a rule or a heading of the line that it begins.
LINE_BEGIN = re.compile(r"^(?:(?=[-+](?:\s|$)|[-=]{2})|(\d{1,9})(?=[.)](?:\s|$)))")
BARE_LINK = re.compile(r"(?<=:)(?=//)|(?<=\bwww)(?=\.)", re.IGNORECASE)  # GitHub links these


@dataclass(frozen=True)
class Table:
    """Cells as text; the first column names the row."""

    caption: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    source: str


class Ready(str):
    """Markdown that is not to be escaped again."""

    __slots__ = ()


def escape_markdown(value: object) -> str:
    """Text on one line that Markdown shows as it stands; Ready passes."""
    if isinstance(value, Ready):
        return value
    line = html.escape(one_line(value), quote=False) or NOTHING
    line = MARKDOWN_SIGNS.sub(r"\\\g<0>", line)
    return BARE_LINK.sub(r"\\", LINE_BEGIN.sub(r"\1\\", line))


def markdown_table(table: Table) -> Ready:
    """The table in pipes, under its caption, with its source below."""
    lines = [f"**{escape_markdown(table.caption)}**", "", _line(table.header)]
    lines.append(_line(Ready("---") for _ in table.header))
    lines += [_line(row) for row in table.rows]
    if table.source:
        lines += ["", f"_{escape_markdown(table.source)}_"]
    return Ready("\n".join(lines))


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(escape_markdown(cell) for cell in cells) + " |"
