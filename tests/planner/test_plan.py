"""Plans: the decision follows the numbers, and says when it cannot tell."""

import math

import numpy as np
import pytest

from simcore.errors import InfeasibleError, ScenarioError
from simcore.matching import load_traces, matching_records
from simcore.planner.break_even import BreakEven, saturation_rate_per_s
from simcore.planner.decision import decide
from simcore.planner.estimate import estimate
from simcore.planner.load_bench import LoadBench
from simcore.planner.plan import make_plan
from simcore.planner.replication import (
    Replication,
    Runner,
    at_fixed_length,
    ratio_interval,
    replications,
)
from simcore.planner.speedup import trace_survival
from simcore.profile.store import StoredProfile, load_profile, write_profile
from simcore.report.write import write_report
from simcore.scenario_files import open_scenario
from tests.factories import Recording, make_profile, make_scenario, sampled

LENGTHS = {
    "kind": "lognormal",
    "prompt": {"mean_tokens": 40, "cv": 0.5, "max_tokens": 200},
    "output": {"mean_tokens": 50, "cv": 0.5, "max_tokens": 200},
}
BASE = {
    "workload.num_requests": 150,
    "workload.lengths": LENGTHS,
    "workload.arrivals": {"kind": "poisson", "rate_per_s": 0.3},
    "speculation.proposer": "draft_model",
    "speculation.num_speculative_tokens": 0,
}


def _plan(stored, num_replications=4, with_policies=False, **changes):
    scenario = make_scenario(stored, **{**BASE, **changes})
    return make_plan(
        scenario, stored=stored, num_replications=num_replications, with_policies=with_policies
    )


@pytest.fixture(scope="module")
def good_profile(tmp_path_factory):
    return make_profile(tmp_path_factory.mktemp("good") / "good", Recording(gain=0.3))


def test_cheap_drafts_that_survive_are_chosen_with_an_interval_above_one(good_profile):
    plan = _plan(good_profile)
    assert plan.decision.choice == "speculate"
    assert plan.decision.proposer == "draft_model"
    low, high = plan.speedup.interval
    assert 1.0 < low < plan.speedup.value < high


def test_drafts_ten_times_dearer_turn_the_decision_to_off(tmp_path):
    dear = make_profile(tmp_path / "dear", Recording(propose_scale=10.0))
    cheap = make_profile(tmp_path / "cheap", Recording(propose_scale=1.0))
    assert _plan(cheap).decision.choice == "speculate"
    plan = _plan(dear)
    assert plan.decision.choice == "off"
    assert plan.decision.verdict == "never_pays"
    assert plan.speedup.interval[1] < 1.0
    assert plan.break_even.rate_per_s is None
    assert "never pays" in plan.break_even.reason


def test_drafts_that_are_never_accepted_never_pay(tmp_path):
    stored = make_profile(tmp_path / "zero", Recording(acceptance=0.0))
    plan = _plan(stored, num_replications=20)
    assert plan.decision.choice == "off"
    assert plan.decision.verdict in {"never_pays", "slower"}
    assert plan.speedup.interval[1] < 1.0
    for candidate in plan.candidates:
        assert candidate.summary.tokens.mean_acceptance_length == 1.0


def test_a_speedup_whose_interval_holds_one_is_called_indistinguishable(tmp_path):
    # Free drafting of which a tenth survives: gain and verify cost nearly cancel at γ = 1.
    stored = make_profile(
        tmp_path / "even", Recording(acceptance=0.07, propose_scale=1.0, num_requests=6)
    )
    plan = _plan(stored, **{"workload.num_requests": 60})
    low, high = plan.speedup.interval
    assert low < 1.0 < high
    assert plan.decision.choice == "off"
    assert plan.decision.verdict == "indistinguishable"


def test_speculation_that_pays_when_idle_stops_paying_under_load(recorded_profile):
    # 32 tokens a step are free, more are not: 28 requests with drafts lie far beyond.
    plan = _plan(recorded_profile, **{"deployment.max_num_seqs": 28})
    edge = plan.break_even
    assert edge.rate_per_s is not None
    below = [point.speedup for point in edge.curve if point.rate_per_s < edge.rate_per_s]
    above = [point.speedup for point in edge.curve if point.rate_per_s > edge.rate_per_s]
    assert below[0] > 1.0
    assert above[-1] < 1.0


def test_every_measured_gamma_up_to_eight_is_compared_for_every_proposer(recorded_profile):
    plan = _plan(recorded_profile, **{"speculation.proposer": None})
    seen = {(each.proposer, each.num_speculative_tokens) for each in plan.candidates}
    expected = {(name, g) for name in ("ngram", "draft_model") for g in range(1, 9)}
    assert seen == expected | {(None, 0)}
    assert plan.not_measured == ()


def test_a_proposer_that_was_not_measured_on_the_domains_is_no_candidate(recorded_profile):
    profile = recorded_profile.profile
    records = tuple(
        each.model_copy(update={"domain": "prose"})
        if (each.proposer, each.domain) == ("ngram", "code")
        else each
        for each in profile.acceptance
    )
    changed = profile.model_copy(update={"acceptance": records})
    partly = StoredProfile(changed, recorded_profile.folder)
    changes = {"speculation.proposer": None, "workload.domains": {"code": 1.0}}
    plan = _plan(partly, num_replications=2, **changes)
    assert {each.proposer for each in plan.candidates} == {None, "draft_model"}
    assert "ngram" in {each.proposer for each in _plan(recorded_profile, 2, **changes).candidates}


def test_a_published_profile_lists_what_it_did_not_measure(load_bundled):
    scenario, stored = load_bundled("h100_chat")
    plan = make_plan(
        scenario.with_(**{"workload.num_requests": 200}), stored=stored, num_replications=2
    )
    missing = {(each.proposer, each.num_speculative_tokens) for each in plan.not_measured}
    assert ("eagle", 2) in missing
    assert ("eagle", 3) not in missing
    assert plan.profile.source == "published"


def test_off_against_itself_is_exactly_one(recorded_profile):
    off = _plan(recorded_profile).candidates[0]
    assert off.proposer is None
    assert off.speedup.value == 1.0
    assert off.speedup.interval == (1.0, 1.0)


def test_the_same_plan_comes_out_twice(recorded_profile):
    assert _plan(recorded_profile) == _plan(recorded_profile)


def test_sampled_and_greedy_plans_use_their_own_recordings(recorded_profile):
    greedy = _plan(recorded_profile)
    drawn = _plan(recorded_profile, **sampled())
    assert drawn.scenario.contract.value == "exact_sampling"
    assert greedy.candidates[3].summary.tokens != drawn.candidates[3].summary.tokens


def test_plan_refuses_what_the_profile_was_not_measured_under(recorded_profile):
    with pytest.raises(ScenarioError, match="not measured under"):
        _plan(recorded_profile, sampling={"temperature": 0.5}, contract="exact_sampling")


def test_a_forced_mismatch_is_shown(recorded_profile):
    plan = _plan(
        recorded_profile,
        sampling={"temperature": 0.5},
        contract="exact_sampling",
        allow_mismatch=True,
    )
    assert any("does not fit the scenario" in caveat for caveat in plan.caveats)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"workload.domains": {"poetry": 1.0}}, ScenarioError, "poetry"),
        ({"speculation.proposer": "medusa"}, ScenarioError, "no proposer 'medusa'"),
        ({"speculation.num_speculative_tokens": 9}, ScenarioError, "measured"),
        ({"target": "another-model"}, ScenarioError, "another-model"),
        ({"deployment.kv_cache_tokens": 3}, InfeasibleError, "no room for KV"),
        ({"deployment.max_num_seqs": 200}, ScenarioError, "max_num_batched_tokens"),
    ],
)
def test_a_plan_that_cannot_be_made_says_why(recorded_profile, changes, error, message):
    with pytest.raises(error, match=message):
        _plan(recorded_profile, **changes)


def test_an_interval_of_ratios_holds_most_further_ratios():
    rng = np.random.default_rng(1)
    hits = []
    for _ in range(300):
        ratios = np.exp(0.2 + 0.05 * rng.standard_normal(11))
        found = ratio_interval(ratios[:10])
        hits.append(found.lower <= ratios[10] <= found.upper)
    # Student's t on the spread of ten: a little under 95 % for one more draw.
    assert 0.88 < np.mean(hits) < 0.98


def test_the_estimate_is_tokens_times_plain_over_cycle(recorded_profile):
    scenario = make_scenario(recorded_profile)
    found = estimate(recorded_profile, scenario, "ngram", batch_sizes=(1, 8), context_tokens=100)
    traces = load_traces(recorded_profile, matching_records(recorded_profile, scenario, "ngram"))
    for batch_size, points in found.points.items():
        for point in points:
            survival = trace_survival(traces, point.gamma)
            expected = survival.mean_emitted_tokens * point.plain.total_s / point.cycle.total_s
            assert point.speedup == pytest.approx(expected)
            assert point.batch_size == batch_size
            assert math.isclose(point.break_even_tokens * point.speedup, point.mean_emitted_tokens)


def test_the_interval_of_survival_holds_the_survival(recorded_profile):
    scenario = make_scenario(recorded_profile)
    for survival in estimate(
        recorded_profile, scenario, "ngram", batch_sizes=(1,), context_tokens=1
    ).survivals.values():
        assert (np.array(survival.lower) <= np.array(survival.survival)).all()
        assert (np.array(survival.survival) <= np.array(survival.upper)).all()


def test_the_saturation_rate_does_not_depend_on_the_queue_or_the_number_of_probes(
    recorded_profile,
):
    def rate(**changes):
        scenario = make_scenario(recorded_profile, **{**BASE, **changes})
        runner = Runner(scenario, recorded_profile)
        return saturation_rate_per_s(runner, "draft_model", (Replication(0, 0),))

    free = rate()
    assert rate(**{"deployment.max_queue": 2}) == free
    assert rate(**{"workload.patience_s": 0.1}) == free
    # Eight seats or 28, the window measures full seats: a little more throughput, not many times.
    assert 1.0 < rate(**{"deployment.max_num_seqs": 28}) / free < 3.0


@pytest.mark.parametrize("name", ["h100_chat", "agent_sessions"])
def test_a_plan_and_a_capacity_agree_on_what_the_service_sustains_without_speculation(name):
    scenario = open_scenario(name)
    stored = load_profile(scenario.profile)
    assert scenario.speculation.proposer is not None
    plain = at_fixed_length(scenario, scenario.seed, scenario.speculation.proposer, 0)
    expected = LoadBench(plain, stored, 5, None).saturation_rate_per_s()
    runner = Runner(scenario, stored)
    truths = replications(scenario.seed, 8)
    found = saturation_rate_per_s(runner, scenario.speculation.proposer, truths)
    assert found == pytest.approx(expected, rel=0.03)


def test_a_candidate_that_breaks_the_slo_is_not_shipped(good_profile):
    free = _plan(good_profile)
    off, best = free.candidates[0], next(each for each in free.candidates if each.is_best)
    assert best.speedup.value > 1.2
    # A TTFT between the two: drafts make the first token later while the rest comes sooner.
    limit_s = (off.summary.ttft.p95_s + best.summary.ttft.p95_s) / 2
    plan = _plan(good_profile, **{"slo.ttft_s": limit_s})
    chosen = next(each for each in plan.candidates if each.is_best)
    if not any(each.meets_slo_as_off for each in plan.candidates[1:]):
        assert plan.decision.verdict == "misses_slo"
        assert plan.decision.choice == "off"
    else:
        assert chosen.meets_slo_as_off


def test_the_verdict_says_when_every_candidate_misses_the_slo(good_profile):
    plan = _plan(good_profile)
    best = next(each for each in plan.candidates if each.is_best)
    edge = BreakEven("always_pays", None, None, "it pays", (), 1.0)
    assert decide(best, edge).choice == "speculate"
    failing = best.model_copy(update={"meets_slo_as_off": False})
    assert decide(failing, edge).verdict == "misses_slo"
    assert decide(failing, edge).choice == "off"


def test_a_scenario_with_a_policy_is_planned_at_fixed_lengths_and_says_so(recorded_profile):
    plan = _plan(
        recorded_profile,
        **{
            "speculation.num_speculative_tokens": 6,
            "speculation.policy": {"kind": "batch_size_table", "table": [[1, 4, 6], [5, 99, 0]]},
        },
    )
    assert any("policy or tree is left out" in caveat for caveat in plan.caveats)
    assert {each.num_speculative_tokens for each in plan.candidates} == set(range(9))


def test_draft_lengths_do_not_share_the_whole_cost_error(recorded_profile):
    factors = np.array(
        [
            [
                Replication(1, index, 200)
                .variation(recorded_profile, None, gamma)
                .speculative_cost_factor
                for gamma in (1, 2)
            ]
            for index in range(200)
        ]
    )
    correlation = np.corrcoef(np.log(factors).T)[0, 1]
    assert 0.3 < correlation < 0.7


def test_break_even_comes_with_its_spread_over_the_replications(recorded_profile):
    edge = _plan(recorded_profile, **{"deployment.max_num_seqs": 28}).break_even
    assert edge.rate_per_s is not None
    if edge.interval is not None:
        assert edge.interval[0] <= edge.interval[1]
    else:
        assert "some replications never cross" in edge.reason


@pytest.mark.parametrize("acceptance", ["iid", "heterogeneous"])
def test_a_plan_under_a_fitted_model_offers_lengths_that_nobody_measured(tmp_path, acceptance):
    stored = make_profile(tmp_path / "short", Recording())
    short = tuple(
        record.model_copy(update={"max_num_speculative_tokens": 4})
        for record in stored.profile.acceptance
    )
    shorter = stored.traces.to_pandas()
    for name in ("proposed", "accepted"):
        shorter[name] = shorter[name].clip(upper=4)
    profile = stored.profile.model_copy(update={"acceptance": short})
    known = write_profile(
        profile, tmp_path / "four", cost=stored.cost_samples.to_pandas(), traces=shorter
    )
    scenario = make_scenario(
        known,
        **{
            "speculation.proposer": "draft_model",
            "speculation.acceptance": acceptance,
            "workload.num_requests": 40,
        },
    )
    plan = make_plan(scenario, num_replications=2)
    assert {each.num_speculative_tokens for each in plan.candidates} == set(range(9))
    assert plan.not_measured == ()
    assert any("fitted model" in note for note in plan.caveats)
    write_report(plan, tmp_path / "report")
