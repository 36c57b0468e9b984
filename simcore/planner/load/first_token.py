"""From arrival to first token, seats being free: the step under way, then a step that prefills.

A step begins with the prefills of those who came during the step before: with t of decoding, ρ the
share of time that prefill takes and b² the second moment of one prefill's seconds, steps d have

    E[d] = t / (1 - ρ),    E[d²] = (t² + 2 t ρ E[d] + λ b² E[d]) / (1 - ρ²)

An arrival meets a step in proportion to its length. It waits E[d²] / 2E[d], then shares its own
step with the others who came meanwhile.
"""

import numpy as np
from numpy.typing import NDArray

from simcore.planner.load.basis import LoadBasis
from simcore.planner.load.engine import Engine
from simcore.planner.load.queue import Occupancy

FloatArray = NDArray[np.float64]

MOST_BUSY = 0.95  # share of time for prefill that the formula is asked about
MOST_OTHERS = 256


def first_token(
    engine: Engine, occupancy: Occupancy, basis: LoadBasis, rate_per_s: float, gap_scv: float
) -> tuple[float, float]:
    """(seconds until the step under way ends, seconds of the own prefill), over all arrivals."""
    levels, seats = occupancy.levels, engine.service.most
    after = np.minimum(levels + 1.0, seats)  # the newcomer among them
    decode_s = np.interp(levels, engine.levels, engine.times.decode_s)
    added_s = np.interp(after, engine.levels, engine.times.added_s)
    own_s = np.interp(after, engine.levels, engine.times.prefill_s)
    share = np.minimum(rate_per_s * added_s, MOST_BUSY)
    mean_s = decode_s / (1.0 - share)
    square = decode_s**2 + 2.0 * decode_s * share * mean_s
    square += rate_per_s * mean_s * added_s**2 * (1.0 + basis.prompt_scv)
    met_s = square / (1.0 - share**2) / mean_s  # length of the step that an arrival meets
    others = _others(met_s, rate_per_s, gap_scv)
    joins = np.where(levels > 0.0, 1.0 - occupancy.full_shares, 0.0)  # a busy batch with room
    own_s = own_s + joins * others * added_s
    left_s = joins * met_s / 2.0
    return float(occupancy.shares @ left_s), float(occupancy.shares @ own_s)


def _others(window_s: FloatArray, rate_per_s: float, gap_scv: float) -> FloatArray:
    """Expected others in a window around an arrival: twice the renewal function of half of it.

    Gaps are gamma: the n-th follows within x with the probability of a gamma law of n · shape.
    """
    if gap_scv <= 0.0:
        return np.maximum(rate_per_s * window_s - 1.0, 0.0)
    if gap_scv == 1.0:
        return rate_per_s * window_s
    from scipy.special import gammainc  # noqa: PLC0415 - Poisson arrivals need no scipy

    shape = 1.0 / gap_scv
    number = np.arange(1, MOST_OTHERS + 1)
    passed = gammainc(number[None, :] * shape, shape * rate_per_s * window_s[:, None] / 2.0)
    return np.asarray(2.0 * passed.sum(axis=1))
