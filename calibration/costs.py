"""The timing phase: warm every shape, then time all shapes in turn, round after round."""

import random
from collections.abc import Mapping, Sequence
from typing import Any

from calibration.cells import Bench, Timing, prepare_benches
from calibration.grid import Cell, Grid
from calibration.model.target import LoadedModel
from calibration.progress import Track
from calibration.serve.proposing import Proposing
from calibration.workfolder import WorkFolder


def timed_rounds(
    target: LoadedModel,
    proposing: Mapping[str, Proposing],
    grid: Grid,
    text_ids: Sequence[int],
    num_rounds: int,
    work: WorkFolder,
    track: Track,
) -> list[list[Timing]]:
    """The timings of every round; finished rounds come from `work` and are not repeated."""
    pieces = [f"round-{index:03d}" for index in range(num_rounds)]
    missing = [piece for piece in pieces if work.load(piece) is None]
    if missing:
        benches = prepare_benches(target, proposing, grid, text_ids)
        for bench in track(benches, "warming up"):
            bench.time_once("warm up")
        _time(benches, missing, work, track)
    return [_decode(work.load(piece) or []) for piece in pieces]


def _time(benches: list[Bench], pieces: list[str], work: WorkFolder, track: Track) -> None:
    """Each round visits the shapes in an order of its own, so that none always follows another."""
    turns = [
        (piece, bench, position == len(benches) - 1)
        for piece in pieces
        for position, bench in enumerate(random.Random(piece).sample(benches, len(benches)))
    ]
    timings: list[Timing] = []
    for piece, bench, is_last in track(turns, "timing steps"):
        timings += bench.time_once(piece)
        if is_last:
            work.save(piece, _encode(timings))
            timings = []


def _encode(timings: list[Timing]) -> list[list[Any]]:
    return [
        [
            cell.phase,
            cell.proposer,
            cell.batch_size,
            cell.num_query_tokens,
            cell.context_tokens,
            cell.num_speculative_tokens,
            seconds,
        ]
        for cell, seconds in timings
    ]


def _decode(rows: list[list[Any]]) -> list[Timing]:
    return [(Cell(*row[:-1]), float(row[-1])) for row in rows]
