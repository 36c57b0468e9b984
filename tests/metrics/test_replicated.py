"""Several seeds: intervals of Student's t over runs that each stand alone."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcore import ScenarioError, simulate, simulate_seeds, summarise
from simcore.metrics.estimate import estimate
from simcore.metrics.headlines import HEADLINES
from simcore.metrics.replicated import numbers_of, replicate
from tests.factories import make_scenario


def test_an_interval_is_the_one_computed_by_hand():
    # s = 1, t(2, 97.5 %) = 4.302653: 2 ± 4.302653 / √3
    found = estimate([1.0, 2.0, 3.0])
    assert found.mean == 2.0
    assert (found.low, found.high) == pytest.approx((2 - 2.484138, 2 + 2.484138))
    assert found.values == (1.0, 2.0, 3.0)


def test_an_interval_holds_the_true_mean_as_often_as_it_says():
    rng = np.random.default_rng(5)
    hits = []
    for sample in rng.normal(3.0, 2.0, size=(2000, 6)):
        found = estimate(sample.tolist())
        hits.append(found.low <= 3.0 <= found.high)
    # Four standard errors of 2,000 coins of 95 %.
    assert np.mean(hits) == pytest.approx(0.95, abs=0.0195)


def test_a_seed_without_a_value_is_left_out_and_one_value_has_no_interval():
    found = estimate([None, 4.0, None])
    assert (found.mean, found.low, found.high, found.num_seeds) == (4.0, None, None, 1)
    nothing = estimate([None, None])
    assert (nothing.mean, nothing.num_seeds) == (None, 0)


@given(st.lists(st.floats(0.0, 1.0), min_size=2, max_size=8))
def test_an_interval_holds_its_mean_and_stays_where_the_value_can_be(values):
    found = estimate(values, within=(0.0, 1.0))
    assert 0.0 <= found.low <= found.mean + 1e-12
    assert found.mean - 1e-12 <= found.high <= 1.0


def test_every_seed_is_the_run_that_it_would_be_alone(recorded_profile):
    scenario = make_scenario(recorded_profile)
    found = simulate_seeds(scenario, 3)
    assert found.seeds == (3, 4, 5)
    alone = [numbers_of(summarise(simulate(scenario.with_(seed=seed)))) for seed in found.seeds]
    assert set(found.metrics) == set(alone[0])
    for name, metric in found.metrics.items():
        assert metric.values == tuple(each[name] for each in alone), name
    assert found.metrics["e2e.mean_s"].mean == pytest.approx(
        np.mean([each["e2e.mean_s"] for each in alone])
    )


def test_different_seeds_give_different_runs(recorded_profile):
    found = simulate_seeds(make_scenario(recorded_profile), 4)
    assert len(set(found.metrics["e2e.mean_s"].values)) == 4


def test_more_seeds_narrow_the_interval(recorded_profile):
    scenario = make_scenario(recorded_profile)
    few, many = (simulate_seeds(scenario, count).metrics["e2e.mean_s"] for count in (4, 40))
    assert many.high - many.low < 0.6 * (few.high - few.low)


def test_every_headline_is_a_number_of_a_summary(recorded_profile):
    summary = summarise(simulate(make_scenario(recorded_profile)))
    assert {each.metric for each in HEADLINES} <= set(numbers_of(summary))
    assert len({each.name for each in HEADLINES}) == len(HEADLINES)


def test_a_metric_that_no_seed_knows_is_null(recorded_profile):
    summary = summarise(simulate(make_scenario(recorded_profile)))
    found = replicate([summary, summary]).metrics["goodput_per_s"]
    assert found.model_dump() == {
        "mean": None,
        "low": None,
        "high": None,
        "num_seeds": 0,
        "values": (None, None),
    }


def test_progress_counts_the_requests_of_all_seeds(recorded_profile):
    seen = []
    scenario = make_scenario(recorded_profile)
    simulate_seeds(scenario, 3, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (180, 180)
    assert seen == sorted(seen)


def test_no_seed_is_refused(recorded_profile):
    with pytest.raises(ScenarioError, match="0 seeds; expected at least 1"):
        simulate_seeds(make_scenario(recorded_profile), 0)
    last = make_scenario(recorded_profile, seed=2**63 - 1)
    with pytest.raises(ScenarioError, match="seed"):
        simulate_seeds(last, 2)
