"""The simulator's own speed on a standard workload.

5,000 requests of 512 prompt and 128 output tokens, Poisson 6/s, one replica, 256 sequences,
8,192 tokens a step, 16-token blocks, KV for 400,000 tokens; a step takes 5.9 ms + 21 µs a query
token + 39 ns a KV token + 0.6 ms a draft pass; conditional acceptance .72 .67 .65. Everything
that a normal run records is on. CPU seconds run from the scenario to finished request and step
data frames; compilation is apart. Scale cases stretch it: a million requests (step records summed
up, not kept), 16 replicas under 16 times the load, outputs of 8,000 tokens, and twice the requests
in a queue that grows all the time. Last a sweep of a thousand services (bench_sweep.py).
"""

import platform
import resource
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any

from simcore.bench_sweep import sweep_bench_text, time_sweep
from simcore.cost.law import CostDomain, CostLaw, LinearLaw, TargetLaw
from simcore.planner.load_estimate import estimate_load, load_basis
from simcore.profile.schema import (
    AcceptanceRecord,
    Contract,
    Engine,
    Hardware,
    Identity,
    ModelIdentity,
    Profile,
    Proposer,
    Provenance,
    Sampling,
    Source,
)
from simcore.profile.store import StoredProfile
from simcore.scenario import Scenario
from simcore.serving.simulation import simulate
from simcore.version import specplan_version
from simcore.workload.load import at_mean_rate

NUM_REPEATS = 5
NUM_ESTIMATES = 50
MILLION = "one_million_requests"
SCALE_CASES: dict[str, dict[str, Any]] = {
    MILLION: {"workload.num_requests": 1_000_000},
    "sixteen_replicas": {
        "deployment.replicas": 16,
        "workload.arrivals": {"kind": "poisson", "rate_per_s": 96.0},
        "workload.num_requests": 80_000,
    },
    "outputs_of_8000_tokens": {
        "workload.lengths": {"kind": "fixed", "prompt_tokens": 512, "output_tokens": 8000},
        "workload.arrivals": {"kind": "poisson", "rate_per_s": 0.1},
    },
    "half_in_an_endless_queue": {
        "workload.arrivals": {"kind": "poisson", "rate_per_s": 1000.0},
        "workload.num_requests": 50_000,
    },
    "all_in_an_endless_queue": {
        "workload.arrivals": {"kind": "poisson", "rate_per_s": 1000.0},
        "workload.num_requests": 100_000,
    },
}
CONDITIONAL = (0.72, 0.67, 0.65)
LONGEST_STEP_TOKENS = 8192


def run_bench(
    progress: Callable[[int, int], None] | None = None, *, scale: bool = True
) -> dict[str, Any]:
    """Median CPU and wall seconds of the standard workload with γ = 0 and γ = 3; the closed form's.

    `scale` adds one run of each scale case.
    """
    stored = StoredProfile(_profile(), Path())
    cases = {"gamma_0": 0, "gamma_3": 3}
    for gamma in cases.values():
        _timed(stored, _scenario(gamma))
    seen: dict[str, list[dict[str, float]]] = {name: [] for name in cases}
    total = NUM_REPEATS * len(cases)
    for repeat in range(NUM_REPEATS):
        for position, (name, gamma) in enumerate(cases.items()):
            seen[name].append(_timed(stored, _scenario(gamma)))
            if progress is not None:
                progress(repeat * len(cases) + position + 1, total)
    found: dict[str, Any] = {
        name: {key: median(run[key] for run in runs) for key in runs[0]}
        for name, runs in seen.items()
    }
    found |= {"estimate": _estimate_case(stored)}
    found |= {"repeats": NUM_REPEATS, "made_by": environment("specplan bench --json")}
    if not scale:
        return found
    return found | {"scale": _scale_cases(progress), "sweep": time_sweep(progress)}


def bench_text(found: dict[str, Any]) -> str:
    """The figures in a few lines."""
    cases = {name: found[name] for name in ("gamma_0", "gamma_3")} | found.get("scale", {})
    lines = [_case_text(name, case) for name, case in cases.items()]
    if "sweep" in found:
        lines.append(sweep_bench_text(found["sweep"]))
    closed = found["estimate"]
    lines.append(
        f"estimate: {closed['point_s'] * 1e3:,.2f} ms a point, the first with its basis "
        f"{closed['first_s'] * 1e3:,.1f} ms (wall)"
    )
    return "\n".join(lines)


def _case_text(name: str, case: dict[str, float]) -> str:
    text = (
        f"{name}: {case['requests_per_cpu_s']:,.0f} requests and {case['steps_per_cpu_s']:,.0f} "
        f"steps per CPU second ({case['cpu_s'] * 1e3:,.1f} ms CPU, {case['wall_s'] * 1e3:,.1f} ms "
        "wall)"
    )
    if "peak_bytes" not in case:
        return text
    return f"{text}, {case['peak_bytes'] / 1e6:,.0f} MB at most, process and libraries included"


def _scale_cases(progress: Callable[[int, int], None] | None) -> dict[str, dict[str, float]]:
    """One run of each, in a process of its own, so that its peak of memory is its own."""
    found = {}
    for position, name in enumerate(SCALE_CASES):
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            found[name] = pool.submit(run_scale_case, name).result()
        if progress is not None:
            progress(position + 1, len(SCALE_CASES))
    return found


def run_scale_case(name: str) -> dict[str, float]:
    """One scale case in this process; `peak_bytes` counts the whole process."""
    stored = StoredProfile(_profile(), Path())
    _timed(stored, _scenario(3).with_(**{"workload.num_requests": 50}))
    scenario = _scenario(3).with_(**SCALE_CASES[name])
    case = _timed(stored, scenario, keep_steps=name != MILLION)
    return case | {"peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0}


def _estimate_case(stored: StoredProfile) -> dict[str, float]:
    """Wall seconds of the closed form: the first point with its basis, then the median."""
    scenario = _scenario(3)
    estimate_load(stored, scenario)  # loads compiled code
    began_s = time.perf_counter()
    basis = load_basis(stored, scenario)
    estimate_load(stored, scenario, basis)
    first_s = time.perf_counter() - began_s
    points = []
    for share in range(1, NUM_ESTIMATES + 1):
        changed = at_mean_rate(scenario.workload, 6.0 * share / NUM_ESTIMATES)
        point = scenario.model_copy(update={"workload": changed})
        began_s = time.perf_counter()
        estimate_load(stored, point, basis)
        points.append(time.perf_counter() - began_s)
    return {"first_s": first_s, "point_s": median(points)}


def environment(
    command: str, names: Sequence[str] = ("numba", "numpy", "pandas", "simpy")
) -> dict[str, str]:
    """What a timing means nothing without; `names` of packages whose versions count."""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "command": command,
        "machine": platform.machine(),
        "processor": _processor(),
        "python": platform.python_version(),
        "specplan": specplan_version(),
    } | {name: version(name) for name in names}


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{names[0]}, {len(names)} logical CPUs" if names else platform.processor() or "unknown"


def _timed(
    stored: StoredProfile, scenario: Scenario, *, keep_steps: bool = True
) -> dict[str, float]:
    cpu_s, wall_s = time.process_time(), time.perf_counter()
    result = simulate(scenario, stored=stored, keep_steps=keep_steps)
    num_requests, num_steps = len(result.requests), len(result.steps)
    if not keep_steps:
        num_steps = result.step_totals.num_steps
    cpu_s, wall_s = time.process_time() - cpu_s, time.perf_counter() - wall_s
    return {
        "requests_per_cpu_s": num_requests / cpu_s,
        "steps_per_cpu_s": num_steps / cpu_s,
        "cpu_s": cpu_s,
        "wall_s": wall_s,
    }


def _scenario(gamma: int) -> Scenario:
    def fixed(tokens: int) -> dict[str, float]:
        return {"mean_tokens": tokens, "cv": 0.0, "max_tokens": tokens}

    return Scenario.model_validate(
        {
            "name": f"bench_gamma_{gamma}",
            "profile": "bench",
            "contract": "greedy_equality",
            "workload": {
                "arrivals": {"kind": "poisson", "rate_per_s": 6.0},
                "lengths": {"kind": "lognormal", "prompt": fixed(512), "output": fixed(128)},
                "num_requests": 5000,
            },
            "deployment": {
                "max_num_seqs": 256,
                "max_num_batched_tokens": LONGEST_STEP_TOKENS,
                "block_size": 16,
                "kv_cache_tokens": 400_000,
            },
            "speculation": {"proposer": "draft", "num_speculative_tokens": gamma},
            "seed": 1,
        }
    )


def _profile() -> Profile:
    """The invented service of the standard workload; never shown as anybody's measurement."""
    kv_read_s = 39e-9
    return Profile(
        schema_version=1,
        name="bench",
        title="Invented service of the standard benchmark",
        source=Source.ESTIMATED,
        identity=Identity(
            target=ModelIdentity(
                name="bench",
                revision="none",
                num_parameters=1,
                dtype="none",
                quantization="none",
                tokenizer="none",
                vocab_size=1,
                weight_bytes=0,
                kv_bytes_per_token=1,
            ),
            hardware=Hardware(device="cpu", name="none", memory_bytes=1),
            engine=Engine(name="none", version="none"),
        ),
        provenance=Provenance(date="2026-11-29", notes=("invented for timing the simulator",)),
        proposers={"draft": Proposer(kind="draft_model")},
        cost=CostLaw(
            target=TargetLaw(
                knot_tokens=(0, LONGEST_STEP_TOKENS),
                knot_s=(5.9e-3, 5.9e-3 + LONGEST_STEP_TOKENS * 21e-6),
                per_kv_token_plain_s=kv_read_s,
                per_kv_token_verify_s=kv_read_s,
            ),
            propose={"draft": LinearLaw(per_pass_s=0.6e-3)},
            domain=CostDomain(
                max_batch_size=256,
                max_context_tokens=LONGEST_STEP_TOKENS,
                max_query_tokens_per_request=4,
                max_step_tokens=LONGEST_STEP_TOKENS,
            ),
        ),
        acceptance=(
            AcceptanceRecord(
                key=0,
                proposer="draft",
                domain="all",
                sampling=Sampling(),
                contract=Contract.GREEDY_EQUALITY,
                kind="survival",
                max_num_speculative_tokens=len(CONDITIONAL),
                num_requests=1,
                counted_at="cycle_starts",
                conditional_acceptance={len(CONDITIONAL): CONDITIONAL},
                citation="invented",
            ),
        ),
    )
