"""The closed form against simulation, over a wide random set of scenarios.

A scenario is drawn from one of the bundled profiles: lengths and their spread, proposer and draft
length, seats, KV from ample to tight, replicas, routing, engine preset, bursts. Its saturation is
simulated first; the load is then a random share of that, from 10 to 95 %. Both sides see the same
scenario, never the same requests: the estimate samples the workload under a seed of its own.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from simcore.errors import SpecplanError
from simcore.metrics.summary import summarise
from simcore.planner.break_even import at_rate
from simcore.planner.load.accuracy import METRICS, REGIMES, regime_of
from simcore.planner.load_estimate import LoadEstimate, estimate_load, load_basis
from simcore.profile.store import StoredProfile, load_profile
from simcore.scenario import Scenario, parse_scenario
from simcore.serving.simulation import SimulationResult, simulate
from simcore.serving.state import FINISHED
from simcore.workload.load import as_batch

NUM_REQUESTS = 12_000
EAGLE_GAMMAS = {"gsm8k": (1, 3, 5, 7), "instructcoder": (1, 3, 7)}
NGRAM_GAMMAS = {"gsm8k": (3,), "instructcoder": (1, 3, 7)}


@dataclass(frozen=True)
class Point:
    """One scenario at one load: what was estimated, and what came out."""

    scenario: Scenario
    regime: str
    load: float  # of the simulated saturation
    estimate: LoadEstimate
    estimated: dict[str, float] = field(default_factory=dict)
    simulated: dict[str, float] = field(default_factory=dict)

    def error(self, metric: str) -> float:
        """Estimated / simulated - 1."""
        return self.estimated[metric] / self.simulated[metric] - 1.0


def draw_points(seed: int, count: int) -> Iterator[Point]:
    """As many points; a draw that no service can run is drawn again."""
    profiles = {name: load_profile(name) for name in ("smollm2_135m_cpu", "llama31_8b_h100")}
    rng = np.random.default_rng(seed)
    drawn = 0
    while drawn < count:
        scenario = _draw(rng, drawn)
        load = float(rng.uniform(0.1, 0.95))
        try:
            point = measure(profiles[scenario.profile], scenario, load)
        except SpecplanError:
            continue
        drawn += 1
        yield point


def measure(stored: StoredProfile, scenario: Scenario, load: float) -> Point:
    """The scenario at a share of its simulated saturation."""
    saturation = saturation_rate_per_s(stored, scenario)
    scenario = at_rate(scenario, load * saturation)
    found = estimate_load(stored, scenario, load_basis(stored, scenario))
    result = simulate(scenario, stored=stored, keep_steps=False)
    simulated = _simulated(result) | {"max_rate": saturation}
    return Point(scenario, regime_of(found), load, found, _estimated(found), simulated)


def saturation_rate_per_s(stored: StoredProfile, scenario: Scenario) -> float:
    """Requests a second finished while nobody is idle: the middle of a large batch."""
    deployment = scenario.deployment
    count = max(3000, 40 * deployment.max_num_seqs) * deployment.replicas
    batch = scenario.with_(workload=as_batch(scenario.workload, count), warmup_fraction=0.0)
    requests = simulate(batch, stored=stored, keep_steps=False).request_records
    finish_s = np.sort(requests["finish_s"][requests["state"] == FINISHED])
    first, last = len(finish_s) // 5, len(finish_s) * 4 // 5
    return float((last - first) / (finish_s[last] - finish_s[first]))


def _draw(rng: np.random.Generator, number: int) -> Scenario:
    on_cpu = bool(rng.random() < 0.5)
    workload, speculation, contract = _cpu(rng) if on_cpu else _gpu(rng)
    prompt, output = (workload["lengths"][name]["mean_tokens"] for name in ("prompt", "output"))
    preset = str(rng.choice(["plain", "plain", "vllm", "sglang", "tensorrt_llm", "llama_cpp"]))
    seats = int(rng.integers(2, 17)) if on_cpu else int(2 ** rng.uniform(2, 7))
    is_tight = bool(rng.random() < 0.4) and preset != "llama_cpp"
    longest = sum(workload["lengths"][name]["max_tokens"] for name in ("prompt", "output"))
    tokens = seats * (longest + 64)  # every request at its longest
    if is_tight:
        held = longest if preset == "tensorrt_llm" else prompt + output / 2
        tokens = max(int(seats * held * rng.uniform(0.25, 0.9)), longest + 200)
    arrivals: dict[str, Any] = {"kind": "poisson", "rate_per_s": 1.0}
    if rng.random() < 0.3:
        arrivals = {"kind": "gamma", "rate_per_s": 1.0, "cv": round(float(rng.uniform(0.2, 3)), 2)}
    raw = {
        "name": f"drawn {number}",
        "profile": "smollm2_135m_cpu" if on_cpu else "llama31_8b_h100",
        "contract": contract,
        "sampling": {"temperature": 0.0 if contract == "greedy_equality" else 1.0},
        "workload": workload | {"arrivals": arrivals, "num_requests": NUM_REQUESTS},
        "deployment": {
            "preset": preset,
            "replicas": int(rng.choice([1, 1, 2, 4])),
            "max_num_seqs": seats,
            "kv_cache_tokens": tokens,
            "max_num_batched_tokens": int(rng.choice([1024, 2048, 8192])),
            "routing": str(rng.choice(["round_robin", "round_robin", "least_outstanding"])),
        },
        "speculation": speculation,
        "seed": int(rng.integers(1 << 30)),
    }
    return parse_scenario(raw, raw["name"])


def _cpu(rng: np.random.Generator) -> tuple[dict[str, Any], dict[str, Any], str]:
    gamma = int(rng.integers(0, 9))
    proposer = str(rng.choice(["ngram", "draft_model"]))
    contract = str(rng.choice(["greedy_equality", "greedy_equality", "exact_sampling"]))
    workload = {"lengths": _lengths(rng, (20, 300), (15, 200), 1024)}
    return workload, {"proposer": proposer, "num_speculative_tokens": gamma}, contract


def _gpu(rng: np.random.Generator) -> tuple[dict[str, Any], dict[str, Any], str]:
    domain = str(rng.choice(["gsm8k", "instructcoder"]))
    proposer = str(rng.choice(["eagle", "eagle", "ngram"]))
    measured = (EAGLE_GAMMAS if proposer == "eagle" else NGRAM_GAMMAS)[domain]
    gamma = int(rng.choice([0, *measured, *measured]))
    workload = {
        "lengths": _lengths(rng, (50, 2000), (20, 500), 4096),
        "domains": {domain: 1.0},
    }
    return workload, {"proposer": proposer, "num_speculative_tokens": gamma}, "greedy_equality"


def _lengths(
    rng: np.random.Generator, prompts: tuple[int, int], outputs: tuple[int, int], most: int
) -> dict[str, Any]:
    def law(low: float, high: float) -> dict[str, Any]:
        mean = float(np.exp(rng.uniform(np.log(low), np.log(high))))
        return {
            "mean_tokens": round(mean, 1),
            "cv": round(float(rng.choice([0.0, rng.uniform(0.1, 1.3)], p=[0.15, 0.85])), 2),
            "max_tokens": int(min(most, 8 * mean)),
        }

    return {"kind": "lognormal", "prompt": law(*prompts), "output": law(*outputs)}


def _estimated(found: LoadEstimate) -> dict[str, float]:
    nan = float("nan")
    return {
        "tpot": found.tpot_s,
        "e2e": nan if found.e2e_s is None else found.e2e_s,
        "ttft": nan if found.ttft_s is None else found.ttft_s,
        "batch_size": found.batch_size,
        "output_rate": found.output_tokens_per_s,
        "max_rate": found.max_rate_per_s,
    }


def _simulated(result: SimulationResult) -> dict[str, float]:
    summary = summarise(result)
    requests = result.request_records
    done = requests[requests["state"] == FINISHED]
    running_s = float((done["finish_s"] - done["scheduled_s"]).sum())
    assert summary.tpot.mean_s is not None
    assert summary.e2e.mean_s is not None
    assert summary.ttft.mean_s is not None
    return {
        "tpot": summary.tpot.mean_s,
        "e2e": summary.e2e.mean_s,
        "ttft": summary.ttft.mean_s,
        "batch_size": running_s / summary.duration_s / len(result.replica_records),
        "output_rate": summary.output_rate_tokens_per_s,
    }


def errors(points: list[Point], metric: str, regime: str | None) -> np.ndarray:
    """Absolute relative errors of a metric in a regime (None: all); infinite where unstable."""
    chosen = [abs(p.error(metric)) for p in points if regime in (None, p.regime)]
    return np.nan_to_num(np.array(chosen), nan=np.inf)


def table(points: list[Point]) -> dict[str, dict[str, Any]]:
    """Median and 90th percentile of the absolute relative error, by regime and metric."""
    found: dict[str, dict[str, Any]] = {}
    for regime in REGIMES:
        found[regime] = {"num_points": sum(point.regime == regime for point in points)}
        for metric in METRICS:
            values = errors(points, metric, regime)
            found[regime][metric] = {
                "median_rel": float(np.quantile(values, 0.5, method="lower")),
                "p90_rel": float(np.quantile(values, 0.9, method="lower")),
            }
    return found
