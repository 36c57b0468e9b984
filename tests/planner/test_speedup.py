"""The interval of a closed-form speed-up, and what it says."""

import numpy as np
import pytest

from simcore.cost.price import StepTime
from simcore.planner.estimate import estimate
from simcore.planner.speedup import SpeedupPoint, bootstrap_survival
from simcore.profile.store import load_profile
from simcore.scenario_files import open_scenario


def test_the_interval_of_the_mean_holds_it_and_carries_over_to_the_speedup():
    stored = load_profile("smollm2_135m_cpu")
    scenario = open_scenario("cpu_chat")
    found = estimate(stored, scenario, "ngram", batch_sizes=(1, 16), context_tokens=96)
    for gamma, survival in found.survivals.items():
        low, high = survival.mean_interval
        assert low < survival.mean_emitted_tokens < high
        for points in found.points.values():
            point = points[gamma - 1]
            scale = point.speedup / survival.mean_emitted_tokens
            assert point.speedup_interval == pytest.approx((low * scale, high * scale))


@pytest.mark.parametrize(
    ("speedup", "interval", "pays"),
    [
        (1.2, (1.1, 1.3), True),
        (0.8, (0.7, 0.9), False),
        (1.1, (0.9, 1.3), None),
        (0.99, None, False),
        (1.01, None, True),
        (1.0, None, False),
    ],
)
def test_an_interval_that_holds_one_does_not_say_whether_it_pays(speedup, interval, pays):
    step = StepTime(0.0, 1.0, 0.0, 0.0)
    point = SpeedupPoint(3, 1, 1.5, step, step, speedup, 1.0, False, interval)
    assert point.pays is pays


def test_the_interval_is_as_wide_as_the_spread_between_requests_makes_a_ratio():
    """The linearised variance of a ratio of sums over requests (Cochran 1977, section 2.11)."""
    rng = np.random.default_rng(7)
    ease = rng.beta(2.0, 2.0, size=200)
    request = np.repeat(np.arange(200), rng.integers(5, 60, size=200))
    accepted = np.cumprod(rng.random((len(request), 3)) < ease[request, None], axis=1).sum(axis=1)
    low, high = bootstrap_survival(accepted, request, 3)[2]
    mean = 1.0 + accepted.mean()
    residual = np.bincount(request, weights=1.0 + accepted - mean)
    error = np.sqrt((residual**2).sum()) / len(request)
    assert high - low == pytest.approx(2 * 1.96 * error, rel=0.15)
    assert low < mean < high
