"""Which requests take part in the next step, and with how many tokens.

Shared by all engines: running requests first in order of admission, each decode with its root
and drafts, prefill in chunks with what the token budget leaves, then first come first served from
the waiting list. Where blocks run out the request admitted last is preempted and later
recomputed; a step that preempted admits nobody unless it left the replica empty. What engines do
otherwise are rules (simcore/engines.py). The scheduler never reads how long an output will be nor
what will be accepted.
"""

from simcore.compiled import compiled, compiled_apart
from simcore.serving.admission import admit
from simcore.serving.ledger import missing_blocks, reserve
from simcore.serving.preemption import make_room, retract
from simcore.serving.reservation import candidates, covered_tokens, lacks_room, plan_drafts
from simcore.serving.state import DECODING, NOTHING, PREFILLING, State


@compiled
def schedule(state: State, index: int, now_s: float) -> int:
    """Plan the next step of a replica: reserve blocks and set step_tokens and step_gamma.

    Returns how many requests were preempted for it.
    """
    if state.limits.prefills_apart and state.replicas[index].num_decoding > 0:
        if _plan_prefill_step(state, index, now_s):
            return 0
        preempted = retract(state, index) if state.limits.retracts_youngest else 0
        preempted += _plan_running(state, index, NOTHING)
        if state.replicas[index].num_running == 0:  # the last one failed: nobody waits for it
            admit(state, index, now_s, int(state.limits.max_num_batched_tokens))
        return preempted
    # Decodes come first: what they may take is no prefill's to spend.
    gamma = int(state.replicas[index].gamma)
    decode_tokens = state.replicas[index].num_decoding * (1 + candidates(state, gamma))
    budget = state.limits.max_num_batched_tokens - decode_tokens
    preempted = _plan_running(state, index, budget)
    admits = preempted == 0 or state.replicas[index].num_running == 0
    if admits and state.replicas[index].num_waiting > 0:
        admit(state, index, now_s, budget - _planned_prefill(state, index))
    return preempted


@compiled
def _plan_running(state: State, index: int, budget: int) -> int:
    """Plan every running request in order of admission; prefill within `budget` tokens."""
    gamma = int(state.replicas[index].gamma)
    preempted = 0
    position = NOTHING
    while position < state.replicas[index].num_running:
        request = state.running[index, position]
        row = state.requests[request]
        if row.state == DECODING:
            row.step_gamma = plan_drafts(state, int(request), gamma)
            row.step_tokens = 1 + candidates(state, int(row.step_gamma))
        else:
            row.step_gamma = 0
            row.step_tokens = max(0, min(row.prefill_left_tokens, budget))
        if lacks_room(state, index, int(request)):
            preempted += make_room(state, index, position)
        if (
            position < state.replicas[index].num_running
            and state.running[index, position] == request
        ):
            if row.state == PREFILLING:
                budget -= row.step_tokens
            reserve(state, index, int(request), covered_tokens(state, int(request)))
            position += 1
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
        row.step_gamma = 0
        row.step_tokens = 0
        if row.state == PREFILLING:
            chunk = min(int(row.prefill_left_tokens), budget)
            if missing_blocks(state, request, row.committed_tokens + chunk) <= (
                state.replicas[index].free_blocks
            ):
                row.step_tokens = chunk
                budget -= chunk
                reserve(state, index, request, row.committed_tokens + chunk)
    admit(state, index, now_s, budget)
    return _planned_prefill(state, index) > 0
