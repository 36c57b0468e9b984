"""An offline batch: everything arrives at once, seats stay full, then run empty."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

NUM_DRAIN_POINTS = 64


@dataclass(frozen=True)
class Drained:
    """Seconds of one replica's share of a batch."""

    makespan_s: float
    mean_running: float  # over the makespan
    mean_wait_s: float
    mean_life_s: float


def drained_batch(
    count: float, seats: float, levels: FloatArray, life_s: FloatArray, cycles: FloatArray
) -> Drained:
    """`count` requests on `seats`; w(n) at `levels`, `cycles` of the requests [num_requests].

    First the queue is served at the full rate, then the last ones leave without successors: of
    their remaining cycles those left at age x are seats · P(residual > x), and a cycle of n
    running ones takes w(n) / E[C].
    """
    first = min(count, seats)
    full_s = float(np.interp(first, levels, life_s))
    waiting = max(count - seats, 0.0)
    queue_s = waiting * full_s / seats
    mean_cycles = float(cycles.mean())
    ordered = np.sort(cycles) + 1.0
    if waiting > 0.0:  # met at a random age: the residual of a renewal process
        ages, alive = _residual(ordered)
    else:
        ages, alive = ordered, 1.0 - (np.arange(len(ordered)) + 0.5) / len(ordered)
    # The last of them to end: the quantile that leaves half a request.
    grid = np.linspace(0.0, 1.0 - 0.5 / max(first, 1.0), NUM_DRAIN_POINTS)
    age = np.interp(grid, 1.0 - alive, ages, left=0.0)
    age[0] = 0.0
    left = first * (1.0 - (grid[1:] + grid[:-1]) / 2.0)
    step_s = np.interp(np.maximum(left, 1.0), levels, life_s) / (mean_cycles + 1.0)
    drain_s = np.diff(age) * step_s
    ends_s = np.cumsum(drain_s)
    makespan_s = queue_s + float(ends_s[-1])
    last_life_s = float(np.diff(grid) @ ends_s / grid[-1])
    if waiting > 0.0:
        life_sum_s = waiting * full_s + first * last_life_s
        # The last to be seated are among those that drain: they have lived before.
        mean_life_s = max(life_sum_s / count, full_s * waiting / count)
        mean_wait_s = waiting / count * queue_s / 2.0
    else:
        mean_life_s, mean_wait_s = last_life_s, 0.0
    return Drained(makespan_s, count * mean_life_s / makespan_s, mean_wait_s, mean_life_s)


def _residual(ordered: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(ages, share with more than that left) of lives met at a random moment."""
    number = len(ordered)
    gaps = np.diff(ordered, prepend=0.0)
    alive = (number - np.arange(number)) / number
    lived = np.cumsum(gaps * alive)
    return ordered, 1.0 - lived / lived[-1]
