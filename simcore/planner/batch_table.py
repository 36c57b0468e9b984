"""The batch-size table of a service: at each batch the draft length that decodes fastest.

One token of one request takes E[cycles] · t_step(n) / E[tokens] at n running requests, cycles by
draft length from the recordings and t_step from the cost law. Longer drafts lose as the batch
grows, because every draft of every request is verified; the crossing of two lengths is a threshold.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simcore.planner.load.basis import LoadBasis
from simcore.planner.load.engine import MOST_LEVELS, lives_of
from simcore.planner.load.steps import decode_shapes, step_seconds
from simcore.planner.recommendation import WayRow
from simcore.planner.replication import at_fixed_length
from simcore.scenario import Scenario

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

# A row of its own must be worth so much; its threshold is the exact crossing all the same.
LEAST_GAIN = 0.01


@dataclass(frozen=True)
class TokenTimes:
    """Time that one request waits for a token, by draft length and running requests.

    In seconds; only ratios matter to `best_rows`.
    """

    batch_sizes: IntArray  # [num_batches] ascending
    lengths: tuple[int, ...]  # 0 first: nothing drafted, the proposer loaded all the same
    token_s: FloatArray  # [num_lengths, num_batches]
    plain_s: FloatArray  # [num_batches] with no proposer loaded

    def of(self, length: int) -> FloatArray:
        """[num_batches] of one draft length."""
        return np.asarray(self.token_s[self.lengths.index(length)])


def token_times(scenario: Scenario, basis: LoadBasis, lengths: tuple[int, ...]) -> TokenTimes:
    """At every batch up to the deployment's seats (evenly in the logarithm beyond MOST_LEVELS).

    `lengths`: draft lengths above 0 that the profile answers for.
    """
    seats = scenario.deployment.max_num_seqs
    sizes = np.arange(1, min(seats, MOST_LEVELS) + 1)
    if seats > MOST_LEVELS:
        sizes = np.unique(np.rint(np.geomspace(1, seats, MOST_LEVELS)).astype(np.int64))
    levels = sizes.astype(np.float64)
    longest = max(lengths)
    token_s = [
        _token_seconds(_fixed(scenario, basis, length or longest), basis, length, levels)
        for length in (0, *lengths)
    ]
    plain_s = _token_seconds(_fixed(scenario, basis, 0), basis, 0, levels)
    return TokenTimes(sizes, (0, *lengths), np.array(token_s), plain_s)


def best_rows(
    times: TokenTimes, seats: int, *, least_gain: float = LEAST_GAIN
) -> tuple[WayRow, ...]:
    """Rows of falling draft length up to `seats` running requests, none without a gain.

    A row begins at the first batch from which its length is the faster one. Lengths never rise
    with the batch: engines refuse such a table.
    """
    begins, lengths = [0], [_fastest(times, 0, max(times.lengths))]
    for place in range(1, len(times.batch_sizes)):
        current = lengths[-1]
        best = _fastest(times, place, current)
        if times.of(current)[place] <= (1.0 + least_gain) * times.of(best)[place]:
            continue
        begin = _crossing(times, current, best, begins[-1], place)
        if begin == begins[-1]:  # the row before never was the faster one
            lengths[-1] = best
        else:
            begins.append(begin)
            lengths.append(best)
    return _rows(times, seats, begins, lengths)


def _crossing(times: TokenTimes, before: int, after: int, begin: int, place: int) -> int:
    """The first place from `begin` from which on `after` is the faster one, up to `place`."""
    slower = np.flatnonzero(times.of(after)[begin:place] >= times.of(before)[begin:place])
    return begin + (int(slower[-1]) + 1 if len(slower) else 0)


def off_from(times: TokenTimes, length: int) -> int | None:
    """The first batch from which on plain decoding, nothing loaded, is at least as fast."""
    slower = times.of(length) >= times.plain_s
    if not slower[-1]:
        return None
    faster = np.flatnonzero(~slower)
    return int(times.batch_sizes[int(faster[-1]) + 1 if len(faster) else 0])


def _rows(
    times: TokenTimes, seats: int, begins: list[int], lengths: list[int]
) -> tuple[WayRow, ...]:
    firsts = [1, *(int(times.batch_sizes[begin]) for begin in begins[1:])]
    lasts = [first - 1 for first in firsts[1:]] + [seats]
    ends = [begin - 1 for begin in begins[1:]] + [len(times.batch_sizes) - 1]
    before = [times.plain_s, *(times.of(length) for length in lengths[:-1])]
    return tuple(
        WayRow(
            first=first,
            last=last,
            num_speculative_tokens=length,
            gain=float(slower[end] / times.of(length)[end]),
        )
        for first, last, length, end, slower in zip(
            firsts, lasts, lengths, ends, before, strict=True
        )
    )


def _fastest(times: TokenTimes, place: int, longest: int) -> int:
    """Of lengths up to `longest`, the shorter one where two are alike."""
    allowed = [length for length in times.lengths if length <= longest]
    return min(allowed, key=lambda length: (times.of(length)[place], length))


def _fixed(scenario: Scenario, basis: LoadBasis, length: int) -> Scenario:
    return at_fixed_length(scenario, scenario.seed, basis.proposer, length)


def _token_seconds(
    fixed: Scenario, basis: LoadBasis, length: int, levels: FloatArray
) -> FloatArray:
    lives = lives_of(fixed, basis, fixed.speculation.modes()[length])
    seconds = step_seconds(basis.law_tables(fixed), decode_shapes(lives, levels))
    tokens = float(np.maximum(basis.requests.output_tokens - 1, 0).mean())
    return np.asarray(seconds * lives.mean_cycles / max(tokens, 1e-300))
