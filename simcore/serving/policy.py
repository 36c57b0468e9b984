"""Which draft mode is in force: the engines' policies, and an oracle, inside the step kernel.

A policy sees what a scheduler could see: batch size, free blocks, past acceptance, the cost law.
It decides when a step begins; every change is logged with its time and reason. Only the oracle
sees the cycles that are about to run (reservation.plan_cycle). A mode from 0 to γ is a chain of
that length; narrower trees and other proposers follow behind (speculation.Speculation.modes).
"""

import numpy as np

from simcore.compiled import compiled, compiled_apart
from simcore.cost.price import price_step
from simcore.cost.shape import StepShape
from simcore.records import codes
from simcore.serving.policy_tables import (
    ACCEPTANCE_GATE,
    ADAPTIVE_EMA,
    ADAPTIVE_VERIFICATION,
    BATCH_TABLE,
    FIXED,
    GOODPUT,
    ORACLE,
)
from simcore.serving.state import DECODING, NOTHING, State

REASONS = (
    "batch size",
    "acceptance rose",
    "acceptance fell",
    "probe after a spell without drafts",
    "acceptance below the gate: off for good",
    "better expected goodput",
    "blocks running out",
    "blocks free again",
    "the caller's policy",
    "restarted after a failure",
)
(
    BATCH_SIZE,
    ACCEPTANCE_ROSE,
    ACCEPTANCE_FELL,
    PROBE,
    GATE_CLOSED,
    BETTER_GOODPUT,
    LESS_MEMORY,
    MORE_MEMORY,
    CALLER,
    RESTARTED,
) = codes(len(REASONS))


@compiled_apart
def choose_mode(state: State, index: int, now_s: float) -> None:
    """Set the draft mode of the step that begins, and log a change."""
    kind = state.policy.rule.kind
    if kind in (FIXED, ORACLE, ADAPTIVE_VERIFICATION):
        return
    current = int(state.replicas[index].mode)
    if kind == BATCH_TABLE:
        chosen, reason = _by_batch_size(state, index, current)
    elif kind == ADAPTIVE_EMA:
        chosen, reason = _by_moving_average(state, index, current)
    elif kind == ACCEPTANCE_GATE:
        chosen, reason = _by_gate(state, index, current)
    elif kind == GOODPUT:
        chosen, reason = _by_goodput(state, index, current)
    else:
        chosen, reason = _by_memory(state, index, current)
    if chosen != current:
        set_mode(state, index, now_s, chosen, reason)


@compiled_apart
def set_mode(state: State, index: int, now_s: float, chosen: int, reason: int) -> None:
    """Put a draft mode in force and log when and why."""
    replica = state.replicas[index]
    change = state.changes[state.cursor[0].num_changes]
    state.cursor[0].num_changes += 1
    change.time_s = now_s
    change.replica = index
    change.from_mode = replica.mode
    change.to_mode = chosen
    change.reason = reason
    change.num_running = replica.num_running
    change.free_blocks = replica.free_blocks
    change.acceptance = replica.policy_mean
    replica.mode = chosen
    replica.policy_age = 0


@compiled_apart
def observe_step(state: State, index: int, num_drafting: int, proposed: int, accepted: int) -> None:
    """What a policy may learn from a committed step: drafts proposed and accepted."""
    policy, replica = state.policy, state.replicas[index]
    replica.policy_age += 1
    if policy.rule.kind == ADAPTIVE_EMA and num_drafting > 0:
        _average(state, index, accepted / num_drafting)
    elif policy.rule.kind == GOODPUT and num_drafting > 0:
        expected = num_drafting * (policy.expected_tokens[replica.mode] - 1.0)
        if expected > 0.0:
            _average(state, index, accepted / expected)
    elif policy.rule.kind == ACCEPTANCE_GATE and proposed > 0:
        slot = int(replica.policy_seen % policy.rule.window_steps)
        window = state.gate_window
        replica.gate_proposed += proposed - window[index, slot, 0]
        replica.gate_accepted += accepted - window[index, slot, 1]
        window[index, slot, 0] = proposed
        window[index, slot, 1] = accepted
        replica.policy_seen += 1


@compiled
def _average(state: State, index: int, value: float) -> None:
    replica = state.replicas[index]
    if replica.policy_seen == 0:
        replica.policy_mean = value
    else:
        replica.policy_mean += state.policy.rule.ema_alpha * (value - replica.policy_mean)
    replica.policy_seen += 1


@compiled_apart
def _by_batch_size(state: State, index: int, current: int) -> tuple[int, int]:
    """One step late, as the engine does: the size is that of the step before."""
    size = state.replicas[index].last_scheduled
    if size == 0:
        return current, BATCH_SIZE
    table = state.policy.table
    chosen = current
    for row in range(len(table)):
        if table[row, 0] <= size:  # a gap keeps the length of the rows before it
            chosen = int(table[row, 2])
    return chosen, BATCH_SIZE


@compiled_apart
def _by_moving_average(state: State, index: int, current: int) -> tuple[int, int]:
    policy, replica = state.policy, state.replicas[index]
    tier = 0
    while tier + 1 < len(policy.table) and policy.table[tier + 1, 0] <= replica.num_running:
        tier += 1
    candidates = policy.candidates[policy.table[tier, 1] : policy.table[tier, 2]]
    place = int(np.searchsorted(candidates, current))
    if place == len(candidates) or candidates[place] != current:
        return int(candidates[max(place - 1, 0)]), BATCH_SIZE  # of another tier
    if current == 0:
        probes = replica.policy_age >= policy.rule.probe_interval and place + 1 < len(candidates)
        return (int(candidates[place + 1]) if probes else 0), PROBE
    seen = replica.policy_seen
    if (
        seen < policy.rule.warmup_steps
        or seen - replica.policy_decided < policy.rule.update_interval
    ):
        return current, ACCEPTANCE_ROSE
    replica.policy_decided = seen
    if place + 1 < len(candidates) and replica.policy_mean > current - 0.5 + policy.rule.up:
        return int(candidates[place + 1]), ACCEPTANCE_ROSE
    lower = int(candidates[max(place - 1, 0)])
    falls = replica.policy_mean < max(lower, 1) - 0.5 + policy.rule.down
    return (lower if falls else current), ACCEPTANCE_FELL


@compiled_apart
def _by_gate(state: State, index: int, current: int) -> tuple[int, int]:
    policy, replica = state.policy, state.replicas[index]
    full = replica.policy_seen >= policy.rule.window_steps
    if full and replica.gate_accepted < policy.rule.threshold * replica.gate_proposed:
        return 0, GATE_CLOSED
    return current, GATE_CLOSED


@compiled_apart
def _by_goodput(state: State, index: int, current: int) -> tuple[int, int]:
    """argmax of expected tokens / expected step time over the candidates (SmartSpec)."""
    requests, kv = NOTHING, NOTHING
    for position in range(state.replicas[index].num_running):
        row = state.requests[state.running[index, position]]
        if row.state == DECODING:
            requests += 1
            kv += row.committed_tokens
    if requests == 0:
        return current, BETTER_GOODPUT
    best, best_rate = current, _goodput(state, index, current, requests, kv)
    needed = best_rate * (1.0 + state.policy.rule.up)
    for length in state.policy.candidates:
        rate = _goodput(state, index, int(length), requests, kv)
        if rate > needed and rate > best_rate:
            best, best_rate = int(length), rate
    return best, BETTER_GOODPUT


@compiled_apart
def _goodput(state: State, index: int, gamma: int, requests: int, kv: int) -> float:
    policy, replica = state.policy, state.replicas[index]
    seen = replica.policy_mean if replica.policy_seen > 0 else 1.0
    tokens = 1.0 + (policy.expected_tokens[gamma] - 1.0) * seen
    drafts = policy.expected_drafts[gamma]
    batch = float(requests)
    shape = StepShape(
        batch,
        batch,
        float(gamma),
        batch * drafts,
        batch * drafts,
        batch * (1.0 + drafts),
        float(kv) if gamma == 0 else 0.0,
        float(kv) if gamma > 0 else 0.0,
        0.0,
        0.0,
        (1.0 + drafts) * (kv + batch * (1.0 + drafts) / 2) if gamma > 0 else 0.0,
        0.0,
    )
    propose_s, target_s, reconcile_s, overhead_s = price_step(state.law, shape)
    return float(batch * tokens / (propose_s + target_s + reconcile_s + overhead_s))


@compiled_apart
def _by_memory(state: State, index: int, current: int) -> tuple[int, int]:
    """The lowest rung of the ladder whose bound the share of free blocks has fallen below."""
    policy, replica = state.policy, state.replicas[index]
    free = replica.free_blocks / replica.total_blocks
    standing = NOTHING  # the rung that is in force; 0: the full draft
    for rung in range(len(policy.rungs)):
        if int(policy.rungs[rung, 1]) == current and current != state.limits.mode:
            standing = rung + 1
    chosen = NOTHING
    for rung in range(len(policy.rungs)):
        # Upwards a bound counts only once it is exceeded by the hysteresis.
        bound = policy.rungs[rung, 0] + (policy.rule.up if rung < standing else 0.0)
        if free < bound:
            chosen = rung + 1
    mode = int(policy.rungs[chosen - 1, 1]) if chosen > 0 else int(state.limits.mode)
    return mode, LESS_MEMORY if chosen > standing else MORE_MEMORY
