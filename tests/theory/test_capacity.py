"""The capacity search on queues whose capacity is known in closed form.

The interval is one of 95 %, so that of several independent searches a few may leave out the truth.
At 95 % coverage 2 or more of 6 do with probability 0.03, 3 or more of 12 with 0.02; at a coverage
of 50 % with 0.89 and 0.98: intervals that are much too narrow, or beside the truth, fail here.
"""

import math

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import brentq

from simcore import find_capacity
from tests.factories import make_scenario
from tests.theory.service import target_law

MAY_MISS = {6: 1, 12: 2}  # of so many searches
TOKEN_S, MEAN_PROMPT_TOKENS = 1e-5, 10_000
SERVICE_S = TOKEN_S * MEAN_PROMPT_TOKENS
SHARE = 0.95
NUM_QUANTILES = 20_000


def _lengths(folder, prompt, output):
    """An empirical law of lengths, as the scenario reads it."""
    path = folder / "lengths.parquet"
    pd.DataFrame({"prompt_tokens": prompt, "output_tokens": output}).to_parquet(path)
    return {"kind": "empirical", "path": str(path)}


def _searches(stored, lengths, count, **changes):
    """Independent searches for plain decoding, memory without end."""
    base = {
        "workload.lengths": lengths,
        "workload.arrivals": {"kind": "poisson", "rate_per_s": 1.0},
        "workload.num_requests": 1,
        "deployment.max_num_batched_tokens": 10_000_000,
        "deployment.kv_cache_tokens": 100_000_000,
        "slo.goodput_fraction": SHARE,
        **changes,
    }
    for number in range(count):
        scenario = make_scenario(stored, **base, seed=1000 * number)
        found = find_capacity(scenario, stored=stored, num_seeds=4, num_speculative_tokens=0)
        assert found.on == found.off
        yield found.off


def _num_outside(capacities, low, high):
    """How many intervals leave out all that the truth may be."""
    return sum(each.interval[1] < low or each.interval[0] > high for each in capacities)


@pytest.fixture(scope="module")
def exponential(recorded_profile, tmp_path_factory):
    """One request is one step of exponential length: (profile, lengths)."""
    middles = (np.arange(NUM_QUANTILES) + 0.5) / NUM_QUANTILES
    prompt = np.maximum(np.rint(-MEAN_PROMPT_TOKENS * np.log1p(-middles)), 1).astype(int)
    folder = tmp_path_factory.mktemp("exponential")
    stored = target_law(recorded_profile, per_token_s=TOKEN_S)
    return stored, _lengths(folder, prompt, np.ones(NUM_QUANTILES, dtype=int))


def _agree(found, truth_low, truth_high, *, detects, widest):
    """Intervals hold the truth as often as they say, and their middle is right.

    A middle off by `detects` would lie eight standard errors out and pass with less than 1e-3.
    """
    assert _num_outside(found, truth_low, truth_high) <= MAY_MISS[len(found)]
    for each in found:
        assert each.interval[0] <= each.max_rate_per_s <= each.interval[1]
        assert each.interval[1] < (1 + widest) * each.interval[0]
        assert each.bound_by == "every_limit"
    rates = np.array([each.max_rate_per_s for each in found])
    standard_error = rates.std(ddof=1) / np.sqrt(len(rates))
    assert 8 * standard_error < detects * truth_low
    assert truth_low - 4 * standard_error < rates.mean() < truth_high + 4 * standard_error


@pytest.mark.parametrize(
    ("limit_s", "count"),
    [(1.0, 6), pytest.param(0.5, 12, marks=pytest.mark.slow)],
)
def test_the_interval_holds_the_rate_at_which_m_m_1_is_just_quick_enough(
    exponential, limit_s, count
):
    # P(E2E > t) = exp(-(μ - λ) t), so λ* = μ - ln(1 / 0.05) / t: 70 % and 40 % busy.
    stored, lengths = exponential
    truth = 1 / SERVICE_S - math.log(1 / (1 - SHARE)) / limit_s
    changes = {"deployment.max_num_seqs": 1, "slo.e2e_s": limit_s}
    found = list(_searches(stored, lengths, count, **changes))
    _agree(found, truth, truth, detects=0.08, widest=0.3)
    for each in found:
        assert each.saturation_rate_per_s.mean == pytest.approx(1 / SERVICE_S, rel=0.05)


def _erlang_c(seats: int, load: float) -> float:
    """P(wait > 0) of M/M/c at `load` = λ / μ."""
    queueing = load**seats / math.factorial(seats) / (1 - load / seats)
    others = sum(load**n / math.factorial(n) for n in range(seats))
    return queueing / (others + queueing)


def _m_m_c_rate_per_s(seats: int, limit_s: float, share: float) -> float:
    """λ with P(wait > limit) = C(c, λ) exp(-(c - λ) limit) = 1 - share, for a service of 1 s."""

    def excess(rate_per_s: float) -> float:
        late = _erlang_c(seats, rate_per_s) * math.exp(-(seats - rate_per_s) * limit_s)
        return late - (1 - share)

    return float(brentq(excess, 1e-6, seats - 1e-9))


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(("seats", "limit_s"), [(2, 2.0), (4, 1.0)])
def test_the_interval_holds_the_rate_at_which_m_m_c_waits_just_short_enough(
    recorded_profile, tmp_path, seats, limit_s
):
    # Outputs of a geometric number of alike steps, 1 s in the mean. TTFT is the wait, up to a step
    # until the next one begins, and the step of the prefill: the truth lies between two limits.
    tokens, step_s, share = 50, 0.02, 0.8
    middles = (np.arange(NUM_QUANTILES) + 0.5) / NUM_QUANTILES
    output = np.ceil(np.log1p(-middles) / np.log1p(-1 / tokens)).astype(int)
    lengths = _lengths(tmp_path, np.ones(NUM_QUANTILES, dtype=int), output)
    changes = {
        "deployment.max_num_seqs": seats,
        "slo.ttft_s": limit_s,
        "slo.goodput_fraction": share,
    }
    stored = target_law(recorded_profile, base_s=step_s)
    found = list(_searches(stored, lengths, 12, **changes))
    low, high = (_m_m_c_rate_per_s(seats, limit_s - steps * step_s, share) for steps in (2, 0))
    assert 0.0 < low < high < seats
    _agree(found, low, high, detects=0.15, widest=0.5)
