"""Marks on a map of cells: the border of some, strokes across others.

Cell (row, column) is the unit square around the point (x = column, y = row). Lines are pen strokes
with None between them, as a scatter trace takes them.
"""

from collections.abc import Iterable, Sequence

import numpy as np

HATCH_BAND = 0.24  # of a cell's height, at its top and at its bottom: the number stays free
HATCH_STEPS = 4

Strokes = tuple[list[float | None], list[float | None]]  # x, y


def border(inside: Sequence[Sequence[bool]]) -> Strokes:
    """Every edge between a cell inside [rows][columns] and one that is not, or the map's end."""
    padded = np.pad(np.asarray(inside, dtype=bool), 1)
    x: list[float | None] = []
    y: list[float | None] = []
    for row, column in np.argwhere(padded[1:, 1:-1] != padded[:-1, 1:-1]):
        x += [column - 0.5, column + 0.5, None]
        y += [row - 0.5, row - 0.5, None]
    for row, column in np.argwhere(padded[1:-1, 1:] != padded[1:-1, :-1]):
        x += [column - 0.5, column - 0.5, None]
        y += [row - 0.5, row + 0.5, None]
    return x, y


def hatch(cells: Iterable[tuple[int, int]]) -> Strokes:
    """Diagonal strokes along the top and the bottom of every cell (row, column)."""
    x: list[float | None] = []
    y: list[float | None] = []
    for row, column in cells:
        for bottom in (row - 0.5, row + 0.5 - HATCH_BAND):
            for step in range(HATCH_STEPS):
                left = column - 0.5 + step / HATCH_STEPS
                x += [left, left + 1.0 / HATCH_STEPS, None]
                y += [bottom, bottom + HATCH_BAND, None]
    return x, y
