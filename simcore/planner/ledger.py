"""What speculation takes of a replica's memory and devices, beside what it gains."""

from simcore.metrics.consumption import devices_of_a_replica
from simcore.metrics.estimate import Estimate
from simcore.planner.capacity_document import Ledger
from simcore.profile.store import StoredProfile
from simcore.scenario import Scenario
from simcore.serving.memory import kv_budget
from simcore.serving.setup import new_state


def speculation_ledger(
    stored: StoredProfile, off: Scenario, on: Scenario, metrics: dict[str, Estimate]
) -> Ledger:
    """KV tokens of one replica that speculation took, by what took them.

    `metrics` of on at its capacity turn them into running requests; empty: null. Weights and the
    wider workspace are counted in the target's KV tokens; draft KV takes the rest of what is lost.
    """
    profile = stored.profile
    plain = kv_budget(profile, off.deployment, off.speculation)
    budget = kv_budget(profile, on.deployment, on.speculation)
    token_bytes = max(profile.identity.target.kv_bytes_per_token, 1)
    weights = budget.draft_weight_bytes // token_bytes
    wider = max(budget.workspace_bytes - plain.workspace_bytes, 0) // token_bytes
    if budget.usable_bytes is None:  # the room is stated, all of this taken off before
        weights = wider = 0
    lost = max(plain.total_tokens - budget.total_tokens, 0)
    reserved = reserved_tokens(off, stored), reserved_tokens(on, stored)
    held_back = _times_batch(reserved[1] - reserved[0], metrics)
    return Ledger(
        kv_tokens_off=plain.total_tokens,
        kv_tokens_on=budget.total_tokens,
        draft_weight_bytes=budget.draft_weight_bytes,
        draft_weight_tokens=min(weights, lost),
        draft_kv_bytes_per_token=budget.draft_kv_bytes_per_token,
        draft_kv_tokens=max(lost - weights - wider, 0),
        workspace_tokens=min(wider, max(lost - weights, 0)),
        reserved_tokens_per_request=reserved,
        reserved_tokens=held_back,
        lost_requests=_requests(lost, held_back, metrics),
        draft_devices=devices_of_a_replica(profile, on.speculation)
        - devices_of_a_replica(profile, off.speculation),
    )


def reserved_tokens(scenario: Scenario, stored: StoredProfile) -> int:
    """Of one request beyond its committed tokens in a step, as the engine's rules set it up."""
    changes = {"workload.num_requests": 1} if scenario.workload.recording is None else {}
    limits = new_state(scenario.with_(**changes), stored).state.limits
    if limits.headroom_tokens > 0:
        return int(limits.headroom_tokens)
    return int(1 + limits.most_verified_tokens + limits.lookahead_tokens)


def _times_batch(tokens: int, metrics: dict[str, Estimate]) -> float | None:
    batch = metrics["mean_batch_size"].mean if metrics else None
    return None if batch is None else tokens * batch


def _requests(lost: int, held_back: float | None, metrics: dict[str, Estimate]) -> float | None:
    context = metrics["mean_context_tokens"].mean if metrics else None
    if context is None or held_back is None or context <= 0.0:
        return None
    return (lost + held_back) / context
