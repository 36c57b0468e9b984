"""The load test: loads that decide, as many requests as they need, and what refutes the plan."""

import json
import math
import os
import shlex
import subprocess

import pytest

from simcore.errors import SpecplanError
from simcore.planner.document import Plan
from simcore.report.load_test import (
    ARMS,
    LEAST_HALF_WIDTH,
    LEAST_RUN_S,
    NUM_SEEDS,
    guidellm_command,
    load_test,
    load_test_script,
    load_test_text,
    server_commands,
    vllm_command,
)
from simcore.report.vllm_flags import pinned_acceptance
from tests.report.hostile import TEXTS
from tests.report.test_flags import given, proposer


@pytest.fixture
def test_of(plan):
    """The load test of the plan with changed parts of its document."""

    def make(edge=None, workload=None, **options):
        raw = json.loads(plan.model_dump_json())
        raw["break_even"] |= edge or {}
        raw["scenario"]["workload"] |= workload or {}
        return load_test(Plan.model_validate_json(json.dumps(raw)), **options)

    return make


def option(argv: tuple[str, ...], name: str) -> str:
    return argv[argv.index(name) + 1]


def test_without_a_break_even_the_heaviest_load_that_off_sustains_is_tested(test_of, plan):
    loads = {load.name: load.rate_per_s for load in test_of().loads}
    assert set(loads) == {"light", "planned", "heavy"}
    assert loads["planned"] == 8.0
    assert loads["heavy"] <= plan.break_even.saturation_rate_per_s


@pytest.mark.parametrize(
    ("interval", "below", "above"),
    [([7.0, 15.0], 7.0, 15.0), ([9.9, 10.1], 9.0, 11.0), (None, 9.0, 11.0)],
)
def test_both_sides_of_break_even_are_tested(test_of, interval, below, above):
    test = test_of(edge={"rate_per_s": 10.0, "interval": interval})
    loads = {load.name: load.rate_per_s for load in test.loads}
    assert loads["below_break_even"] == pytest.approx(below)
    assert loads["above_break_even"] == pytest.approx(above)
    assert [load.rate_per_s for load in test.loads] == sorted(loads.values())


def test_the_number_of_prompts_reaches_the_confidence_that_is_asked(test_of, plan):
    for load in test_of().loads:
        # The same formula from the other end: two means of lognormal times.
        shipped = plan.decision.proposer, plan.decision.num_speculative_tokens
        e2e = next(
            each.summary.e2e
            for each in plan.candidates
            if (each.proposer, each.num_speculative_tokens) == shipped
        )
        sigma = math.log(e2e.p90_s / e2e.p50_s) / 1.281552
        error = math.sqrt(2.0 * math.expm1(sigma**2) / load.num_prompts)
        assert 1.96 * error <= LEAST_HALF_WIDTH * 1.001
        assert load.half_width == pytest.approx(1.96 * error, rel=1e-4)
        assert load.run_s >= LEAST_RUN_S


def test_the_expected_speedup_is_the_curves_at_its_own_loads(test_of, plan):
    light = test_of().loads[0]
    point = plan.break_even.curve[0]
    assert light.expected.speedup == pytest.approx(point.speedup)
    assert light.expected.interval == pytest.approx(point.interval)


def test_vllm_gets_the_plans_load_lengths_sampling_and_limits(test_of):
    test = test_of()
    load = next(each for each in test.loads if each.name == "planned")
    argv = vllm_command(test, load, "on", 1)
    assert argv[:3] == ("vllm", "bench", "serve")
    assert option(argv, "--request-rate") == "8"
    assert option(argv, "--burstiness") == "1"
    assert option(argv, "--seed") == "2"
    assert option(argv, "--random-input-len") == "300"
    assert option(argv, "--random-output-len") == "200"
    assert option(argv, "--temperature") == "0"
    at = argv.index("--goodput")
    assert argv[at + 1 : at + 3] == ("ttft:500", "tpot:20")
    assert int(option(argv, "--num-prompts")) * NUM_SEEDS >= load.num_prompts
    assert option(argv, "--result-filename") == "planned-on-2.json"


def test_guidellm_gets_the_same_load(test_of):
    test = test_of()
    argv = guidellm_command(test, test.loads[1], "off", 0)
    assert option(argv, "--profile") == "poisson"
    assert option(argv, "--rate") == "8"
    assert option(argv, "--random-seed") == "1"
    assert "prompt_tokens=300,output_tokens=200" in option(argv, "--data")


@pytest.mark.parametrize(
    ("cv", "burstiness", "profile"), [(4.0, "0.0625", "poisson"), (0.0, "1e+06", "constant")]
)
def test_bursts_keep_their_shape(test_of, cv, burstiness, profile):
    test = test_of(workload={"arrivals": {"kind": "gamma", "rate_per_s": 8.0, "cv": cv}})
    assert option(vllm_command(test, test.loads[0], "off", 0), "--burstiness") == burstiness
    assert option(guidellm_command(test, test.loads[0], "off", 0), "--profile") == profile


def test_a_closed_loop_has_no_planned_rate(test_of):
    test = test_of(workload={"arrivals": {"kind": "closed_loop", "num_clients": 4}})
    assert [load.name for load in test.loads] == ["light", "heavy"]


def test_other_lengths_are_taken_as_simulated(test_of):
    test = test_of(workload={"lengths": {"kind": "recorded"}})
    assert test.lengths.output_tokens > 1
    assert test.lengths.prompt_tokens > 1


def test_random_prompts_are_served_under_the_plans_acceptance(test_of, plan):
    commands = server_commands(test_of())
    assert set(commands) == {"off", "on", "pinned"}
    assert "speculative" not in commands["off"]
    argv = shlex.split(commands["pinned"])
    config = json.loads(argv[argv.index("--speculative-config") + 1])
    rates = config["synthetic_acceptance_rates"]
    assert len(rates) == config["num_speculative_tokens"]
    assert rates == sorted(rates, reverse=True)
    length = 1.0 + sum(rates)
    assert length == pytest.approx(test_of().acceptance.length, rel=1e-3)


def test_pinned_rates_never_rise():
    found = json.loads(pinned_acceptance('{"a":1}', (0.5, 0.6, 0.1)))
    assert found["synthetic_acceptance_rates"] == [0.5, 0.5, 0.1]
    assert found["a"] == 1


def test_a_lookup_cannot_be_pinned(plan):
    lookup = given(plan, plan.profile.proposers | {"eagle": proposer("ngram")["it"]})
    test = load_test(lookup)
    assert set(server_commands(test)) == {"off", "on"}
    assert "own prompts" in load_test_text(test)


def test_a_plan_for_off_tests_its_best_candidate_against_it(plan):
    raw = json.loads(plan.model_dump_json())
    raw["decision"] |= {"choice": "off", "proposer": None, "num_speculative_tokens": 0}
    test = load_test(Plan.model_validate_json(json.dumps(raw)))
    gamma = plan.break_even.num_speculative_tokens
    assert f'"num_speculative_tokens":{gamma}' in server_commands(test)["on"]
    assert test.plan.decision.choice == "off"


def test_the_text_states_what_refutes_the_plan(test_of, plan):
    text = load_test_text(test_of())
    low, high = plan.break_even.curve[0].interval
    assert f"{low:.3f} to {high:.3f}" in text
    assert "spec_decode_acceptance_length" in text
    assert "Refuted where" in text


def run(script: str, folder, *arguments: str) -> tuple[int, str, list[list[str]]]:
    """Exit code, stderr, and the arguments of every call of a stand-in."""
    for name in ("vllm", "guidellm"):
        path = folder / name
        path.write_text(
            f"#!/bin/sh\nprintf '%s\\0' \"$@\" >> '{folder}/calls'\necho >> '{folder}/calls'\n"
        )
        path.chmod(0o755)
    (folder / "load_test.sh").write_text(script)
    done = subprocess.run(
        ["bash", str(folder / "load_test.sh"), *arguments],
        env={"PATH": f"{folder}:{os.environ['PATH']}", "HOME": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    calls = folder / "calls"
    lines = calls.read_text().split("\0\n")[:-1] if calls.exists() else []
    return done.returncode, done.stderr, [line.split("\0") for line in lines]


@pytest.mark.parametrize("tool", ["vllm", "guidellm"])
@pytest.mark.parametrize("arm", ARMS)
def test_the_script_runs_every_load_and_seed_of_one_arm(test_of, tmp_path, arm, tool):
    test = test_of()
    code, _, calls = run(load_test_script(test), tmp_path, arm, tool)
    assert code == 0
    make = vllm_command if tool == "vllm" else guidellm_command
    expected = [make(test, load, arm, seed) for load in test.loads for seed in range(NUM_SEEDS)]
    assert calls == [list(argv[1:]) for argv in expected]


def test_the_script_says_how_it_is_used(test_of, tmp_path):
    code, stderr, calls = run(load_test_script(test_of()), tmp_path)
    assert (code, calls) == (2, [])
    assert "usage" in stderr


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_a_hostile_dataset_or_address_stays_one_argument(test_of, tmp_path, text):
    address = "http://localhost/" + "".join(c for c in text if c.isprintable() and c != " ")
    test = test_of(dataset=text, base_url=address)
    code, _, calls = run(load_test_script(test), tmp_path, "off")
    assert code == 0
    assert calls[0] == list(vllm_command(test, test.loads[0], "off", 0)[1:])
    assert text in calls[0]
    assert address in calls[0]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        ["calls", "guidellm", "load_test", "load_test.sh", "vllm"]
    )


@pytest.mark.parametrize(
    "text",
    ["javascript:x", "host:8000", "ftp://h", "http://", "http://h:x", "http://a b", "", *TEXTS],
)
def test_an_address_that_nobody_can_ask_is_refused(test_of, text):
    with pytest.raises(SpecplanError, match="expected where the service listens"):
        test_of(base_url=text)


@pytest.mark.parametrize("text", ["https://me@host.example:8443/v", "http://[::1]:8000"])
def test_another_address_is_asked(test_of, text):
    test = test_of(base_url=text)
    assert option(vllm_command(test, test.loads[0], "off", 0), "--base-url") == text


def test_a_hostile_plan_runs_nothing_else(hostile_plan, hostile_text, tmp_path):
    script = load_test_script(load_test(hostile_plan))
    assert hostile_text not in script
    code, _, calls = run(script, tmp_path, "on")
    assert code == 0
    assert all(call[:2] == ["bench", "serve"] for call in calls)
