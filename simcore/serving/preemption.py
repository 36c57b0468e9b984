"""Making room: who is preempted, who fails, and what comes back (simcore/engines.py)."""

from simcore.compiled import compiled, compiled_apart
from simcore.serving.ledger import missing_blocks, release_to
from simcore.serving.reservation import (
    candidates,
    covered_tokens,
    lacks_room,
    life_blocks,
    plan_drafts,
)
from simcore.serving.state import DECODING, FAILED, NONE, NOTHING, OUTGREW_MEMORY, WAITING, State


@compiled_apart
def make_room(state: State, index: int, position: int) -> int:
    """Preempt from the end of the running list until the request at `position` has its blocks.

    May preempt that request itself. Alone on the replica, or in a slot of its own, it first gives
    up its drafts, and fails where not even one more token fits: nothing that waiting could change.
    """
    replica = state.replicas[index]
    request = int(state.running[index, position])
    row = state.requests[request]
    preempted = 0
    while lacks_room(state, index, request):
        last = replica.num_running - 1
        if last > 0 and state.limits.slot_blocks == 0:
            _preempt(state, index, last)
            preempted += 1
            if last == position:
                break
        elif row.step_gamma > 0:
            row.step_gamma = 0
            row.step_tokens = 1
        else:
            _fail(state, index, position)
            break
    return preempted


@compiled_apart
def retract(state: State, index: int) -> int:
    """Preempt until every decode of the next step fits: fewest generated tokens first (SGLang).

    Among equals the longest prompt goes; the last request stays.
    """
    gamma = int(state.replicas[index].gamma)
    preempted = 0
    while state.replicas[index].num_running > 1:
        missing, victim = 0, NOTHING
        for position in range(state.replicas[index].num_running):
            request = int(state.running[index, position])
            row = state.requests[request]
            if row.state == DECODING:
                row.step_gamma = plan_drafts(state, request, gamma)
                row.step_tokens = 1 + candidates(state, int(row.step_gamma))
                missing += missing_blocks(state, request, covered_tokens(state, request))
            other = state.requests[state.running[index, victim]]
            if row.emitted_tokens < other.emitted_tokens or (
                row.emitted_tokens == other.emitted_tokens
                and row.prompt_tokens > other.prompt_tokens
            ):
                victim = position
        if missing <= state.replicas[index].free_blocks:
            break
        _preempt(state, index, victim)
        preempted += 1
    return preempted


@compiled_apart
def _drop(state: State, index: int, position: int) -> int:
    """Take the request at `position` out of the running list; its blocks return."""
    replica = state.replicas[index]
    request = int(state.running[index, position])
    replica.num_running -= 1
    for later in range(position, replica.num_running):
        state.running[index, later] = state.running[index, later + 1]
    row = state.requests[request]
    if row.state == DECODING:
        replica.num_decoding -= 1
    _yield_blocks(state, index, request)
    row.committed_tokens = 0
    row.step_tokens = 0
    row.step_gamma = 0
    return request


@compiled
def _yield_blocks(state: State, index: int, request: int) -> None:
    """Give back all KV that a request holds or was promised; it may come again."""
    release_to(state, index, request, NOTHING)
    if state.limits.admits_whole_life:
        state.replicas[index].promised_blocks -= life_blocks(state, request)


@compiled
def leave(state: State, index: int, request: int) -> None:
    """A running request leaves its replica for good."""
    _yield_blocks(state, index, request)
    row = state.requests[request]
    state.replicas[index].outstanding_tokens -= row.prompt_tokens + row.emitted_tokens


@compiled_apart
def _preempt(state: State, index: int, position: int) -> None:
    request = _drop(state, index, position)
    replica = state.replicas[index]
    row = state.requests[request]
    row.state = WAITING
    row.num_preemptions += 1
    row.next_waiting = replica.waiting_head
    replica.waiting_head = request
    if replica.num_waiting == 0:  # what the list still holds was cancelled
        row.next_waiting = NONE
        replica.waiting_tail = request
    replica.num_waiting += 1


@compiled_apart
def _fail(state: State, index: int, position: int) -> None:
    request = _drop(state, index, position)
    row = state.requests[request]
    state.replicas[index].outstanding_tokens -= row.prompt_tokens + row.emitted_tokens
    row.state = FAILED
    row.reason = OUTGREW_MEMORY
    # The last commit ended at this very moment, or the request has only just been admitted.
    row.finish_s = max(row.last_emission_s, row.scheduled_s)
    state.cursor.num_ended += 1
