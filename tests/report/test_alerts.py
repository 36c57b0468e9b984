"""Monitoring rules: valid rule files, known metrics, and bounds that the plan's numbers give."""

import itertools
import json
import math
import re

import jsonschema
import pytest
import yaml

from simcore.cost.price import law_tables
from simcore.errors import SpecplanError
from simcore.planner.document import Plan
from simcore.planner.estimate import estimate_survival
from simcore.planner.speedup import speedup_point
from simcore.profile.importers import spec_counters, vllm_prometheus
from simcore.report.alert_rules import METRIC_NAME, WINDOWS_S, Selector, window_for
from simcore.report.alerts import alert_rules, alerts_yaml
from simcore.report.engine_metrics import METRICS
from simcore.report.expectation import (
    SPREAD_BETWEEN_REQUESTS,
    STANDARD_ERRORS,
    chosen_candidate,
    expected_acceptance,
)
from tests.report.test_engine_limits import STATIC, TABLE, asked
from tests.report.test_flags import decided, given, proposer

DURATION = r"^(0m|([1-9]\d*(ms|s|m|h|d|w|y))+)$"
RULE_FILE = {
    "type": "object",
    "required": ["groups"],
    "additionalProperties": False,
    "properties": {
        "groups": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "required": ["name", "rules"],
                "additionalProperties": False,
                "properties": {
                    "name": {"type": "string", "minLength": 1},
                    "interval": {"type": "string", "pattern": DURATION},
                    "rules": {
                        "type": "array",
                        "minItems": 1,
                        "items": {
                            "type": "object",
                            "required": ["alert", "expr"],
                            "additionalProperties": False,
                            "properties": {
                                "alert": {"type": "string", "pattern": "^[A-Za-z_]\\w*$"},
                                "expr": {"type": "string", "minLength": 1},
                                "for": {"type": "string", "pattern": DURATION},
                                "labels": {
                                    "type": "object",
                                    "propertyNames": {"pattern": "^[A-Za-z_]\\w*$"},
                                    "additionalProperties": {"type": "string"},
                                },
                                "annotations": {
                                    "type": "object",
                                    "propertyNames": {"pattern": "^[A-Za-z_]\\w*$"},
                                    "additionalProperties": {"type": "string"},
                                },
                            },
                        },
                    },
                },
            },
        }
    },
}
WORDS = {
    *("sum", "avg", "max", "by", "and", "increase", "rate", "avg_over_time"),
    *("histogram_quantile", "model_name", "position", "le"),
}
NUMBER = r"(?:\d+(?:\.\d+)?(?:e[+-]?\d+)?)"


def rules_of(plan: Plan, engine: str) -> dict[str, dict]:
    document = yaml.safe_load(alerts_yaml(plan, engine))
    jsonschema.validate(document, RULE_FILE)
    (group,) = document["groups"]
    found = {rule["alert"]: rule for rule in group["rules"]}
    assert len(found) == len(group["rules"])
    return found


def check_expression(expression: str, engine: str) -> None:
    """Balanced, and of known metrics, functions, labels, durations and numbers only."""
    text = re.sub(r'"[^"]*"', '""', expression)
    pairs = {")": "(", "]": "[", "}": "{"}
    opened: list[str] = []
    for sign in text:
        if sign in pairs.values():
            opened.append(sign)
        elif sign in pairs:
            assert opened
            assert opened.pop() == pairs[sign]
    assert opened == []
    text = re.sub(r"\[[1-9]\d*[mhd](:1m)?\]", "", text)
    assert "[" not in text
    names = set(METRIC_NAME.findall(re.sub(rf"(?<![\w:]){NUMBER}", "", text)))
    assert names <= WORDS | METRICS[engine].names(), names


def bound(rule: dict, sign: str) -> float:
    return float(re.search(rf"{sign} ({NUMBER})(?: and|$)", rule["expr"])[1])


def least_count(rule: dict) -> float:
    return float(re.search(rf">= ({NUMBER})$", rule["expr"])[1])


@pytest.fixture
def draft_plan(plan) -> Plan:
    """The plan of an EAGLE head on a target with a hub's name."""
    raw = json.loads(plan.model_dump_json())
    raw["profile"]["identity"]["target"]["name"] = "acme/tgt-8b"
    return Plan.model_validate_json(json.dumps(raw))


@pytest.fixture
def ngram_plan(plan) -> Plan:
    """The same plan as if its drafts were looked up."""
    name = plan.decision.proposer
    return given(plan, plan.profile.proposers | {name: proposer("ngram")["it"]})


@pytest.mark.parametrize("engine", METRICS)
@pytest.mark.parametrize("kind", ["draft", "ngram", "off"])
def test_the_rules_are_a_rule_file_of_known_metrics(draft_plan, ngram_plan, plan, engine, kind):
    chosen = {"draft": draft_plan, "ngram": ngram_plan, "off": decided(plan, 0)}[kind]
    for rule in rules_of(chosen, engine).values():
        check_expression(rule["expr"], engine)
        assert rule["annotations"]["bound"]
        assert rule["labels"]["severity"] in ("info", "warning", "critical")


def test_the_names_are_those_that_importers_read():
    names = METRICS["vllm"].names()
    for counter in (spec_counters.DRAFTS, spec_counters.ACCEPTED, spec_counters.BY_POSITION):
        assert f"{vllm_prometheus.PREFIX}:{counter}" in names
    assert "vllm:generation_tokens_total" in names
    assert "vllm:inter_token_latency_seconds_bucket" not in names  # gaps between bursts


def test_only_series_of_the_plans_model_are_read(draft_plan):
    for rule in rules_of(draft_plan, "vllm").values():
        read = re.findall(r"vllm:\w+(\{[^}]*\})?", rule["expr"])
        assert all('model_name="acme/tgt-8b"' in labels for labels in read)


@pytest.mark.parametrize("text", ['x"} or vector(1) #', "{{ .Labels }}", "a b", "x\n- y: z"])
def test_an_unsafe_name_selects_every_model_and_reaches_no_rule(plan, text):
    raw = json.loads(plan.model_dump_json())
    raw["profile"]["identity"]["target"]["name"] = text
    raw["scenario"]["name"] = text
    hostile = Plan.model_validate_json(json.dumps(raw))
    assert Selector.of(text).series("m") == "m"
    assert alerts_yaml(hostile, "vllm") == alerts_yaml(plan, "vllm")


def test_speculation_stops_paying_where_the_closed_form_says(plan, stored):
    """E[Y] / S of the simulated service is near t_cycle / t_1 by the cost law alone."""
    chosen = chosen_candidate(plan)
    gamma = chosen.num_speculative_tokens
    point = speedup_point(
        law_tables(stored.profile.cost, None),
        law_tables(stored.profile.cost, chosen.proposer),
        estimate_survival(stored, plan.scenario, chosen.proposer)[gamma],
        max(1, round(chosen.summary.mean_batch_size)),
        round(chosen.summary.mean_context_tokens),
    )
    expected = expected_acceptance(plan)
    assert expected.flip_length == pytest.approx(point.break_even_tokens, rel=0.1)
    rule = rules_of(plan, "vllm")["SpecplanSpeculationNoLongerPays"]
    assert bound(rule, "<") == pytest.approx(expected.flip_length, rel=1e-3)
    assert rule["labels"]["severity"] == "critical"


def test_the_mean_acceptance_length_is_that_of_the_counted_cycles(plan):
    counts = chosen_candidate(plan).summary.tokens.accepted_length_counts
    expected = expected_acceptance(plan)
    mean = sum(k * n for k, n in enumerate(counts)) / sum(counts)
    assert expected.length == pytest.approx(1.0 + mean)
    assert sum(expected.survival) == pytest.approx(mean)
    assert all(a >= b for a, b in itertools.pairwise(expected.survival))


def test_a_window_holds_the_cycles_that_tell_the_difference(plan):
    expected = expected_acceptance(plan)
    rule = rules_of(plan, "vllm")["SpecplanAcceptanceBelowPlan"]
    difference = expected.length - expected.lowest_length
    needed = least_count(rule)
    error = SPREAD_BETWEEN_REQUESTS * expected.deviation / math.sqrt(needed)
    assert STANDARD_ERRORS * error <= difference
    assert WINDOWS_S[rule["for"]] * expected.cycles_per_s >= needed
    shorter = [name for name, s in WINDOWS_S.items() if s < WINDOWS_S[rule["for"]]]
    assert all(WINDOWS_S[name] * expected.cycles_per_s < needed for name in shorter)


def test_bounds_lie_between_flip_and_plan_in_order(plan):
    expected, rules = expected_acceptance(plan), rules_of(plan, "vllm")
    below = bound(rules["SpecplanAcceptanceBelowPlan"], "<")
    above = bound(rules["SpecplanAcceptanceAbovePlan"], ">")
    assert expected.flip_length < below < expected.length < above


def test_every_position_has_its_survival_and_label(plan):
    expected, rules = expected_acceptance(plan), rules_of(plan, "vllm")
    for depth, survival in enumerate(expected.survival, start=1):
        rule = rules[f"SpecplanSurvivalBelowPlanAtPosition{depth}"]
        assert f'position="{depth - 1}"' in rule["expr"]
        assert 0.5 * survival < bound(rule, "<") < survival


def test_a_lookup_is_watched_by_cycles_and_not_by_drafts(ngram_plan):
    rules = rules_of(ngram_plan, "vllm")
    expression = rules["SpecplanAcceptanceBelowPlan"]["expr"]
    assert "num_drafts" not in expression
    assert "generation_tokens_total" in expression
    assert not any("Position" in name for name in rules)


def test_sglang_is_watched_by_its_gauge_and_verified_cycles(plan):
    rules = rules_of(plan, "sglang")
    expression = rules["SpecplanAcceptanceBelowPlan"]["expr"]
    assert "sglang:spec_accept_length" in expression
    assert "sglang:spec_verify_calls_total" in expression
    assert not any("Position" in name for name in rules)


def test_off_has_no_rule_about_acceptance(plan):
    for engine in METRICS:
        assert not any(
            "Acceptance" in name or "Survival" in name or "Pays" in name
            for name in rules_of(decided(plan, 0), engine)
        )


@pytest.mark.parametrize(
    ("gamma", "edge", "name", "sign"),
    [(7, 10.0, "SpecplanLoadAboveBreakEven", ">"), (0, 5.0, "SpecplanLoadBelowBreakEven", "<")],
)
def test_the_break_even_load_is_watched_from_the_side_of_the_decision(
    plan, gamma, edge, name, sign
):
    raw = json.loads(plan.model_dump_json())
    raw["break_even"] |= {"rate_per_s": edge, "interval": [0.8 * edge, 1.2 * edge]}
    if gamma == 0:
        raw["decision"] |= {"choice": "off", "proposer": None, "num_speculative_tokens": 0}
    rule = rules_of(Plan.model_validate_json(json.dumps(raw)), "vllm")[name]
    assert bound(rule, sign) == edge
    window_s = WINDOWS_S[rule["for"]]
    assert window_s * edge >= 400  # a Poisson count known to 5 %
    assert f"{0.8 * edge:.3g} to {1.2 * edge:.3g}" in rule["annotations"]["bound"]


def test_memory_and_queue_have_the_simulations_bounds(plan):
    rules, summary = rules_of(plan, "vllm"), chosen_candidate(plan).summary
    peak = summary.kv.peak_used_fraction
    assert bound(rules["SpecplanKVAbovePlan"], ">") == pytest.approx(peak, rel=1e-3)
    raw = json.loads(plan.model_dump_json())
    for each in raw["candidates"]:
        each["summary"] |= {"num_preemptions": 36, "duration_s": 3600.0, "request_rate_per_s": 9.0}
        each["summary"]["queue"]["p99_s"] = 2.0
    busy = rules_of(Plan.model_validate_json(json.dumps(raw)), "vllm")
    assert bound(busy["SpecplanPreemptionsAbovePlan"], ">") == pytest.approx(36 + 3 * 6)
    assert bound(busy["SpecplanQueueAbovePlan"], ">") == pytest.approx(18.0)


def test_burn_rates_are_quantiles_above_the_limit_in_two_windows(plan):
    assert plan.scenario.slo.tpot_s == 0.02
    rule = rules_of(plan, "vllm")["SpecplanTPOTBurns6x"]
    # Six times a budget of 5 % is 30 %: the 70th percentile misses.
    assert rule["expr"].count("histogram_quantile(0.7,") == 2
    assert "[30m]" in rule["expr"]
    assert "[6h]" in rule["expr"]
    assert bound(rule, ">") == 0.02
    assert not any("E2E" in name for name in rules_of(plan, "vllm"))


def test_a_policy_of_one_length_or_off_is_watched_as_that_length(plan):
    one = {"kind": "batch_size_table", "table": [[1, 32, 3], [33, 64, 0]]}
    wanted = plan.scenario.with_(
        **{"speculation.num_speculative_tokens": 3, "speculation.policy": one}
    )
    own = plan.model_copy(update={"scenario": wanted})
    expected = expected_acceptance(own)
    assert len(expected.survival) == 3
    assert expected.length < expected_acceptance(plan).length


@pytest.mark.parametrize("way", [{"policy": TABLE}, STATIC], ids=["two lengths", "a tree"])
def test_what_the_plan_holds_no_candidate_for_is_not_watched(plan, way):
    assert expected_acceptance(asked(plan, **way)) is None
    assert "SpecplanAcceptanceBelowPlan" not in rules_of(asked_off(plan, way), "vllm")


def asked_off(plan: Plan, way: dict) -> Plan:
    """The plan's own decision with the scenario's own way."""
    scenario = plan.scenario.with_(
        **{f"speculation.{key}": value for key, value in way.items()},
        **({} if "num_speculative_tokens" in way else {"speculation.num_speculative_tokens": 4}),
    )
    return plan.model_copy(update={"scenario": scenario})


def test_windows_are_the_shortest_that_last_long_enough():
    assert window_for(1.0) == "5m"
    assert window_for(300.1) == "10m"
    assert window_for(1e9) == "1d"


def test_an_engine_without_rules_is_refused(plan):
    with pytest.raises(SpecplanError, match="expected vllm or sglang"):
        alert_rules(plan, "llama_cpp")
