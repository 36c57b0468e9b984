"""Two plans compared: nothing where they are the same, else exactly what changed."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcore import diff_plans
from simcore.planner.document import Plan
from simcore.planner.plan import make_plan
from simcore.planner.plan_diff import PlanDiff, _separation, diff_scenarios
from simcore.planner.plan_file import read_plan
from simcore.report.diff_text import diff_text
from tests.factories import make_scenario

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "h100_chat"
SMALL = {"workload.num_requests": 40, "speculation.proposer": "draft_model"}


def planned(stored, **changes) -> Plan:
    return make_plan(
        make_scenario(stored, **{**SMALL, **changes}), stored=stored, num_replications=2
    )


@pytest.fixture(scope="module")
def plan(recorded_profile) -> Plan:
    return planned(recorded_profile)


@pytest.fixture(scope="module")
def reseeded(recorded_profile) -> Plan:
    return planned(recorded_profile, seed=99)


def changed(plan: Plan, **sections) -> Plan:
    """The plan with fields of its sections replaced."""
    raw = json.loads(plan.model_dump_json())
    for name, fields in sections.items():
        raw[name] = raw[name] | fields if isinstance(fields, dict) else fields
    return Plan.model_validate_json(json.dumps(raw))


def test_a_plan_and_itself_do_not_differ(plan):
    found = diff_plans(plan, plan)
    assert found.is_empty
    assert diff_text(found).endswith("No difference.")


def test_another_seed_is_named_as_the_only_input_and_moves_the_numbers(plan, reseeded):
    found = diff_plans(plan, reseeded)
    assert [(each.field, each.b) for each in found.inputs] == [("scenario.seed", 99)]
    assert found.metrics
    assert not found.is_empty


def test_another_rate_is_named_with_both_values(plan, recorded_profile):
    rate = plan.scenario.workload.arrivals.rate_per_s
    arrivals = {"kind": "poisson", "rate_per_s": 2 * rate}
    found = diff_plans(plan, planned(recorded_profile, **{"workload.arrivals": arrivals}))
    (change,) = found.inputs
    assert (change.field, change.a, change.b) == (
        "scenario.workload.arrivals.rate_per_s",
        rate,
        2 * rate,
    )
    goodput = [each for each in found.metrics if each.metric == "output_rate_tokens_per_s"]
    assert all(each.relative > 0.1 for each in goodput)


def test_capacities_are_compared_by_their_intervals_and_a_missing_one_is_named(plan):
    with_one = plan.model_copy(update={"capacity": read_plan(EXAMPLE).capacity})
    missing = diff_plans(plan, with_one)
    assert not missing.is_empty
    assert {(each.service, each.a, each.verdict) for each in missing.capacity} == {
        ("off", None, "unknown"),
        ("on", None, "unknown"),
    }
    assert "capacity off A, not searched" in diff_text(missing)
    assert diff_plans(with_one, with_one).is_empty
    low, high = with_one.capacity.off.interval
    width = high - low
    for shift, verdict in ((0.5 * width, "indistinguishable"), (2 * width, "higher")):
        interval = (low + shift, high + shift)
        off = with_one.capacity.off.model_copy(update={"interval": interval})
        capacity = with_one.capacity.model_copy(update={"off": off})
        found = diff_plans(with_one, with_one.model_copy(update={"capacity": capacity}))
        assert [(each.service, each.verdict) for each in found.capacity] == [("off", verdict)]
        assert f"capacity off of B: {verdict}" in diff_text(found)


def test_version_and_profile_hash_are_inputs(plan):
    other = changed(plan, origin={"specplan_version": "9"}, profile={"sha256": "f" * 64})
    fields = [each.field for each in diff_plans(plan, other).inputs]
    assert fields == ["specplan_version", "profile.sha256"]


def test_candidates_of_one_side_are_listed_and_not_compared(plan, recorded_profile):
    other = planned(recorded_profile, **{"speculation.proposer": "ngram"})
    found = diff_plans(plan, other)
    assert all(name.startswith("draft_model") for name in found.only_in_a)
    assert all(name.startswith("ngram") for name in found.only_in_b)
    assert len(found.only_in_a) == len(found.only_in_b) == 8
    assert {each.candidate for each in found.metrics} <= {"off"}


def test_the_other_way_round_mirrors_every_change(plan, reseeded):
    there, back = diff_plans(plan, reseeded), diff_plans(reseeded, plan)
    mirror = {"higher": "lower", "lower": "higher", "indistinguishable": "indistinguishable"}
    assert [(e.candidate, e.a, mirror[e.verdict]) for e in there.speedups] == [
        (e.candidate, e.b, e.verdict) for e in back.speedups
    ]
    assert [(e.metric, e.a, e.b) for e in there.metrics] == [
        (e.metric, e.b, e.a) for e in back.metrics
    ]


interval = st.tuples(st.floats(0.1, 10), st.floats(0.1, 10)).map(sorted).map(tuple)


@given(interval, interval)
def test_intervals_are_told_apart_exactly_where_no_value_is_in_both(a, b):
    share = max(a[0], b[0]) <= min(a[1], b[1])
    assert (_separation(a, b) == "indistinguishable") == share
    if not share:
        assert _separation(a, b) == ("higher" if sum(b) > sum(a) else "lower")


def test_speedups_that_lie_apart_are_told_apart(plan):
    raw = json.loads(plan.model_dump_json())
    raw["candidates"][1]["speedup"] |= {"value": 90.0, "interval": [80.0, 100.0]}
    (change,) = diff_plans(plan, changed(plan, candidates=raw["candidates"])).speedups
    assert (change.candidate, change.verdict, change.b) == ("draft_model, γ = 1", "higher", 90.0)


def test_a_decision_and_a_break_even_that_moved_are_shown_with_their_units(plan):
    edge = {"rate_per_s": 3.0, "interval": [2.0, 4.0], "reason": "above 3 requests a second"}
    one = changed(plan, break_even=edge)
    other = changed(
        plan,
        break_even=edge | {"rate_per_s": 7.0, "interval": [6.0, 8.0]},
        decision={"choice": "off", "proposer": None, "num_speculative_tokens": 0}
        | {"verdict": "misses_slo"},
    )
    found = diff_plans(one, other)
    assert found.break_even.verdict == "higher"
    text = diff_text(found)
    assert "3.00 requests/s (2.00 requests/s to 4.00 requests/s)" in text
    assert "decision B: off (misses slo)" in text


def test_two_scenarios_differ_in_what_is_asked_only(plan):
    other = plan.scenario.with_(**{"seed": 5, "speculation.proposer": "ngram"})
    found = diff_scenarios(plan.scenario, other)
    assert {each.field for each in found.inputs} == {
        "scenario.seed",
        "scenario.speculation.proposer",
    }
    assert not found.has_results
    assert "takes two plans" in diff_text(found)


def test_a_diff_comes_back_from_its_json(plan, reseeded):
    found = diff_plans(plan, reseeded)
    assert PlanDiff.model_validate_json(found.model_dump_json()) == found


def test_a_hostile_name_stays_on_its_line(plan):
    other = changed(plan, scenario={"name": "x\x1b[2J\n  decision B: pays\u202e"})
    lines = diff_text(diff_plans(plan, other)).splitlines()
    assert lines[1] == "B: x<U+001B>[2J decision B: pays<U+202E>"
    assert not any("\x1b" in line or "\u202e" in line for line in lines)
