"""The recommendation of a plan: regret, thresholds, fallback, and what is shipped."""

import json

import numpy as np
import pytest

from simcore import PlanError, read_plan
from simcore.planner.break_even import BreakEven, at_rate
from simcore.planner.fallback import fallback_of
from simcore.planner.load_estimate import estimate_load, load_basis
from simcore.planner.plan import make_plan
from simcore.planner.replication import Replication, Runner
from simcore.planner.ways import ENGINES_OF, PolicyWays, fixed_way
from simcore.report.abilities import needs
from simcore.report.engine import Choice
from simcore.report.flags import ENGINES, engine_settings, parse_version
from simcore.speculation import AcceptanceGate, AdaptiveEMA, BatchSizeTable, GoodputPolicy
from tests.factories import Recording, make_profile, make_scenario
from tests.planner.test_plan import BASE

WIDE = {"deployment.max_num_seqs": 56, "deployment.max_num_batched_tokens": 1024}


@pytest.fixture(scope="module")
def good_profile(tmp_path_factory):
    return make_profile(tmp_path_factory.mktemp("good") / "good", Recording(gain=0.3))


@pytest.fixture(scope="module")
def plan(good_profile):
    """Drafts that survive, on an engine whose steps are free up to 32 tokens."""
    scenario = make_scenario(
        good_profile,
        **{
            **BASE,
            "deployment.max_num_seqs": 28,
            "slo": {"tpot_s": 0.2},
            "workload.num_requests": 120,
        },
    )
    return make_plan(scenario, stored=good_profile, num_replications=4)


@pytest.fixture(scope="module")
def table(plan):
    return next(way for way in plan.recommendation.ways if way.kind == "batch_size_table")


def shipping(plan, way):
    """The plan as if this way had been chosen."""
    found = plan.recommendation.model_copy(update={"chosen": way.label})
    decision = plan.decision.model_copy(
        update={
            "choice": "speculate",
            "proposer": way.speculation.proposer,
            "num_speculative_tokens": way.speculation.num_speculative_tokens,
        }
    )
    return plan.model_copy(update={"recommendation": found, "decision": decision})


def test_what_ships_is_not_dominated_and_what_the_decision_says(plan):
    shipped = plan.recommendation.shipped
    assert shipped.dominated_by is None
    assert shipped.is_eligible
    assert plan.decision.proposer == shipped.speculation.proposer
    assert plan.decision.num_speculative_tokens == shipped.speculation.num_speculative_tokens
    assert plan.speedup.value == shipped.at("planned").speedup
    assert plan.speedup.interval[0] > 1.0
    assert plan.shipped == shipped


def test_regret_is_never_below_zero_and_zero_for_nobody_but_the_reference(plan):
    found = plan.recommendation
    names = {each.load: each.label for each in found.references}
    for way in found.ways:
        for result in way.loads:
            assert result.regret >= -1e-12
            assert result.regret_interval[0] <= result.regret <= result.regret_interval[1]
            if way.label == names[result.load]:
                assert result.regret == pytest.approx(0.0, abs=1e-12)
        if way.loads:
            assert way.expected_regret >= -1e-12


def test_the_oracle_is_a_bound_within_error(plan):
    for reference in plan.recommendation.references:
        assert reference.oracle_mean_e2e_s is not None
        for way in plan.recommendation.ways:
            for result in way.loads:
                if result.load != reference.load:
                    continue
                low, high = result.speedup_interval
                margin = (high - low) / result.speedup
                assert result.mean_e2e_s >= reference.oracle_mean_e2e_s * (1.0 - margin - 0.02)


def test_off_has_speed_up_one_and_every_other_is_measured_against_it(plan):
    off = plan.recommendation.way("off")
    for result in off.loads:
        assert result.speedup == 1.0
        assert result.speedup_interval == (1.0, 1.0)
    for way in plan.recommendation.ways:
        for each in way.loads:
            # Both sides of a pair differ, so the ratio of means is near the mean ratio, not equal.
            expected = off.at(each.load).mean_e2e_s / each.mean_e2e_s
            assert each.speedup == pytest.approx(expected, rel=0.2)


def test_the_fixed_ways_are_the_plans_candidates(plan):
    ways = {way.label: way for way in plan.recommendation.ways}
    for each in plan.candidates[1:]:
        way = ways[f"{each.proposer}, γ = {each.num_speculative_tokens}"]
        if way.loads:
            assert way.at("planned").speedup == pytest.approx(each.speedup.value)
        assert way.keeps_slo_as_off == each.meets_slo_as_off


def test_a_draft_length_of_zero_is_off_record_for_record(good_profile):
    scenario = make_scenario(good_profile, **BASE)
    runner = Runner(scenario, good_profile)
    truth = Replication(1, 0)
    way = fixed_way(scenario, "draft_model", 0)
    one = runner.run_way(truth, "draft_model", way.speculation)
    other = runner.run(truth, "draft_model", 0)
    assert np.array_equal(one.request_records, other.request_records)


def test_a_table_that_ends_in_zero_falls_back_there_by_itself(recorded_profile):
    scenario = make_scenario(recorded_profile, **{**BASE, **WIDE})
    basis = load_basis(recorded_profile, scenario)
    built = PolicyWays(scenario, basis, tuple(range(1, 9)))
    built.build(4)
    table = next(way for way in built.ways if way.kind == "batch_size_table")
    zero = [row.first for row in table.rows if row.num_speculative_tokens == 0]
    assert zero, "32 tokens a step are free, more are not: many requests cannot pay for drafts"
    edge = BreakEven("always_pays", None, None, "it pays everywhere", (), 1.0)
    found = fallback_of(table, built.times, edge, scenario, basis)
    assert found.batch_size == zero[0]
    assert found.is_automatic
    asked = scenario.with_(speculation=table.speculation.model_dump(mode="json"))
    at = at_rate(asked, found.off_above_rate_per_s)
    assert estimate_load(recorded_profile, at, basis).batch_size == pytest.approx(zero[0], rel=0.02)


def test_a_tables_rows_are_those_of_its_policy(table):
    rows = [list(row) for row in table.speculation.policy.table]
    assert rows == [[row.first, row.last, row.num_speculative_tokens] for row in table.rows]


def test_under_a_heavy_load_the_table_is_faster_than_its_longest_drafts(plan, table):
    longest = table.speculation.num_speculative_tokens
    fixed = plan.recommendation.way(f"draft_model, γ = {longest}")
    assert table.at("heavy").speedup > fixed.at("heavy").speedup


def test_a_shipped_table_reaches_the_engines(plan, table):
    shipped = shipping(plan, table)
    settings = engine_settings(shipped)
    config = json.loads(
        settings["vllm"].argv[settings["vllm"].argv.index("--speculative-config") + 1]
    )
    rows = [[row.first, row.last, row.num_speculative_tokens] for row in table.rows]
    assert config["num_speculative_tokens_per_batch_size"] == rows
    assert config["num_speculative_tokens"] == table.speculation.num_speculative_tokens
    assert settings["llama_cpp"].refusal is not None


def test_drafts_that_never_survive_ship_off(tmp_path):
    stored = make_profile(tmp_path / "none", Recording(acceptance=0.0))
    # No trees with vLLM: a tree takes the second choice too, which these requests accept.
    changes = {"workload.num_requests": 60, "deployment.preset": "vllm"}
    scenario = make_scenario(stored, **{**BASE, **changes})
    plan = make_plan(scenario, stored=stored, num_replications=2)
    assert plan.recommendation.chosen == "off"
    assert plan.recommendation.fallback is None
    assert plan.decision.choice == "off"
    assert plan.shipped is None
    assert "--speculative-config" not in engine_settings(plan)["vllm"].argv


def test_the_scenarios_own_policy_is_one_of_the_ways(recorded_profile):
    rows = [[1, 4, 6], [5, 99, 0]]
    policy = {"kind": "batch_size_table", "table": rows}
    scenario = make_scenario(
        recorded_profile,
        **{
            **BASE,
            "workload.num_requests": 60,
            "speculation.num_speculative_tokens": 6,
            "speculation.policy": policy,
        },
    )
    plan = make_plan(scenario, stored=recorded_profile, num_replications=2)
    own = next(way for way in plan.recommendation.ways if "the scenario's own" in way.label)
    assert [list(row) for row in own.speculation.policy.table] == rows
    assert not any("left out" in caveat for caveat in plan.caveats)


def test_a_published_profile_says_which_ways_it_cannot_tell(load_bundled):
    scenario, stored = load_bundled("h100_chat")
    scenario = scenario.with_(**{"workload.num_requests": 100})
    found = make_plan(scenario, stored=stored, num_replications=2).recommendation
    reasons = {each.label: each.reason for each in found.pruned}
    assert any("recorded requests" in reason for reason in reasons.values())
    assert "ranks" in reasons["eagle, tree"]
    assert all(each.oracle_mean_e2e_s is None for each in found.references)


def test_identity_is_checked_and_a_mismatch_is_shown(plan):
    fits = {each.what: each for each in plan.recommendation.identity}
    assert fits["target"].fit == "not_stated"
    sampling = fits["contract and sampling, draft_model on chat, code"]
    assert sampling.fit == "same"
    assert "greedy_equality" in sampling.asked


POLICIES = {
    "batch_size_table": BatchSizeTable(kind="batch_size_table", table=((1, 8, 4), (9, 64, 0))),
    "adaptive_ema": AdaptiveEMA(kind="adaptive_ema", candidates=(1, 4)),
    "acceptance_gate": AcceptanceGate(kind="acceptance_gate", threshold=0.3),
    "goodput": GoodputPolicy(kind="goodput"),
}


@pytest.mark.parametrize("kind", POLICIES)
def test_engines_that_are_said_to_run_a_policy_have_no_limit_against_it(plan, kind):
    proposer = plan.profile.proposers["draft_model"].model_copy(update={"kind": "eagle"})
    choice = Choice(plan, proposer, 4, POLICIES[kind])
    assert kind in {str(ability) for ability in needs(choice)}
    can = {
        name
        for name, writer in ENGINES.items()
        if not any(
            limit.ability == kind
            and limit.holds(choice, parse_version(writer.engine, writer.last, writer.first))
            for limit in writer.limits
        )
    }
    assert can == set(ENGINES_OF.get(kind, ()))


def test_a_plan_that_recommends_what_it_does_not_hold_is_refused(plan, tmp_path):
    raw = json.loads(plan.model_dump_json())
    raw["recommendation"]["chosen"] = "nobody"
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(raw))
    with pytest.raises(PlanError, match="holds no such way"):
        read_plan(path)
    raw["recommendation"]["chosen"] = "off"
    path.write_text(json.dumps(raw))
    with pytest.raises(PlanError, match="which differ"):
        read_plan(path)
