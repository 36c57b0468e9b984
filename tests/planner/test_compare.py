"""Comparisons: the same requests for all, equal loads that are equal, refusals that say why."""

import numpy as np
import pytest

from simcore import ScenarioError, compare, draft_lengths, simulate_seeds
from simcore.metrics.headlines import HEADLINES
from simcore.planner.comparison import Comparison
from simcore.planner.equal_rate import RATE_TOLERANCE
from tests.factories import Recording, make_profile, make_scenario

LENGTHS = {
    "kind": "lognormal",
    "prompt": {"mean_tokens": 40, "cv": 0.5, "max_tokens": 200},
    "output": {"mean_tokens": 50, "cv": 0.5, "max_tokens": 200},
}
BASE = {
    "workload.num_requests": 150,
    "workload.lengths": LENGTHS,
    "workload.arrivals": {"kind": "poisson", "rate_per_s": 1.0},
    "speculation.proposer": "draft_model",
}


@pytest.fixture(scope="module")
def good_profile(tmp_path_factory):
    return make_profile(tmp_path_factory.mktemp("good") / "good", Recording(gain=0.3))


def _scenario(stored, **changes):
    return make_scenario(stored, **{**BASE, **changes})


def _by_metric(service):
    return {each.metric: each for each in service.differences}


def test_a_service_against_itself_is_the_same_in_every_metric(good_profile):
    scenario = _scenario(good_profile)
    found = compare({"one": scenario, "other": scenario}, num_seeds=3)
    assert found.services[0].differences == ()
    differences = found.services[1].differences
    assert {each.verdict for each in differences} == {"same"}
    known = found.services[0].summary.metrics
    observed = [each.metric for each in HEADLINES if known[each.metric].mean is not None]
    assert [each.metric for each in differences] == observed


def test_every_service_is_summarised_as_it_would_be_alone(good_profile):
    scenarios = draft_lengths(_scenario(good_profile), (), (0, 4))
    found = compare(scenarios, num_seeds=3)
    for service in found.services:
        assert service.summary == simulate_seeds(scenarios[service.label], 3)
        assert service.scenario == scenarios[service.label]


def test_cheap_drafts_that_survive_are_faster_with_an_interval_that_says_so(good_profile):
    found = compare(draft_lengths(_scenario(good_profile), (), (0, 4)), num_seeds=4)
    difference = _by_metric(found.services[1])["e2e.mean_s"]
    assert difference.verdict == "lower"
    assert difference.relative.high < 0.0
    assert difference.sentence.startswith("lower E2E mean by ")
    one, other = (each.summary.metrics["e2e.mean_s"] for each in found.services)
    ratio = np.exp(np.mean(np.log(np.array(other.values) / np.array(one.values))))
    assert difference.relative.mean == pytest.approx(ratio - 1)
    assert difference.absolute.values == tuple(np.subtract(other.values, one.values))


def test_what_is_rejected_stands_beside_the_latencies(good_profile):
    changes = {"workload.arrivals": {"kind": "poisson", "rate_per_s": 60.0}}
    open_door = _scenario(good_profile, **changes)
    bounded = open_door.with_(**{"deployment.max_queue": 2})
    found = compare({"open": open_door, "bounded": bounded}, num_seeds=3)
    differences = _by_metric(found.services[1])
    assert differences["queue.mean_s"].verdict == "lower"
    assert differences["rejected_fraction"].verdict == "higher"
    rejected = found.services[1].summary.metrics["rejected_fraction"].mean
    assert f"bounded rejects {rejected:.1%} of the requests" in " ".join(found.caveats)
    assert "open is saturated under 3 of 3 seeds" in " ".join(found.caveats)


def test_a_rate_is_offered_to_all_of_them(good_profile):
    scenarios = draft_lengths(_scenario(good_profile), (), (0, 2))
    found = compare(scenarios, rate_per_s=0.7, num_seeds=2)
    assert found.rate_per_s == 0.7
    assert [each.offered_rate_per_s for each in found.services] == pytest.approx([0.7, 0.7])


def test_at_equal_admitted_rate_all_serve_it_and_one_is_offered_more(good_profile):
    changes = {"deployment.max_queue": 1, "workload.num_requests": 600}
    scenarios = {
        "one seat": _scenario(good_profile, **changes, **{"deployment.max_num_seqs": 1}),
        "many seats": _scenario(good_profile, **changes),
    }
    rate_per_s = 1.0
    found = compare(scenarios, at="admitted", rate_per_s=rate_per_s, num_seeds=3)
    one, many = found.services
    for each in found.services:
        assert each.reaches_rate
        assert each.admitted_rate_per_s.mean == pytest.approx(rate_per_s, rel=RATE_TOLERANCE)
    assert one.summary.metrics["rejected_fraction"].mean > 0.05
    assert one.offered_rate_per_s > 1.05 * many.offered_rate_per_s
    assert found.rate_tolerance == RATE_TOLERANCE
    throughput = _by_metric(many)["request_rate_per_s"]
    assert abs(throughput.relative.mean) < 0.03


def test_by_default_the_rate_is_what_the_weakest_serves_of_the_workloads_load(good_profile):
    changes = {
        "workload.arrivals": {"kind": "poisson", "rate_per_s": 40.0},
        "workload.num_requests": 600,
    }
    scenarios = draft_lengths(_scenario(good_profile, **changes), (), (0, 4))
    found = compare(scenarios, at="admitted", num_seeds=2)
    overloaded = compare(scenarios, num_seeds=2)
    served = [each.admitted_rate_per_s.mean for each in overloaded.services]
    assert found.rate_per_s == pytest.approx(min(served))
    assert min(served) < 0.8 * max(served)
    for each in found.services:
        assert each.admitted_rate_per_s.mean == pytest.approx(min(served), rel=RATE_TOLERANCE)
        assert each.offered_rate_per_s < 20.0


def test_a_rate_that_one_cannot_serve_leaves_it_uncompared_with_the_most_it_can(good_profile):
    changes = {"workload.num_requests": 600}
    scenarios = {
        "many seats": _scenario(good_profile, **changes),
        "one seat": _scenario(good_profile, **changes, **{"deployment.max_num_seqs": 1}),
    }
    found = compare(scenarios, at="admitted", rate_per_s=4.0, num_seeds=2)
    many, one = found.services
    assert many.reaches_rate
    assert not one.reaches_rate
    assert one.differences == ()
    most = one.admitted_rate_per_s.mean
    assert most < 4.0
    assert f"at most {most:.2g}"[:-1] in one.note
    turned = compare(dict(reversed(scenarios.items())), at="admitted", rate_per_s=4.0, num_seeds=2)
    assert all(each.differences == () for each in turned.services)


def test_the_same_comparison_comes_out_twice_and_reads_back(good_profile):
    scenarios = draft_lengths(_scenario(good_profile), (), (0, 2))
    found = compare(scenarios, num_seeds=2)
    assert compare(scenarios, num_seeds=2) == found
    assert Comparison.model_validate_json(found.model_dump_json()) == found


def test_all_run_under_the_first_ones_seeds(good_profile):
    scenario = _scenario(good_profile)
    found = compare({"one": scenario, "other": scenario.with_(seed=77)}, num_seeds=2)
    assert found.seeds == (3, 4)
    assert {each.verdict for each in found.services[1].differences} == {"same"}


def test_progress_reaches_its_end(good_profile):
    seen = []
    scenarios = draft_lengths(_scenario(good_profile), (), (0, 2))
    compare(scenarios, num_seeds=3, progress=lambda done, total: seen.append((done, total)))
    assert [done for done, _ in seen] == [1, 2, 3, 4, 5, 5, 6]
    assert {total for _, total in seen} == {6}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"workload.num_requests": 151}, r"differ in workload\.num_requests: 151 and 150"),
        (
            {"workload.arrivals": {"kind": "gamma", "rate_per_s": 1.0, "cv": 2.0}},
            r"differ in workload\.arrivals\.kind: 'gamma' and 'poisson'",
        ),
        ({"slo.ttft_s": 1.0}, r"differ in slo\.ttft_s: 1\.0 and None"),
        ({"warmup_fraction": 0.5}, r"differ in warmup_fraction"),
        (
            {"contract": "exact_sampling", "sampling.temperature": 1.0},
            r"differ in contract: 'exact_sampling' and 'greedy_equality'",
        ),
    ],
)
def test_scenarios_that_ask_for_different_things_are_refused(good_profile, changes, message):
    scenario = _scenario(good_profile)
    with pytest.raises(ScenarioError, match=message):
        compare({"one": scenario, "other": scenario.with_(**changes)}, num_seeds=2)


def test_recorded_lengths_that_differ_between_proposers_are_refused(good_profile):
    scenario = _scenario(good_profile, **{"workload.lengths": {"kind": "recorded"}})
    with pytest.raises(ScenarioError, match="'ngram γ=2' and 'draft_model γ=2' meet different"):
        compare(draft_lengths(scenario, ("draft_model", "ngram"), (2,)), num_seeds=2)
    one_proposer = draft_lengths(scenario, ("ngram",), (0, 2))
    assert len(compare(one_proposer, num_seeds=2).services) == 2


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"num_seeds": 1}, "1 seeds; a paired interval needs at least 2"),
        ({"rate_per_s": 0.0}, "rate 0 requests/s; expected more than 0"),
        ({"rate_per_s": float("nan")}, "rate nan requests/s"),
    ],
)
def test_a_comparison_that_cannot_be_made_says_why(good_profile, asked, message):
    scenarios = draft_lengths(_scenario(good_profile), (), (0, 2))
    with pytest.raises(ScenarioError, match=message):
        compare(scenarios, **asked)


def test_one_scenario_is_no_comparison(good_profile):
    with pytest.raises(ScenarioError, match="expected two or more"):
        compare({"one": _scenario(good_profile)}, num_seeds=2)


def test_a_batch_is_compared_as_offered_but_has_no_load_to_search(good_profile):
    scenario = _scenario(good_profile, **{"workload.arrivals": {"kind": "batch"}})
    scenarios = draft_lengths(scenario, (), (0, 4))
    found = compare(scenarios, num_seeds=2)
    assert found.rate_per_s is None
    served = [each.admitted_rate_per_s.mean for each in found.services]
    assert served[1] > 1.1 * served[0]
    assert _by_metric(found.services[1])["e2e.mean_s"].verdict == "lower"
    with pytest.raises(ScenarioError, match="'batch' arrivals have no rate to search"):
        compare(scenarios, at="admitted", num_seeds=2)


def test_draft_lengths_name_each_proposer_and_off_once(good_profile):
    scenario = _scenario(good_profile)
    found = draft_lengths(scenario, ("ngram", "draft_model"), (0, 2, 0))
    assert list(found) == ["off", "ngram γ=2", "draft_model γ=2"]
    assert [each.speculation.num_speculative_tokens for each in found.values()] == [0, 2, 2]
    with pytest.raises(ScenarioError, match="names no proposer"):
        draft_lengths(
            scenario.with_(
                **{"speculation.proposer": None, "speculation.num_speculative_tokens": 0}
            ),
            (),
            (0, 2),
        )
