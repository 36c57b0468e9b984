"""Which requests take part in the next step, and with how many tokens.

Shared by all engines: running requests first in order of admission, each decode with its root
and drafts, prefill in chunks with what the token budget leaves, then the waiting lists, first come
first served within a priority class. Where blocks run out the request admitted last (by priority:
the last of the least urgent) is preempted and later recomputed; a step that preempted admits
nobody unless it left the replica empty. What engines do otherwise are rules (simcore/engines.py).
The scheduler never reads how long an output will be nor what will be accepted.
"""

from simcore.compiled import compiled, compiled_apart
from simcore.serving.admission import admit
from simcore.serving.ledger import reserve
from simcore.serving.policy_tables import ADAPTIVE_VERIFICATION
from simcore.serving.preemption import make_room, retract
from simcore.serving.reservation import covered_tokens, lacks_room, plan_cycle
from simcore.serving.state import DECODING, NOTHING, PREFILLING, State
from simcore.serving.verification import choose_verified


@compiled
def schedule(state: State, index: int, now_s: float) -> int:
    """Plan the next step of a replica: reserve blocks and set step_tokens and step_mode.

    Returns how many requests were preempted for it.
    """
    state.replicas[index].now_s = now_s
    if state.limits.prefills_apart and state.replicas[index].num_decoding > 0:
        if _plan_prefill_step(state, index, now_s):
            return 0
        preempted = retract(state, index) if state.limits.retracts_youngest else 0
        preempted += _plan_running(state, index, NOTHING)
        if state.replicas[index].num_running == 0:  # the last one failed: nobody waits for it
            admit(state, index, now_s, int(state.limits.max_num_batched_tokens))
        return preempted
    # Decodes come first: what they may take is no prefill's to spend.
    replica = state.replicas[index]
    verified = state.modes[replica.mode].verified_tokens
    charged = state.limits.charged_tokens if replica.mode > 0 else 0
    decode_tokens = replica.num_decoding * (1 + verified + charged)
    budget = state.limits.max_num_batched_tokens - decode_tokens
    preempted = _plan_running(state, index, budget)
    if state.replicas[index].num_running == 0:  # the last one failed: its tokens are free again
        admit(state, index, now_s, int(state.limits.max_num_batched_tokens))
    elif preempted == 0 and state.replicas[index].num_waiting > 0:
        admit(state, index, now_s, budget - _planned_prefill(state, index))
    return preempted


@compiled
def _plan_running(state: State, index: int, budget: int) -> int:
    """Plan every running request in order of admission; prefill within `budget` tokens."""
    mode = int(state.replicas[index].mode)
    preempted = 0
    position = NOTHING
    while position < state.replicas[index].num_running:
        request = int(state.running[index, position])
        row = state.requests[request]
        if row.state == DECODING:
            plan_cycle(state, request, mode)
        else:
            row.step_mode = 0
            row.step_tokens = max(0, min(row.prefill_left_tokens, budget))
        if lacks_room(state, index, request):
            more, position = make_room(state, index, position)
            preempted += more
            if (
                position >= state.replicas[index].num_running
                or state.running[index, position] != request
            ):
                continue
        if row.state == PREFILLING:
            budget -= row.step_tokens
        reserve(state, index, request, covered_tokens(state, request))
        position += 1
    if state.policy.rule.kind == ADAPTIVE_VERIFICATION:
        choose_verified(state, index)
    return preempted


@compiled
def _planned_prefill(state: State, index: int) -> int:
    tokens = 0
    for position in range(state.replicas[index].num_running):
        row = state.requests[state.running[index, position]]
        if row.state == PREFILLING:
            tokens += row.step_tokens
    return tokens


@compiled_apart
def _plan_prefill_step(state: State, index: int, now_s: float) -> bool:
    """A step of prefill alone, decodes standing still; False where there is none to do."""
    budget = state.limits.max_num_batched_tokens
    for position in range(state.replicas[index].num_running):
        request = int(state.running[index, position])
        row = state.requests[request]
        row.step_mode = 0
        row.step_tokens = 0
        if row.state == PREFILLING:
            row.step_tokens = min(int(row.prefill_left_tokens), budget)
            if lacks_room(state, index, request):
                row.step_tokens = 0
            else:
                budget -= row.step_tokens
                reserve(state, index, request, covered_tokens(state, request))
    admit(state, index, now_s, budget)
    return _planned_prefill(state, index) > 0
