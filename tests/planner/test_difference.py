"""Paired differences and their verdicts, on made-up values."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcore.metrics.estimate import estimate
from simcore.metrics.headlines import HEADLINES
from simcore.planner.difference import differences

E2E, SHARE = "e2e.mean_s", "rejected_fraction"


def _metrics(**values):
    """Estimates of all headlines: these by dotted name with _ for ., the others never observed."""
    known = {name.replace("__", "."): each for name, each in values.items()}
    count = len(next(iter(known.values())))
    return {each.metric: estimate(known.get(each.metric, [None] * count)) for each in HEADLINES}


def _compare(one, other, metric=E2E):
    name = metric.replace(".", "__")
    (found,) = differences(_metrics(**{name: one}), _metrics(**{name: other}))
    assert found.metric == metric
    return found


def test_a_halved_latency_is_lower_by_half_and_says_so():
    found = _compare([2.0, 4.0, 8.0], [1.0, 2.0, 4.0])
    assert found.verdict == "lower"
    assert found.relative.mean == pytest.approx(-0.5)
    assert (found.relative.low, found.relative.high) == pytest.approx((-0.5, -0.5))
    assert found.absolute.mean == pytest.approx(-7 / 3)
    assert found.sentence == "lower E2E mean by 50.0 % (50.0 to 50.0)"


def test_a_relative_interval_is_the_one_computed_by_hand():
    # Ratios e^0.1, e^0.2, e^0.3: mean log 0.2, s = 0.1, t(2) = 4.302653, reach 0.2484138.
    found = _compare([1.0, 1.0, 1.0], np.exp([0.1, 0.2, 0.3]).tolist())
    assert found.relative.mean == pytest.approx(np.exp(0.2) - 1)
    assert found.relative.low == pytest.approx(np.exp(0.2 - 0.2484138) - 1)
    assert found.relative.high == pytest.approx(np.exp(0.2 + 0.2484138) - 1)
    assert found.verdict == "indistinguishable"
    assert found.sentence == "indistinguishable E2E mean: +22.1 % (-4.73 to +56.6)"


def test_pairing_tells_apart_what_the_spread_between_seeds_would_hide():
    seeds = np.random.default_rng(2).uniform(1.0, 10.0, 8)
    one, other = estimate(seeds.tolist()), estimate((seeds * 0.97).tolist())
    assert other.low < one.mean < other.high
    assert _compare(seeds.tolist(), (seeds * 0.97).tolist()).verdict == "lower"


def test_a_share_is_compared_in_percentage_points():
    found = _compare([0.0, 0.1, 0.05], [0.2, 0.31, 0.24], SHARE)
    assert found.relative is None
    assert found.verdict == "higher"
    assert found.sentence.startswith("higher rejected share by 20.0 percentage points (")


def test_a_zero_value_leaves_the_absolute_difference():
    found = _compare([0.0, 2.0, 4.0], [1.0, 3.0, 5.0])
    assert found.relative is None
    assert found.sentence == "higher E2E mean by 1.00 s (1.00 to 1.00)"


def test_equal_values_are_the_same_and_one_seed_has_no_verdict():
    assert _compare([1.0, 2.0], [1.0, 2.0]).verdict == "same"
    lone = _compare([1.0, None], [2.0, 3.0])
    assert lone.verdict == "unknown"
    assert lone.sentence == "E2E mean +100 %, under one seed: no interval"


def test_what_one_of_them_never_observed_is_left_out():
    assert differences(_metrics(e2e__mean_s=[1.0]), _metrics(e2e__mean_s=[None])) == ()


latencies = st.lists(st.floats(0.5, 2.0), min_size=3, max_size=6)


@given(latencies, st.data())
def test_swapping_the_two_turns_the_verdict_and_inverts_the_ratio(one, data):
    other = data.draw(st.lists(st.floats(0.5, 2.0), min_size=len(one), max_size=len(one)))
    there, back = _compare(one, other), _compare(other, one)
    opposite = {"lower": "higher", "higher": "lower"}
    assert back.verdict == opposite.get(there.verdict, there.verdict)
    assert (1 + there.relative.mean) * (1 + back.relative.mean) == pytest.approx(1.0)
    assert (1 + there.relative.low) * (1 + back.relative.high) == pytest.approx(1.0)


def test_alike_services_are_told_apart_one_time_in_twenty():
    rng = np.random.default_rng(9)
    noise = np.exp(0.1 * rng.standard_normal((1000, 5)))
    told = [_compare([1.0] * 5, each.tolist()).verdict != "indistinguishable" for each in noise]
    # Four standard errors of 1,000 coins of 5 %.
    assert np.mean(told) == pytest.approx(0.05, abs=0.028)
