"""What a service under load will do, in closed form: instant, for sliders and for pruning.

An engine with n running requests is a processor-sharing queue of speed n / w(n)
(load/steps.py); batch size and step time follow from each other by its product form
(load/queue.py) and Little's law. Acceptance enters as cycles a request, each request by its own
recording (load/cycles.py); memory as the most that can run at once (load/limits.py).
docs/background/estimate.md derives it and states the error against simulation.
"""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from pydantic import Field

from simcore.cost.regime import check_regimes
from simcore.planner.load.arrivals import unevenness
from simcore.planner.load.basis import LoadBasis, load_basis
from simcore.planner.load.batch import drained_batch
from simcore.planner.load.engine import Engine, engine_of
from simcore.planner.load.first_token import first_token
from simcore.planner.load.queue import Occupancy, closed_queue, open_queue
from simcore.profile.schema import Frozen
from simcore.profile.store import StoredProfile
from simcore.scenario import Scenario
from simcore.serving.setup import check_limits
from simcore.workload.load import at_mean_rate, mean_rate_per_s
from simcore.workload.recorded import num_requests
from simcore.workload_kinds import BatchArrivals, ClosedLoopArrivals

__all__ = ["LoadBasis", "LoadEstimate", "LoadModel", "estimate_load", "load_basis", "load_model"]

COMPUTE_ELASTICITY = 0.1  # below, a running request more hardly raises the rate
LESS = 0.9

Binding = Literal["seats", "kv", "step_tokens", "compute"]


class LoadEstimate(Frozen):
    """One service under one load, in closed form: means over requests, long after the start."""

    proposer: str | None = Field(description="null: off")
    num_speculative_tokens: int
    offered_rate_per_s: float = Field(
        description="of the whole deployment; of a closed loop what its clients reach, of a batch "
        "what is finished a second"
    )
    max_rate_per_s: float = Field(description="stability bound: the largest rate it can carry")
    is_stable: bool
    utilization: float = Field(description="offered rate / max_rate_per_s")
    emitted_tokens_per_cycle: float = Field(description="decoded tokens / decode cycles")
    batch_size: float = Field(
        description="running requests of one replica over all time: (e2e_s - queue_s) times its "
        "share of the rate"
    )
    max_batch_size: float = Field(description="the most that one replica runs at once")
    busy_fraction: float = Field(description="share of time that a replica runs steps")
    step_s: float = Field(description="mean step of a busy replica")
    queue_s: float | None = Field(description="arrival to first scheduled; null: grows for ever")
    ttft_s: float | None = Field(description="arrival to first token; null: grows for ever")
    tpot_s: float = Field(description="mean over requests of (E2E - TTFT) / (tokens - 1)")
    itl_s: float = Field(description="gap between two emissions of a request")
    e2e_s: float | None = Field(description="arrival to last token; null: grows for ever")
    output_tokens_per_s: float = Field(description="of the whole deployment")
    makespan_s: float | None = Field(description="until a batch is finished; null: no batch")
    tpot_p95_s: float = Field(description="95th percentile over requests")
    limits: dict[str, float | None] = Field(
        description="running requests of one replica that seats, kv and step_tokens allow; null: "
        "any number"
    )
    binding: Binding = Field(
        description="what ends the rate: one of the limits, or compute where one more running "
        "request would hardly raise it"
    )
    caveats: tuple[str, ...] = Field(description="what the closed form leaves out here")


@dataclass(frozen=True)
class LoadModel:
    """One service whatever its load: pricing its engine is most of the work of an estimate."""

    scenario: Scenario
    basis: LoadBasis
    engine: Engine

    @property
    def max_rate_per_s(self) -> float:
        """The largest rate that the whole deployment can carry."""
        return self.engine.service.max_rate_per_s * self.scenario.deployment.replicas

    def estimate(self) -> LoadEstimate:
        """Under the scenario's own load."""
        arrivals = self.scenario.workload.arrivals
        if isinstance(arrivals, ClosedLoopArrivals):
            return _closed(self.scenario, self.basis, self.engine, arrivals)
        if isinstance(arrivals, BatchArrivals):
            return _batch(self.scenario, self.basis, self.engine)
        return _open(self.scenario, self.basis, self.engine)

    def at_rate(self, rate_per_s: float) -> LoadEstimate:
        """Requests arriving at another mean rate, above 0; Poisson where they had none."""
        workload = at_mean_rate(self.scenario.workload, rate_per_s)
        scenario = self.scenario.model_copy(update={"workload": workload})
        return replace(self, scenario=scenario).estimate()


def estimate_load(
    stored: StoredProfile, scenario: Scenario, basis: LoadBasis | None = None
) -> LoadEstimate:
    """The scenario under its own load.

    `basis` from `load_basis`, of the same profile, proposer, contract, lengths and domains, makes
    it milliseconds. Raises ScenarioError where the scenario does not fit its profile or the basis,
    or has a policy without a closed form (oracle); InfeasibleError where nothing fits into memory.
    """
    return load_model(stored, scenario, basis).estimate()


def load_model(
    stored: StoredProfile, scenario: Scenario, basis: LoadBasis | None = None
) -> LoadModel:
    """What `estimate_load` prices before it looks at the load. Raises as it does."""
    if basis is None:
        basis = load_basis(stored, scenario)
    basis.check(stored, scenario)
    check_limits(scenario)
    check_regimes(
        stored.profile.cost,
        max_num_seqs=scenario.deployment.max_num_seqs,
        max_num_batched_tokens=scenario.deployment.max_num_batched_tokens,
    )
    return LoadModel(scenario, basis, engine_of(scenario, basis))


def _open(scenario: Scenario, basis: LoadBasis, engine: Engine) -> LoadEstimate:
    replicas = scenario.deployment.replicas
    rate = mean_rate_per_s(scenario.workload)
    assert rate is not None
    a_replica, most = rate / replicas, engine.service.max_rate_per_s
    if a_replica >= most:
        return _saturated(scenario, basis, engine, rate)
    around = float(
        np.interp(
            min(a_replica * engine.times.life_s[0], engine.service.most),
            engine.levels,
            engine.times.life_s,
        )
    )
    uneven = unevenness(scenario, a_replica, around)
    cycles = engine.law.cycles + 1.0
    occupancy = open_queue(
        engine.service,
        a_replica,
        uneven.peakedness(a_replica * around, basis.same_life),
        uneven.gap_scv,
        float(cycles.var() / cycles.mean() ** 2),
    )
    return _steady(scenario, basis, engine, occupancy, a_replica, uneven.gap_scv)


def _closed(
    scenario: Scenario, basis: LoadBasis, engine: Engine, arrivals: ClosedLoopArrivals
) -> LoadEstimate:
    clients = arrivals.num_clients / scenario.deployment.replicas
    occupancy, a_replica = closed_queue(engine.service, clients, arrivals.think.mean_s)
    return _steady(scenario, basis, engine, occupancy, a_replica, 1.0)


def _steady(
    scenario: Scenario,
    basis: LoadBasis,
    engine: Engine,
    occupancy: Occupancy,
    a_replica: float,
    gap_scv: float,
) -> LoadEstimate:
    """Times from the number of running requests: Little's law on one replica."""
    life_s = occupancy.mean_running / a_replica
    left_s, prefill_s = first_token(engine, occupancy, basis, a_replica, gap_scv)
    prefill_s = min(prefill_s, life_s)
    decode_s = life_s - prefill_s
    queue_s = left_s + occupancy.mean_waiting / a_replica
    cycles = engine.while_running(occupancy, engine.cycles)
    gap_s = decode_s / cycles if cycles > 0.0 else 0.0
    rate = a_replica * scenario.deployment.replicas
    busy = 1.0 - occupancy.idle_share
    steps_per_s = occupancy.shares @ np.where(
        occupancy.levels > 0.0,
        1.0 / np.interp(occupancy.levels, engine.levels, engine.times.step_s),
        0.0,
    )
    return LoadEstimate(
        **_common(scenario, basis, engine, rate),
        is_stable=True,
        emitted_tokens_per_cycle=_emitted(basis, cycles),
        batch_size=a_replica * (prefill_s + decode_s),
        busy_fraction=busy,
        step_s=busy / float(steps_per_s) if steps_per_s > 0.0 else float(engine.times.step_s[0]),
        queue_s=queue_s,
        ttft_s=queue_s + prefill_s,
        tpot_s=gap_s * engine.while_running(occupancy, engine.pace),
        itl_s=gap_s,
        e2e_s=queue_s + prefill_s + decode_s,
        output_tokens_per_s=rate * float(basis.requests.output_tokens.mean()),
        makespan_s=None,
        tpot_p95_s=gap_s * engine.while_running(occupancy, engine.slow_pace),
    )


def _saturated(scenario: Scenario, basis: LoadBasis, engine: Engine, rate: float) -> LoadEstimate:
    """More is offered than can be served: seats stay full, waiting grows without end."""
    seats = engine.service.most

    def full(values: np.ndarray) -> float:
        return float(np.interp(seats, engine.levels, values))

    cycles = full(engine.cycles)
    gap_s = (full(engine.times.life_s) - full(engine.times.prefill_s)) / max(cycles, 1e-9)
    served = engine.service.max_rate_per_s * scenario.deployment.replicas
    return LoadEstimate(
        **_common(scenario, basis, engine, rate),
        is_stable=False,
        emitted_tokens_per_cycle=_emitted(basis, cycles),
        batch_size=seats,
        busy_fraction=1.0,
        step_s=full(engine.times.step_s),
        queue_s=None,
        ttft_s=None,
        tpot_s=gap_s * full(engine.pace),
        itl_s=gap_s,
        e2e_s=None,
        output_tokens_per_s=served * float(basis.requests.output_tokens.mean()),
        makespan_s=None,
        tpot_p95_s=gap_s * full(engine.slow_pace),
    )


def _batch(scenario: Scenario, basis: LoadBasis, engine: Engine) -> LoadEstimate:
    replicas, count = scenario.deployment.replicas, num_requests(scenario.workload)
    drained = drained_batch(
        count / replicas,
        engine.service.most,
        engine.levels,
        engine.times.life_s,
        engine.law.cycles,
    )
    rate = count / drained.makespan_s
    running = min(count / replicas, engine.service.most)

    def full(values: np.ndarray) -> float:
        return float(np.interp(running, engine.levels, values))

    prefill_s = min(full(engine.times.prefill_s), drained.mean_life_s)
    cycles = full(engine.cycles)
    gap_s = (drained.mean_life_s - prefill_s) / max(cycles, 1e-9)
    return LoadEstimate(
        **_common(scenario, basis, engine, rate),
        is_stable=True,
        emitted_tokens_per_cycle=_emitted(basis, cycles),
        batch_size=rate / replicas * drained.mean_life_s,
        busy_fraction=1.0,
        step_s=full(engine.times.step_s),
        queue_s=drained.mean_wait_s,
        ttft_s=drained.mean_wait_s + prefill_s,
        tpot_s=gap_s * full(engine.pace),
        itl_s=gap_s,
        e2e_s=drained.mean_wait_s + drained.mean_life_s,
        output_tokens_per_s=rate * float(basis.requests.output_tokens.mean()),
        makespan_s=drained.makespan_s,
        tpot_p95_s=gap_s * full(engine.slow_pace),
    )


def _emitted(basis: LoadBasis, cycles: float) -> float:
    left = float(basis.requests.output_tokens.mean()) - 1.0
    return max(left / cycles, 1.0) if cycles > 0.0 else 1.0


def _common(scenario: Scenario, basis: LoadBasis, engine: Engine, rate: float) -> dict[str, object]:
    """What does not depend on how requests arrive."""
    most = LoadModel(scenario, basis, engine).max_rate_per_s
    limits = {
        name: None if np.isinf(getattr(engine.limits, name)) else getattr(engine.limits, name)
        for name in ("seats", "kv", "step_tokens")
    }
    gamma = scenario.speculation.num_speculative_tokens
    return {
        "proposer": basis.proposer if gamma > 0 else None,
        "num_speculative_tokens": gamma,
        "offered_rate_per_s": rate,
        "max_rate_per_s": most,
        "utilization": rate / most,
        "max_batch_size": engine.service.most,
        "limits": limits,
        "binding": _binding(engine),
        "caveats": _caveats(scenario, basis),
    }


def _binding(engine: Engine) -> str:
    seats = engine.service.most
    less, full = engine.service.per_request_s(np.array([LESS * seats, seats]))
    if seats > 1.0 / LESS and np.log(less / full) < -COMPUTE_ELASTICITY * np.log(LESS):
        return "compute"
    return engine.limits.binding


def _caveats(scenario: Scenario, basis: LoadBasis) -> tuple[str, ...]:
    workload, deployment = scenario.workload, scenario.deployment
    found = list(basis.mismatches)
    kind = scenario.speculation.policy.kind
    if kind not in ("fixed", "batch_size_table", "goodput"):
        found.append(f"policy {kind!r} is estimated at its full draft length throughout")
    if any(workload.share(name).shared_prefix_tokens for name in workload.domains):
        found.append("every prompt is prefilled whole: prefix cache hits are left out")
    if workload.sessions is not None:
        found.append("turns of sessions are taken as arrivals by themselves, prefilled whole")
    if workload.arrivals.kind in ("ramp", "recorded"):
        found.append(f"{workload.arrivals.kind!r} arrivals are taken at their mean rate throughout")
    if workload.patience_s is not None:
        found.append("nobody gives up")
    if deployment.max_queue is not None:
        found.append("nobody is rejected: the queue has no bound")
    if deployment.scheduling == "priority":
        found.append("all requests wait in one line: priorities are left out")
    if deployment.failures.outages or deployment.failures.mean_time_between_s is not None:
        found.append("replicas never fail")
    return tuple(found)
