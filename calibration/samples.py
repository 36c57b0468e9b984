"""The cost samples table: timings of all rounds, one row per cell."""

from collections.abc import Iterable
from dataclasses import asdict

import pandas as pd

from calibration.grid import Cell
from calibration.timing import spread


def samples_table(rounds: Iterable[list[tuple[Cell, float]]]) -> pd.DataFrame:
    """cost.parquet's columns from the timings of every round."""
    seconds: dict[Cell, list[float]] = {}
    for timings in rounds:
        for cell, value_s in timings:
            seconds.setdefault(cell, []).append(value_s)
    order = sorted(seconds, key=lambda cell: (cell.phase, cell.proposer or "", *cell_shape(cell)))
    frame = pd.DataFrame([asdict(cell) | asdict(spread(seconds[cell])) for cell in order])
    return frame.astype({"proposer": object}).where(frame.notna(), None)


def cell_shape(cell: Cell) -> tuple[int, int, int, int]:
    """Where a cell lies in the grid."""
    return (
        cell.batch_size,
        cell.context_tokens,
        cell.num_speculative_tokens,
        cell.num_query_tokens,
    )
