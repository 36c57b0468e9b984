"""Timed steps grouped into the shapes that a cost law is fitted to (cost.parquet's columns)."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

CONTEXT_GRID = 1.25  # contexts within this factor are one shape


class Step(NamedTuple):
    """One timed step in which every request scores as many tokens."""

    batch_size: int
    num_query_tokens: int
    context_tokens: int  # of one request
    seconds: float
    phase: str = "target"
    proposer: str | None = None


def step_samples(steps: Iterable[Step]) -> "pd.DataFrame":
    """One row a shape: median, p10, p90, minimum and how often it was timed."""
    import pandas as pd  # noqa: PLC0415 - slow to import, needed only to import files

    shapes: dict[tuple[str, str | None, int, int, int], list[Step]] = {}
    for step in steps:
        bucket = round(np.log(max(step.context_tokens, 1)) / np.log(CONTEXT_GRID))
        key = (step.phase, step.proposer, step.batch_size, step.num_query_tokens, bucket)
        shapes.setdefault(key, []).append(step)
    return pd.DataFrame([_row(key[:4], timed) for key, timed in sorted(shapes.items(), key=str)])


def _row(
    shape: tuple[str, str | None, int, int], timed: list[Step]
) -> dict[str, str | int | float | None]:
    phase, proposer, batch_size, num_query_tokens = shape
    seconds = np.array([step.seconds for step in timed])
    return {
        "phase": phase,
        "proposer": proposer,
        "batch_size": batch_size,
        "num_query_tokens": num_query_tokens,
        "context_tokens": round(np.median([step.context_tokens for step in timed])),
        "num_speculative_tokens": num_query_tokens - 1,
        "median_s": float(np.median(seconds)),
        "p10_s": float(np.quantile(seconds, 0.1)),
        "p90_s": float(np.quantile(seconds, 0.9)),
        "min_s": float(seconds.min()),
        "repeats": len(timed),
    }
