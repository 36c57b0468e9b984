"""Arrival times of every kind, each exact in law.

Kinds whose rate changes are inverted: with L(t) the requests expected by time t, the arrival
times of a Poisson process are L⁻¹ of the partial sums of unit exponentials.
"""

from bisect import bisect_right

import numpy as np
from numpy.typing import NDArray

from simcore.errors import ScenarioError
from simcore.workload.recorded import recorded_column, recorded_requests
from simcore.workload.turns import SMALLEST_CV, think_s
from simcore.workload_kinds import (
    Arrivals,
    BatchArrivals,
    ClosedLoopArrivals,
    GammaArrivals,
    MarkovModulatedArrivals,
    PoissonArrivals,
    RampArrivals,
    RecordedArrivals,
)

FloatArray = NDArray[np.float64]

STAYS_PER_BLOCK = 1024
MAX_TIME_S = 1e10
MAX_STAYS = 5_000_000


def sample_arrivals(arrivals: Arrivals, count: int, rng: np.random.Generator) -> FloatArray:
    """`count` arrival times in seconds, in order. Raises ScenarioError."""
    times_s = _sample(arrivals, count, rng)
    if not times_s[-1] <= MAX_TIME_S:
        raise ScenarioError(
            f"{arrivals.kind!r} arrivals: request {count} would arrive after {times_s[-1]:.3g} s; "
            f"expected at most {MAX_TIME_S:.0e}, beyond which a step is lost in rounding: raise "
            "the rate"
        )
    return times_s


def _sample(arrivals: Arrivals, count: int, rng: np.random.Generator) -> FloatArray:
    match arrivals:
        case BatchArrivals():
            return np.zeros(count)
        case ClosedLoopArrivals():
            return np.sort(think_s(arrivals.think, count, rng))  # each client's first question
        case PoissonArrivals() | GammaArrivals():
            return np.cumsum(_gaps_s(arrivals, count, rng))
        case MarkovModulatedArrivals():
            return _markov_modulated_s(arrivals, count, rng)
        case RampArrivals():
            return ramp_time_s(arrivals, np.cumsum(rng.exponential(size=count)))
        case RecordedArrivals():
            return _recorded_s(arrivals, count)


def _gaps_s(
    arrivals: PoissonArrivals | GammaArrivals, count: int, rng: np.random.Generator
) -> FloatArray:
    """Independent gaps; gamma ones have cv = 1 / √shape."""
    if isinstance(arrivals, PoissonArrivals):
        return rng.exponential(1.0 / arrivals.rate_per_s, size=count)
    if arrivals.cv < SMALLEST_CV:
        return np.full(count, 1.0 / arrivals.rate_per_s)
    shape = arrivals.cv**-2
    return rng.gamma(shape, 1.0 / (shape * arrivals.rate_per_s), size=count)


def ramp_time_s(arrivals: RampArrivals, load: FloatArray) -> FloatArray:
    """When a ramp has brought `load` requests in expectation."""
    first, last, duration_s = (
        arrivals.from_rate_per_s,
        arrivals.to_rate_per_s,
        arrivals.duration_s,
    )
    ramp_load = (first + last) / 2 * duration_s
    inside = np.minimum(load, ramp_load)
    # The root of first·t + (last - first)·t²/(2·duration) = load, in the form without cancellation.
    # Rounding may take a ramp down to almost nothing below it.
    squared = np.maximum(first**2 + 2.0 * (last - first) * inside / duration_s, 0.0)
    rate_then = np.sqrt(squared)
    return 2.0 * inside / (first + rate_then) + (load - inside) / last


def _markov_modulated_s(
    arrivals: MarkovModulatedArrivals, count: int, rng: np.random.Generator
) -> FloatArray:
    """Stays in the states until they have brought enough, then inversion stay by stay."""
    gaps, stays = rng.spawn(2)
    load = np.cumsum(gaps.exponential(size=count))
    rates_per_s, lasts_s = _stays(arrivals, float(load[-1]), count, stays)
    load_end = np.cumsum(rates_per_s * lasts_s)
    end_s = np.cumsum(lasts_s)
    stay = np.searchsorted(load_end, load)
    return np.asarray(end_s[stay] - (load_end[stay] - load) / rates_per_s[stay])


def _stays(
    arrivals: MarkovModulatedArrivals, load: float, count: int, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Rate and length of one stay after another, until they bring `load` requests."""
    rate_per_s = np.array([state.rate_per_s for state in arrivals.states])
    dwell_s = np.array([state.mean_dwell_s for state in arrivals.states])
    shares = arrivals.time_shares()
    _check_num_stays(count / arrivals.mean_rate_per_s * float(shares @ (1.0 / dwell_s)))
    chain = np.cumsum(arrivals.next_state_probability(), axis=1)
    rows = (chain / chain[:, -1:]).tolist()
    state = int(rng.choice(len(shares), p=shares))
    blocks: list[tuple[FloatArray, FloatArray]] = []
    brought = 0.0
    while brought <= load:
        luck = rng.random(STAYS_PER_BLOCK)
        visited = np.empty(STAYS_PER_BLOCK, dtype=np.int64)
        for index in range(STAYS_PER_BLOCK):
            visited[index] = state
            state = bisect_right(rows[state], luck[index])
        lasts_s = rng.exponential(dwell_s[visited])
        blocks.append((rate_per_s[visited], lasts_s))
        brought += float(blocks[-1][0] @ lasts_s)
    rates, lasts = zip(*blocks, strict=True)
    return np.concatenate(rates), np.concatenate(lasts)


def _check_num_stays(expected: float) -> None:
    if expected > MAX_STAYS:
        raise ScenarioError(
            f"markov_modulated arrivals would change state about {expected:.3g} times; expected at "
            f"most {MAX_STAYS}: raise mean_dwell_s or lower num_requests"
        )


def _recorded_s(arrivals: RecordedArrivals, count: int) -> FloatArray:
    table = recorded_requests(arrivals).slice(0, count)
    times_s = recorded_column(table, "arrival_s", arrivals)
    return np.asarray((times_s - arrivals.start_s) / arrivals.rate_scale, dtype=np.float64)
