"""The timing phase: warm every shape, then time all shapes in turn, round after round."""

import random
from collections.abc import Callable, Sequence
from typing import Any

from calibration.cells import Bench, Timing, prepare_benches
from calibration.grid import Cell, Grid
from calibration.models import LanguageModel
from calibration.progress import Track
from calibration.proposers.protocol import Proposer
from calibration.workfolder import WorkFolder

WARM_UP_STEPS = 1


def timed_rounds(
    target: LanguageModel,
    fresh_proposers: Callable[[], Sequence[Proposer]],
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
        makers = prepare_benches(target, fresh_proposers, grid, text_ids)
        benches = [make() for make in track(makers, "filling caches")]
        for bench in track(benches, "warming up"):
            for _ in range(WARM_UP_STEPS):
                bench.time_once()
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
        timings += bench.time_once()
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
