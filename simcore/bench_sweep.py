"""The speed of a sweep: 1,000 configurations of 5,000 requests, every one simulated.

The bundled h100_chat under 25 loads from 2 to 16 requests a second, γ = 0, 1, 3, 5 of EAGLE, ten
limits of running requests, one seed, a new store on disk, a process a core. Wall seconds run from
the space to the tables, start of the workers included; CPU seconds are those of all processes.
"""

import os
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from simcore.planner.run_store import RunStore
from simcore.planner.sweep import sweep
from simcore.planner.sweep_grid import GAMMA
from simcore.planner.sweep_space import LOAD, SweepSpace, parse_sweep
from simcore.scenario_files import open_scenario

NUM_REQUESTS = 5000


def sweep_bench_space() -> SweepSpace:
    """The 1,000 configurations."""
    scenario = open_scenario("h100_chat").with_(**{"workload.num_requests": NUM_REQUESTS})
    axes = {
        LOAD: {"from": 2, "to": 16, "num": 25},
        GAMMA: [0, 1, 3, 5],
        "deployment.max_num_seqs": [8, 12, 16, 20, 24, 32, 40, 48, 56, 64],
    }
    return parse_sweep({"scenario": scenario, "axes": axes, "seeds": 1}, "bench")


def time_sweep(progress: Callable[[int, int], None] | None = None) -> dict[str, float]:
    """Run the sweep once, on every core that this process may use."""
    with tempfile.TemporaryDirectory() as folder:
        cpu_s, wall_s = _cpu_s(), time.perf_counter()
        with RunStore(Path(folder) / "runs.duckdb") as store:
            found = sweep(sweep_bench_space(), store=store, progress=progress)
        wall_s = time.perf_counter() - wall_s
        _stop_workers()  # only those that have ended are counted
        cpu_s = _cpu_s() - cpu_s
    return {
        "num_configurations": float(found.num_simulated),
        "requests_per_configuration": float(NUM_REQUESTS),
        "configurations_per_s": found.num_simulated / wall_s,
        "cpu_s": cpu_s,
        "wall_s": wall_s,
        "cores": float(len(os.sched_getaffinity(0))),
    }


def sweep_bench_text(found: dict[str, float]) -> str:
    """The figures in a line."""
    return (
        f"sweep: {found['num_configurations']:,.0f} configurations of "
        f"{found['requests_per_configuration']:,.0f} requests in {found['wall_s']:.1f} s wall on "
        f"{found['cores']:.0f} cores ({found['configurations_per_s']:.1f} a second, "
        f"{found['cpu_s']:.1f} s CPU in all processes)"
    )


def _cpu_s() -> float:
    """Of this process and of its children that have ended."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in usages)


def _stop_workers() -> None:
    from joblib.externals.loky import (  # noqa: PLC0415 - as in the workers themselves
        get_reusable_executor,
    )

    get_reusable_executor().shutdown(wait=True)
