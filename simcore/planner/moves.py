"""One input of a case moved, everything else held: load, lengths, memory, costs.

What a basis holds is kept as far as the move leaves it true, so that a point stays milliseconds.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from simcore.cost.law import CostLaw, LinearLaw
from simcore.errors import ScenarioError
from simcore.planner.break_even import at_rate
from simcore.planner.case import Case, known_gammas
from simcore.serving.memory import kv_budget
from simcore.workload.load import mean_rate_per_s
from simcore.workload_kinds import LognormalTokens

OFF_WHILE_LOADED = "batch_size_table"


def at_load(case: Case, rate_per_s: float) -> Case:
    """At another mean rate of arrivals, of the whole deployment."""
    return replace(case, scenario=at_rate(case.scenario, rate_per_s))


def at_concurrency(case: Case, requests: int) -> Case:
    """`requests` running on every replica at any time: clients that never think."""
    clients = requests * case.scenario.deployment.replicas
    arrivals = {"kind": "closed_loop", "num_clients": clients, "think": {"mean_s": 0.0}}
    return case.with_(**{"workload.arrivals": arrivals})


def with_clients(case: Case, factor: float) -> Case:
    """`factor` times as many clients of a closed loop."""
    arrivals = case.scenario.workload.arrivals
    assert arrivals.kind == "closed_loop"
    clients = max(round(arrivals.num_clients * factor), 1)
    return case.with_(**{"workload.arrivals.num_clients": clients})


def with_burstiness(case: Case, cv: float) -> Case:
    """Gamma gaps of this coefficient of variation at the same mean rate; 1 is Poisson."""
    arrivals = case.scenario.workload.arrivals
    if arrivals.kind not in ("poisson", "gamma"):
        raise ScenarioError(f"{arrivals.kind!r} arrivals have no cv; use 'poisson' or 'gamma'")
    moved = {"kind": "gamma", "rate_per_s": arrivals.rate_per_s, "cv": cv}
    return case.with_(**{"workload.arrivals": moved})


def with_prompts(case: Case, factor: float) -> Case:
    """Every prompt `factor` times as long, outputs and acceptance as they are."""
    basis = case.basis
    prompts = _times(basis.requests.prompt_tokens, factor)
    traces = basis.traces
    if traces is not None:
        traces = replace(traces, prompt_tokens=_times(traces.prompt_tokens, factor))
    scenario = _with_length(case, "prompt", factor)
    moved = replace(
        basis,
        scenario=scenario,
        requests=replace(basis.requests, prompt_tokens=prompts),
        traces=traces,
        prompt_tokens=basis.prompt_tokens * factor,
    )
    return replace(case, scenario=scenario, basis=moved)


def with_outputs(case: Case, factor: float) -> Case:
    """Every output `factor` times as long; longer ones than recorded go on as their stratum does.

    The closed form holds for all lengths; `can_simulate_outputs` says whether a simulation does.
    """
    basis = case.basis
    outputs = _times(basis.requests.output_tokens, factor)
    scenario = _with_length(case, "output", factor)
    longest = basis.max_output_tokens
    moved = replace(
        basis,
        scenario=scenario,
        requests=replace(basis.requests, output_tokens=outputs),
        max_output_tokens=max(int(np.rint(longest * factor)), 1),
        _laws={},
    )
    return replace(case, scenario=scenario, basis=moved)


def can_simulate_outputs(case: Case) -> bool:
    """Lengths by law are scaled for a simulation too; recorded outputs end where they ended."""
    return case.scenario.workload.lengths.kind in ("lognormal", "fixed")


def can_simulate_prompts(case: Case) -> bool:
    """Files of lengths are read as they are."""
    return case.scenario.workload.lengths.kind in ("lognormal", "fixed", "recorded")


def with_propose_cost(case: Case, factor: float) -> Case:
    """Proposing `factor` times as dear."""
    cost = case.stored.profile.cost
    law = cost.propose[case.proposer]
    fields = {name: getattr(law, name) * factor for name in LinearLaw.model_fields}
    return _with_cost(
        case, cost, {"propose": {**cost.propose, case.proposer: law.model_copy(update=fields)}}
    )


def with_target_slope(case: Case, factor: float) -> Case:
    """What tokens add to a target pass beyond the first knot, `factor` times as much."""
    cost = case.stored.profile.cost
    first = cost.target.knot_s[0]
    knots = tuple(first + factor * (knot - first) for knot in cost.target.knot_s)
    return _with_cost(case, cost, {"target": cost.target.model_copy(update={"knot_s": knots})})


def with_seats(case: Case, factor: float) -> Case:
    """max_num_seqs times `factor`."""
    seats = case.scenario.deployment.max_num_seqs
    return case.with_(**{"deployment.max_num_seqs": max(round(seats * factor), 1)})


def with_kv_room(case: Case, factor: float) -> Case:
    """`factor` times the KV memory that the case has, draft weights and workspace off before."""
    target_bytes = case.stored.profile.identity.target.kv_bytes_per_token
    if target_bytes == 0:
        raise ScenarioError("the profile states no KV bytes a token, so memory limits nothing")
    speculation = case.scenario.speculation
    budget = kv_budget(case.stored.profile, case.scenario.deployment, speculation)
    room_bytes = budget.total_tokens * budget.bytes_per_token
    own_tokens = budget.draft_blocks * budget.draft_block_size
    room_bytes += own_tokens * budget.draft_kv_bytes_per_token
    tokens = max(round(factor * room_bytes / target_bytes), 1)
    return case.with_(**{"deployment.kv_cache_tokens": tokens})


def with_off_tax(case: Case, share: float) -> Case:
    """Off with the proposer still loaded, each step `share` of its target pass longer.

    Only for a case that is off; 0 loads nothing. Weights and KV of the proposer stay in memory.
    """
    if share == 0.0 or case.scenario.speculation.num_speculative_tokens > 0:
        return case
    cost = case.stored.profile.cost
    idle = {**cost.idle_propose, case.proposer: LinearLaw(target_fraction=share)}
    never = [[1, case.scenario.deployment.max_num_seqs, 0]]
    loaded = case.with_(
        **{
            "speculation.proposer": case.proposer,
            "speculation.num_speculative_tokens": min(known_gammas(case)),
            "speculation.policy": {"kind": OFF_WHILE_LOADED, "table": never},
        }
    )
    return _with_cost(loaded, cost, {"idle_propose": idle})


def offered_rate_per_s(case: Case) -> float | None:
    """Mean rate of arrivals; None for a closed loop or a batch."""
    return mean_rate_per_s(case.scenario.workload)


def _times(values: Any, factor: float) -> Any:
    return np.maximum(np.rint(values * factor), 1).astype(np.int64)


def _with_length(case: Case, which: str, factor: float) -> Any:
    """The scenario with one length scaled where it is a law."""
    lengths = case.scenario.workload.lengths
    if lengths.kind == "lognormal":
        law: LognormalTokens = getattr(lengths, which)
        scaled = {
            "mean_tokens": max(law.mean_tokens * factor, 1.0),
            "cv": law.cv,
            "max_tokens": max(int(np.rint(law.max_tokens * factor)), 1),
        }
        return case.scenario.with_(**{f"workload.lengths.{which}": scaled})
    if lengths.kind == "fixed":
        tokens = max(int(np.rint(getattr(lengths, f"{which}_tokens") * factor)), 1)
        return case.scenario.with_(**{f"workload.lengths.{which}_tokens": tokens})
    return case.scenario


def _with_cost(case: Case, cost: CostLaw, changes: dict[str, Any]) -> Case:
    moved = cost.model_copy(update=changes)
    profile = case.stored.profile.model_copy(update={"cost": moved})
    stored = replace(case.stored, profile=profile)
    return replace(case, basis=replace(case.basis, stored=stored, _tables={}))
