"""The load test of a plan: which loads decide, how many requests each needs, what would refute it.

Every load is run twice, with and without speculation, under the same seeds. Written for
`vllm bench serve` of vLLM 0.32 and GuideLLM 0.8.
"""

import math
import shlex
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

import numpy as np

from simcore.errors import SpecplanError
from simcore.planner.document import LoadSpeedup, Plan
from simcore.report.engine import HUB_ID, choice_of
from simcore.report.expectation import (
    Acceptance,
    chosen_candidate,
    decoding_speedup,
    expected_acceptance,
)
from simcore.report.flags import comment, engine_settings
from simcore.report.units import seconds
from simcore.report.vllm_flags import pinned_acceptance
from simcore.workload.load import mean_rate_per_s
from simcore.workload_kinds import FixedLengths, GammaArrivals, LognormalLengths

BASE_URL = "http://localhost:8000"
ARMS: tuple[Literal["off", "on"], ...] = ("off", "on")
NUM_SEEDS = 3  # runs of every load and arm: requests of one run share its queue
EDGE_SHARE = 0.1  # how far beside a break-even rate without an interval
LEAST_HALF_WIDTH = 0.05  # of ln(off / on): a tighter answer decides nothing
LEAST_RUN_S, LEAST_RUN_REQUESTS = 60.0, 20  # as long as so many requests of the 95th percentile
NORMAL_95 = 1.959964
DECILE_90 = 1.281552
MIN_PROMPTS, MAX_PROMPTS = 100, 20_000
EVENLY = 1e6  # burstiness of arrivals without spread
WIDEST_RANGE = 0.9
PERCENTILES = "50,90,95,99"


@dataclass(frozen=True)
class TestLoad:
    """One load at which off and on are compared."""

    name: str
    rate_per_s: float  # of the whole service
    why: str
    expected: LoadSpeedup  # speed-up of mean E2E; its interval is the plan's, between two loads
    num_prompts: int  # of one arm, over all seeds
    half_width: float  # of ln(off / on) at 95 %, that so many prompts reach

    @property
    def run_s(self) -> float:
        """Until the last request of a run arrives."""
        return self.prompts_a_run / self.rate_per_s

    @property
    def prompts_a_run(self) -> int:
        """Of one seed."""
        return math.ceil(self.num_prompts / NUM_SEEDS)


@dataclass(frozen=True)
class Lengths:
    """Prompt and output lengths of synthetic requests, tokens."""

    prompt_tokens: int
    output_tokens: int
    prompt_cv: float
    output_cv: float

    @property
    def range_ratio(self) -> float:
        """Half width of vLLM's uniform lengths that has the outputs' spread, at most 0.9."""
        return min(WIDEST_RANGE, round(math.sqrt(3.0) * self.output_cv, 2))


@dataclass(frozen=True)
class LoadTest:
    """Loads, and what the plan expects of the planned one."""

    plan: Plan
    contender: Plan  # the same, deciding for its best candidate where it decides for off
    loads: tuple[TestLoad, ...]
    acceptance: Acceptance | None
    lengths: Lengths
    dataset: str | None  # the user's own prompts; None: random ones
    base_url: str

    @property
    def model(self) -> str:
        """As the server names it."""
        name = self.plan.profile.identity.target.name
        return name if HUB_ID.fullmatch(name) else "TARGET_MODEL"


def load_test(plan: Plan, *, dataset: str | None = None, base_url: str = BASE_URL) -> LoadTest:
    """The loads that decide: light, planned, and both sides of break-even or saturation.

    Whether `dataset` is there is for the machine to say that will run the commands. Raises
    SpecplanError for a `base_url` that no load generator could ask.
    """
    _check_url(base_url)
    loads = tuple(_test_load(plan, *each) for each in _loads(plan))
    on = contender(plan)
    return LoadTest(plan, on, loads, expected_acceptance(on), _lengths(plan), dataset, base_url)


def _check_url(text: str) -> None:
    """Raise SpecplanError unless it is an address of HTTP with a host."""
    try:
        url = urlsplit(text)
        is_address = url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
    except ValueError:  # a host or a port that is none
        is_address = False
    if not is_address or not text.isprintable() or " " in text:
        raise SpecplanError(
            f"base URL {text!r}; expected where the service listens, as http://localhost:8000"
        )


def contender(plan: Plan) -> Plan:
    """The plan as if it had decided for its best candidate: what the arm `on` runs."""
    if plan.decision.choice == "speculate":
        return plan
    edge = plan.break_even
    changes = {
        "choice": "speculate",
        "proposer": edge.proposer,
        "num_speculative_tokens": edge.num_speculative_tokens,
    }
    return plan.model_copy(update={"decision": plan.decision.model_copy(update=changes)})


def vllm_command(test: LoadTest, load: TestLoad, arm: str, run: int) -> tuple[str, ...]:
    """`vllm bench serve` of one run; `run` from 0."""
    plan, seed = test.plan, test.plan.scenario.seed + run
    argv = ["vllm", "bench", "serve", "--backend", "openai", "--base-url", test.base_url]
    argv += ["--model", test.model, *_vllm_dataset(test)]
    argv += ["--num-prompts", str(load.prompts_a_run), "--request-rate", f"{load.rate_per_s:.4g}"]
    argv += ["--burstiness", f"{_burstiness(plan):.4g}", "--seed", str(seed)]
    sampling = plan.scenario.sampling
    argv += ["--temperature", f"{sampling.temperature:g}", "--top-p", f"{sampling.top_p:g}"]
    argv += ["--top-k", str(sampling.top_k)] if sampling.top_k else []
    argv += ["--percentile-metrics", "ttft,tpot,itl,e2el", "--metric-percentiles", PERCENTILES]
    argv += _goodput(plan)
    argv += ["--save-result", "--save-detailed", "--result-dir", "load_test"]
    argv += ["--result-filename", f"{load.name}-{arm}-{run + 1}.json"]
    return (*argv, "--metadata", f"arm={arm}", f"load={load.name}")


def guidellm_command(test: LoadTest, load: TestLoad, arm: str, run: int) -> tuple[str, ...]:
    """`guidellm benchmark` of one run; the same load, its own latencies."""
    plan = test.plan
    arrivals = plan.scenario.workload.arrivals
    evenly = isinstance(arrivals, GammaArrivals) and arrivals.cv == 0.0
    return (
        *("guidellm", "benchmark", "--target", test.base_url, "--model", test.model),
        *("--profile", "constant" if evenly else "poisson"),
        *("--rate", f"{load.rate_per_s:.4g}", "--max-requests", str(load.prompts_a_run)),
        *("--random-seed", str(plan.scenario.seed + run)),
        *("--data", test.dataset or _guidellm_data(test.lengths)),
        *("--output-dir", f"load_test/{load.name}-{arm}-{run + 1}", "--outputs", "json"),
    )


def server_commands(test: LoadTest) -> dict[str, str]:
    """Arm -> how to start vLLM for it; `pinned` forces the plan's acceptance on random prompts."""
    on = engine_settings(test.contender)["vllm"]
    at = on.argv.index("--speculative-config")
    commands = {"off": shlex.join(on.argv[:at] + on.argv[at + 2 :]), "on": on.command}
    expected, choice = test.acceptance, choice_of(test.contender)
    is_chain = choice.proposer is not None and choice.proposer.kind != "ngram"
    if expected is not None and is_chain and len(expected.survival) == choice.gamma:
        pinned = pinned_acceptance(on.argv[at + 1], expected.survival)
        commands["pinned"] = shlex.join((*on.argv[: at + 1], pinned, *on.argv[at + 2 :]))
    return commands


def verdicts(test: LoadTest) -> tuple[str, ...]:
    """What confirms the plan and what refutes it, one sentence each."""
    lines = []
    for load in test.loads:
        low, high = load.expected.interval
        lines.append(
            f"{load.name}, {load.rate_per_s:.4g} requests/s ({load.why}): mean E2E off / on of "
            f"{load.expected.speedup:.3f}, {low:.3f} to {high:.3f}. {load.num_prompts} prompts an "
            f"arm tell it to {100 * load.half_width:.2g} %, {seconds(load.run_s)} a run. Refuted "
            "where the measured 95 % interval lies outside the plan's."
        )
    return (*lines, *_acceptance_verdicts(test), *_latency_verdicts(test))


def load_test_script(test: LoadTest) -> str:
    """A shell script: start a server for an arm, then run it with that arm's name."""
    lines = ["#!/usr/bin/env bash", "# Load test of a plan, by specplan."]
    lines += [f"# Server, {arm}: {comment(text)}" for arm, text in _server_words(test).items()]
    lines += ["#", *(f"# {comment(line)}" for line in verdicts(test))]
    lines += ["# Read the results with: specplan import auto load_test/*.json --dry-run"]
    lines += ["set -euo pipefail", 'case "$0" in */*) cd -- "${0%/*}" ;; esac']
    lines += ["mkdir -p load_test", 'case "${1:-}-${2:-vllm}" in']
    for arm in ARMS:
        lines += _case(arm, "vllm", [vllm_command(test, *each) for each in _runs(test, arm)])
        lines += _case(
            arm, "guidellm", [guidellm_command(test, *each) for each in _runs(test, arm)]
        )
    usage = "usage: load_test.sh off/on vllm/guidellm"
    return "\n".join([*lines, f"*) echo '{usage}' >&2; exit 2 ;;", "esac", ""])


def load_test_text(test: LoadTest) -> str:
    """For reading: the servers to start, every command, and the verdicts."""
    lines = ["Start a server for each arm (vLLM):", ""]
    for arm, command in server_commands(test).items():
        lines += [f"  {arm}:  {command}", ""]
    lines += [*_notes(test), "", "Run before and after launch, for each arm:", ""]
    for arm in ARMS:
        lines += [f"  {shlex.join(vllm_command(test, load, arm, 0))}" for load in test.loads]
    lines += ["", "Or with GuideLLM:", ""]
    for arm in ARMS:
        lines += [f"  {shlex.join(guidellm_command(test, load, arm, 0))}" for load in test.loads]
    return "\n".join([*lines, "", "What the plan says:", "", *(f"- {v}" for v in verdicts(test))])


# --- loads -------------------------------------------------------------------------------------


def _loads(plan: Plan) -> list[tuple[str, float, str]]:
    """Name, rate and reason; ascending, each rate once."""
    edge, curve = plan.break_even, plan.break_even.curve
    found = [("light", curve[0].rate_per_s, "the lightest load of the plan's curve")]
    planned = mean_rate_per_s(plan.scenario.workload)
    if planned is not None:
        found.append(("planned", planned, "the scenario's load"))
    if edge.rate_per_s is not None:
        below, above = edge.interval or (edge.rate_per_s, edge.rate_per_s)
        below = min(below, edge.rate_per_s * (1.0 - EDGE_SHARE))
        above = max(above, edge.rate_per_s * (1.0 + EDGE_SHARE))
        found += [
            ("below_break_even", below, "speculation still pays"),
            ("above_break_even", above, "speculation no longer pays"),
        ]
    else:
        sustained = [each.rate_per_s for each in curve if not each.is_beyond_saturation]
        found.append(
            (
                "heavy",
                max(sustained, default=curve[0].rate_per_s),
                "the heaviest load that off sustains",
            )
        )
    return sorted(found, key=lambda each: each[1])


def _test_load(plan: Plan, name: str, rate_per_s: float, why: str) -> TestLoad:
    expected = _expected_speedup(plan, rate_per_s)
    low, high = expected.interval
    # Sharp enough to tell the speed-up from 1, and as sharp as the plan itself.
    half_width = min(abs(math.log(expected.speedup)) / 2.0, math.log(high / low) / 2.0)
    half_width = max(half_width, LEAST_HALF_WIDTH)
    # Two arms, each a mean of n requests whose relative spread is v: Var ln(off / on) = 2 v / n.
    variance = _relative_variance(plan)
    needed = math.ceil(2.0 * variance * (NORMAL_95 / half_width) ** 2)
    steady = NUM_SEEDS * math.ceil(rate_per_s * _least_run_s(plan))
    num_prompts = max(min(needed, MAX_PROMPTS), steady, MIN_PROMPTS)
    reached = NORMAL_95 * math.sqrt(2.0 * variance / num_prompts)
    return TestLoad(name, rate_per_s, why, expected, num_prompts, reached)


def _expected_speedup(plan: Plan, rate_per_s: float) -> LoadSpeedup:
    """The curve between its loads, in logarithms; held constant beyond its ends."""
    curve = plan.break_even.curve
    rates = np.log([each.rate_per_s for each in curve])

    def at(values: list[float]) -> float:
        return float(np.exp(np.interp(math.log(rate_per_s), rates, np.log(values))))

    return LoadSpeedup(
        rate_per_s=rate_per_s,
        speedup=at([each.speedup for each in curve]),
        interval=(
            at([each.interval[0] for each in curve]),
            at([each.interval[1] for each in curve]),
        ),
        is_beyond_saturation=rate_per_s > plan.break_even.saturation_rate_per_s,
    )


def _least_run_s(plan: Plan) -> float:
    """A run must outlast the filling and emptying of its batch by far."""
    longest_s = plan.candidates[0].summary.e2e.p95_s or 0.0
    return max(LEAST_RUN_S, LEAST_RUN_REQUESTS * longest_s)


def _relative_variance(plan: Plan) -> float:
    """Squared coefficient of variation of E2E, as if lognormal between its 50th and 90th."""
    e2e = chosen_candidate(plan).summary.e2e
    if not e2e.p50_s or not e2e.p90_s:
        return 1.0  # an exponential's
    deviation = math.log(e2e.p90_s / e2e.p50_s) / DECILE_90
    return max(math.expm1(deviation**2), 1e-4)


# --- commands ----------------------------------------------------------------------------------


def _lengths(plan: Plan) -> Lengths:
    lengths = plan.scenario.workload.lengths
    if isinstance(lengths, LognormalLengths):
        prompt, output = lengths.prompt, lengths.output
        means = (round(prompt.mean_tokens), round(output.mean_tokens))
        return Lengths(*means, prompt.cv, output.cv)
    if isinstance(lengths, FixedLengths):
        return Lengths(lengths.prompt_tokens, lengths.output_tokens, 0.0, 0.0)
    summary = chosen_candidate(plan).summary  # as simulated
    finished = max(summary.num_requests.get("finished", 1), 1)
    output_tokens = max(1, round(summary.tokens.emitted_tokens / finished))
    prompt_tokens = max(1, round(summary.mean_context_tokens - output_tokens / 2.0))
    return Lengths(prompt_tokens, output_tokens, 0.0, 0.0)


def _vllm_dataset(test: LoadTest) -> list[str]:
    if test.dataset is not None:
        output = str(test.lengths.output_tokens)
        return [
            *("--dataset-name", "custom", "--dataset-path", test.dataset),
            *("--custom-output-len", output),
        ]
    return [
        *("--dataset-name", "random", "--random-input-len", str(test.lengths.prompt_tokens)),
        *("--random-output-len", str(test.lengths.output_tokens)),
        *("--random-range-ratio", f"{test.lengths.range_ratio:g}", "--ignore-eos"),
    ]


def _guidellm_data(lengths: Lengths) -> str:
    parts = [f"prompt_tokens={lengths.prompt_tokens}", f"output_tokens={lengths.output_tokens}"]
    for name, mean, cv in (
        ("prompt", lengths.prompt_tokens, lengths.prompt_cv),
        ("output", lengths.output_tokens, lengths.output_cv),
    ):
        if cv > 0.0:
            parts += [f"{name}_tokens_stdev={round(cv * mean)}", f"{name}_tokens_min=1"]
    return ",".join(parts)


def _burstiness(plan: Plan) -> float:
    """vLLM's: the shape of gamma gaps, 1 / cv²; Poisson for every other kind of arrivals."""
    arrivals = plan.scenario.workload.arrivals
    if not isinstance(arrivals, GammaArrivals):
        return 1.0
    return EVENLY if arrivals.cv == 0.0 else min(EVENLY, arrivals.cv**-2)


def _goodput(plan: Plan) -> list[str]:
    slo = plan.scenario.slo
    limits = {"ttft": slo.ttft_s, "tpot": slo.tpot_s, "e2el": slo.e2e_s}
    pairs = [f"{name}:{1e3 * limit:g}" for name, limit in limits.items() if limit is not None]
    return ["--goodput", *pairs] if pairs else []


def _runs(test: LoadTest, arm: str) -> list[tuple[TestLoad, str, int]]:
    return [(load, arm, run) for load in test.loads for run in range(NUM_SEEDS)]


def _case(arm: str, tool: str, commands: list[tuple[str, ...]]) -> list[str]:
    return [f"{arm}-{tool})", *(f"  {shlex.join(argv)}" for argv in commands), "  ;;"]


def _server_words(test: LoadTest) -> dict[str, str]:
    """A comment a server; commands are no comments, specplan load-test prints them."""
    decided = test.plan.decision.choice
    scripts = {"off": "vllm.sh without its speculative config", "on": "vllm.sh"}
    if decided == "off":
        scripts = {"off": "vllm.sh", "on": "vllm.sh with the speculative config of the best"}
    return {arm: f"{words}; specplan load-test prints it" for arm, words in scripts.items()}


def _notes(test: LoadTest) -> list[str]:
    notes = [
        f"Every load runs {NUM_SEEDS} times, with the seed shown and the next ones, the same in "
        "both arms; load_test.sh holds every run."
    ]
    if test.dataset is None and "pinned" in server_commands(test):
        notes.append(
            "Random prompts say nothing about acceptance: for times start the pinned server, whose "
            "acceptance is the plan's; for acceptance give your own prompts with --dataset."
        )
    elif test.dataset is None:
        notes.append(
            "Random prompts say nothing about acceptance: give your own prompts with --dataset."
        )
    if test.plan.scenario.deployment.replicas > 1:
        notes.append("Rates are those of the whole service: test behind the load balancer.")
    return notes


# --- verdicts ----------------------------------------------------------------------------------


def _acceptance_verdicts(test: LoadTest) -> list[str]:
    expected = test.acceptance
    if expected is None:
        return []
    survival = ", ".join(f"{share:.3f}" for share in expected.survival)
    return [
        f"spec_decode_acceptance_length of own prompts: {expected.length:.3f}, confirmed from "
        f"{expected.lowest_length:.3f} to {expected.highest_length:.3f}; below "
        f"{expected.flip_length:.3f} speculation does not pay. Of a lookup it counts cycles with a "
        "match only and reads higher.",
        f"spec_decode_per_position_acceptance_rates: {survival}.",
    ]


def _latency_verdicts(test: LoadTest) -> list[str]:
    plan = test.plan
    off, on = plan.candidates[0], chosen_candidate(test.contender)
    lines = []
    for arm, each in (("off", off), ("on", on)):
        ttft, tpot, e2e = each.summary.ttft, each.summary.tpot, each.summary.e2e
        lines.append(
            f"At the planned load, {arm}: TTFT p95 {seconds(ttft.p95_s)}, TPOT p50 "
            f"{seconds(tpot.p50_s)}, E2E mean {seconds(e2e.mean_s)} and p95 {seconds(e2e.p95_s)}."
        )
    return [*lines, f"Mean TPOT off / on of {decoding_speedup(on):.3f} at the planned load."]
