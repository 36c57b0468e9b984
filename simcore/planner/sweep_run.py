"""Run a few configurations in whatever process: profile, recordings and requests read once.

The row of a run depends on its scenario and profile alone, not on who ran what before it.
"""

import hashlib
import json
import threading
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from simcore.acceptance.trace import TraceSet
from simcore.errors import ProfileError, SpecplanError
from simcore.metrics.summary import summarise
from simcore.planner.run_key import run_key, simulator_sha256
from simcore.planner.run_table import RESULTS_VERSION, Row, metrics_row
from simcore.profile.store import StoredProfile, load_profile
from simcore.scenario import Scenario
from simcore.serving.simulation import SimulationResult, simulate
from simcore.version import specplan_version
from simcore.workload.sampling import RememberedDraws

MAX_KEPT = 16


class Run(NamedTuple):
    """One run to do."""

    key: str
    scenario: Scenario  # its own seed inside
    profile_sha256: str


class Refusal(NamedTuple):
    """A run that cannot be, and why."""

    key: str
    reason: str


class Outcome(NamedTuple):
    """What a few runs left."""

    rows: list[Row]
    refusals: list[Refusal]


@dataclass
class _Memory(threading.local):
    """What runs of one thread share; cluster workers run several threads."""

    profiles: dict[tuple[str, str], StoredProfile] = field(default_factory=dict)
    traces: dict[str, TraceSet | None] = field(default_factory=dict)
    draw: RememberedDraws = field(default_factory=RememberedDraws)


_memory = _Memory()


def run_all(runs: tuple[Run, ...]) -> Outcome:
    """Simulate these one after the other; a scenario that cannot be is a refusal, not the end."""
    rows, refusals = [], []
    for run in runs:
        try:
            rows.append(run_row(run))
        except SpecplanError as error:
            refusals.append(Refusal(run.key, str(error)))
    return Outcome(rows, refusals)


def run_row(run: Run) -> Row:
    """Simulate one run. Raises what `simulate` raises."""
    stored = _profile(run)
    recordings = _recordings(run)
    result = simulate(
        run.scenario,
        stored=stored,
        traces=_memory.traces.get(recordings),
        keep_steps=False,
        draw=_memory.draw,
    )
    _keep(_memory.traces, recordings, result.model.traces)
    scenario = run.scenario.model_dump(mode="json", exclude={"name"})
    return {
        "key": run_key(run.scenario, stored.content_hash),  # of what this process has read
        "results_version": RESULTS_VERSION,
        "specplan_version": specplan_version(),
        "simulator_sha256": simulator_sha256(),
        "profile": stored.profile.name,
        "profile_source": stored.profile.source.value,
        "profile_sha256": stored.content_hash,
        "contract": run.scenario.contract.value,
        "acceptance_model": result.model.name,
        "mismatches": json.dumps(result.mismatches, ensure_ascii=False),
        "requests_sha256": _requests_sha256(result),
        "seed": run.scenario.seed,
        "scenario": json.dumps(scenario, ensure_ascii=False),
        **metrics_row(summarise(result, origin={})),
    }


def _profile(run: Run) -> StoredProfile:
    name = run.scenario.profile, run.profile_sha256
    if name not in _memory.profiles:
        stored = load_profile(run.scenario.profile)
        if stored.content_hash != run.profile_sha256:
            raise ProfileError(
                f"profile {run.scenario.profile!r} is not the one that the sweep began with; "
                "every worker must find the same profile under that name or path"
            )
        _keep(_memory.profiles, name, stored)
    return _memory.profiles[name]


def _recordings(run: Run) -> str:
    """Runs with the same of these replay the same recorded requests."""
    asked = run.scenario.model_dump(
        mode="json",
        include={
            "contract": True,
            "sampling": True,
            "allow_mismatch": True,
            "workload": {"domains"},
            "speculation": {"proposer"},
        },
    )
    return json.dumps([run.profile_sha256, asked], sort_keys=True)


def _keep(kept: dict[Any, Any], key: object, value: object) -> None:
    """Remember, and forget the oldest beyond MAX_KEPT."""
    kept.setdefault(key, value)
    if len(kept) > MAX_KEPT:
        del kept[next(iter(kept))]


def _requests_sha256(result: SimulationResult) -> str:
    """Of arrivals' domains and lengths, as far as they do not hang on answers."""
    requests = result.request_records
    found = hashlib.sha256("\n".join(result.model.domain_names).encode())
    for name in ("domain", "prompt_tokens", "output_tokens"):
        found.update(requests[name].tobytes())
    return found.hexdigest()
