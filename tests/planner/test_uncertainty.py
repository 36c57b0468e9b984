"""Uncertainty: each source by itself, intervals that cover, and the requests that would decide."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from simcore.acceptance.trace import TraceSet
from simcore.errors import ScenarioError
from simcore.metrics.estimate import t_quantile
from simcore.planner.plan import make_plan
from simcore.planner.replication import SOURCES, Runner, replications, value_interval
from simcore.planner.speedup import trace_survival
from simcore.planner.uncertainty import (
    POWER,
    explain_uncertainty,
    next_measurement,
)
from tests.factories import Recording, make_profile, make_scenario

ASKED = {
    "workload.num_requests": 60,
    "workload.arrivals.rate_per_s": 0.3,
    "speculation.proposer": "draft_model",
    "speculation.num_speculative_tokens": 3,
}


@pytest.fixture(scope="module")
def scenario(recorded_profile):
    return make_scenario(recorded_profile, **ASKED)


@pytest.fixture(scope="module")
def found(recorded_profile, scenario):
    return explain_uncertainty(scenario, stored=recorded_profile, num_replications=12)


def _share(headline, source):
    return next(each for each in headline.sources if each.source == source)


def _named(found, name):
    return next(each for each in found.headlines if each.name == name)


# --- sources ----------------------------------------------------------------------------------


@pytest.mark.parametrize("source", SOURCES)
def test_a_source_alone_moves_what_it_stands_for_and_nothing_else(
    recorded_profile, scenario, source
):
    runner = Runner(scenario, recorded_profile)
    traces = runner.traces("draft_model")
    truths = replications(scenario.seed, 6, (source,))
    variations = [each.variation(recorded_profile, traces, 3) for each in truths]
    scenarios = [each.scenario(scenario, "draft_model", 3) for each in truths]
    factors = {each.speculative_cost_factor for each in variations}
    pools = {str(each.pools) for each in variations}
    seeds = {each.seed for each in scenarios}
    assert (len(pools) > 1, len(factors) > 1, len(seeds) > 1) == (
        source == "requests",
        source == "cost",
        source == "seeds",
    )
    if source != "cost":
        assert factors == {1.0}
    if source != "seeds":
        assert seeds == {scenario.seed}


def test_shares_of_the_variance_add_up_to_one_and_the_value_lies_in_its_interval(found):
    for headline in found.headlines:
        shares = [each.share for each in headline.sources if each.share is not None]
        if shares:
            assert sum(shares) == pytest.approx(1.0)
        low, high = headline.interval
        assert low <= headline.value <= high


def test_acceptance_does_not_depend_on_the_cost_fit_nor_capacity_on_seeds(found):
    assert _share(_named(found, "mean acceptance length"), "cost").deviation < 1e-3
    assert _share(_named(found, "saturation"), "seeds").deviation == 0.0
    assert _share(_named(found, "saturation"), "cost").deviation > 0.0


def test_variances_of_the_sources_add_up_to_about_that_of_all(found):
    """Independent sources; twelve draws know a deviation to about a quarter."""
    speedup = found.headlines[0]
    alone = np.sqrt(sum(each.deviation**2 for each in speedup.sources))
    assert speedup.deviation == pytest.approx(alone, rel=0.6)


def test_a_published_profile_says_what_it_does_not_state(load_bundled):
    scenario, stored = load_bundled("h100_chat")
    small = scenario.with_(**{"workload.num_requests": 60})
    found = explain_uncertainty(small, stored=stored, num_replications=3)
    for headline in found.headlines:
        for source in ("requests", "cost"):
            share = _share(headline, source)
            assert share.deviation is None
            assert "h100" in share.reason
    assert _named(found, "saturation").interval is None
    assert any("too narrow" in note for note in found.notes)


@pytest.mark.parametrize(
    ("asked", "words"),
    [({"num_replications": 2}, "at least 3"), ({"gamma": 3, "against": 3}, "against itself")],
)
def test_what_cannot_be_compared_is_refused(recorded_profile, scenario, asked, words):
    with pytest.raises(ScenarioError, match=words):
        explain_uncertainty(scenario, stored=recorded_profile, **asked)


# --- plans ------------------------------------------------------------------------------------


def test_every_candidate_of_a_plan_carries_intervals_of_its_headlines(recorded_profile, scenario):
    plan = make_plan(scenario, stored=recorded_profile, num_replications=3)
    for candidate in plan.candidates:
        metrics = {each.metric: each for each in candidate.intervals}
        assert {"ttft.mean_s", "tpot.mean_s", "e2e.mean_s"} <= set(metrics)
        assert "tokens.mean_acceptance_length" in metrics
        for each in metrics.values():
            low, high = each.interval
            assert low <= each.value <= high
        assert metrics["e2e.mean_s"].interval[0] < metrics["e2e.mean_s"].interval[1]


def test_an_indistinguishable_plan_says_what_to_measure_next(tmp_path):
    stored = make_profile(
        tmp_path / "even", Recording(acceptance=0.07, propose_scale=1.0, num_requests=6)
    )
    scenario = make_scenario(stored, **{**ASKED, "speculation.num_speculative_tokens": 0})
    plan = make_plan(scenario, stored=stored, num_replications=4, with_policies=False)
    assert (plan.next_measurement is not None) == (plan.decision.verdict == "indistinguishable")
    assert plan.decision.verdict == "indistinguishable"
    assert plan.next_measurement.reason in plan.caveats[-1]


# --- intervals --------------------------------------------------------------------------------


def _traces(rates: np.ndarray, length: int, rng: np.random.Generator) -> TraceSet:
    """Requests of `length` tokens whose single drafts are accepted at their own rate."""
    count = len(rates)
    accepted = (rng.random((count, length)) < rates[:, None]).astype(np.int8).ravel()
    return TraceSet(
        domain_names=("all",),
        accepted=accepted,
        proposed=np.ones(count * length, dtype=np.int8),
        ratio=np.zeros((count * length, 0)),
        offset=np.arange(count, dtype=np.int64) * length,
        output_tokens=np.full(count, length, dtype=np.int64),
        prompt_tokens=np.full(count, 10, dtype=np.int64),
        domain=np.zeros(count, dtype=np.int64),
        max_gamma=1,
    )


def test_the_bootstrap_interval_over_requests_covers_the_truth_as_often_as_it_says():
    """Nominal 95 %; with 40 requests a percentile bootstrap holds about 93 %.

    Of 150 recordings at least 126 must hold the truth: probability above 0.9999 at 93 %; an
    interval half as wide (coverage 67 %) would pass with probability below 1e-5.
    """
    trials, requests, length, least = 150, 40, 80, 126
    assert stats.binom.sf(least - 1, trials, 0.93) > 0.9999
    assert stats.binom.sf(least - 1, trials, 0.67) < 1e-5
    rng = np.random.default_rng(5)
    population = rng.beta(2.0, 2.0, 200_000)
    # Rate a: a cycle emits 1 + a tokens, so a request runs cycles in proportion to 1 / (1 + a).
    cycles = 1.0 / (1.0 + population)
    truth = float((population * cycles).sum() / cycles.sum())
    held = 0
    for trial in range(trials):
        traces = _traces(rng.beta(2.0, 2.0, requests), length, rng)
        survival = trace_survival(traces, 1, seed=trial)
        held += survival.lower[0] <= truth <= survival.upper[0]
    assert held >= least


@given(st.lists(st.floats(0.01, 100.0), min_size=2, max_size=30))
def test_an_interval_holds_its_mean_of_logs_and_stays_positive(values):
    found = value_interval(np.array(values))
    middle = float(np.exp(np.log(values).mean()))
    assert 0.0 < found.lower <= middle * (1 + 1e-9)
    assert found.upper >= middle * (1 - 1e-9)


@given(st.lists(st.floats(0.0, 1.0), min_size=2, max_size=30))
def test_an_interval_of_shares_stays_within_zero_and_one(values):
    found = value_interval(np.array(values), within=(0.0, 1.0))
    assert 0.0 <= found.lower <= found.value <= found.upper <= 1.0


def test_one_value_has_no_interval():
    assert value_interval(np.array([1.0])) is None
    assert value_interval(np.array([1.0, np.nan])) is None


# --- what to measure next ---------------------------------------------------------------------


def test_the_number_of_requests_proposed_parts_the_intervals_in_most_repetitions():
    """Fresh recordings of the size proposed, replicated as a plan does: they part at the power."""
    difference, per_request, have, draws = 0.05, 0.35, 60, 60
    asked = next_measurement(
        difference, {"requests": per_request**2 / have}, {"requests": have}, num_replications=draws
    )
    assert asked.dominant_source == "requests"
    assert asked.need > have
    parted = _share_parted(difference, per_request, asked.need, draws)
    assert abs(parted - POWER) < 0.065  # of 600: four standard errors are 0.065
    assert _share_parted(difference, per_request, have, draws) < 0.25


def _share_parted(difference, per_request, count, draws, repetitions=600):
    rng = np.random.default_rng(11)
    reach = t_quantile(draws) * np.sqrt(1.0 + 1.0 / draws)
    parted = 0
    for _ in range(repetitions):
        logs = rng.normal(difference, per_request, count)
        weights = rng.multinomial(count, np.full(count, 1.0 / count), draws)
        means = weights @ logs / count
        parted += means.mean() - reach * means.std(ddof=1) > 0.0
    return parted / repetitions


def test_a_difference_below_practical_relevance_is_not_worth_a_measurement():
    found = next_measurement(
        0.004, {"requests": 0.01, "cost": 0.001}, {"requests": 50, "cost": 1}, num_replications=20
    )
    assert not found.is_relevant
    assert found.need is None
    assert "below the 1% that matters" in found.reason


def test_intervals_that_are_apart_need_nothing():
    found = next_measurement(0.5, {"requests": 0.001}, {"requests": 50}, num_replications=20)
    assert found.need is None
    assert "nothing needs to be measured" in found.reason


def test_where_another_source_alone_hides_the_difference_all_must_grow():
    found = next_measurement(
        0.03,
        {"requests": 0.02, "cost": 0.01},
        {"requests": 50, "cost": 1},
        num_replications=20,
    )
    assert found.dominant_source == "requests"
    assert found.need is None
    assert "no number of them alone" in found.reason


@given(
    difference=st.floats(0.011, 0.3),
    variance=st.floats(1e-4, 1.0),
    rest=st.floats(0.0, 1e-6),
    have=st.integers(2, 500),
)
def test_more_variance_never_needs_fewer_and_a_larger_difference_never_more(
    difference, variance, rest, have
):
    def need(d, v):
        found = next_measurement(
            d, {"requests": v, "seeds": rest}, {"requests": have, "seeds": 100}, num_replications=20
        )
        return found.need or have

    assert need(difference, 2.0 * variance) >= need(difference, variance)
    assert need(1.5 * difference, variance) <= need(difference, variance)
