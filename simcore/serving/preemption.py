"""Making room: who is preempted, who fails, and what comes back (simcore/engines.py)."""

from simcore.compiled import compiled, compiled_apart
from simcore.serving.ending import end_request
from simcore.serving.ledger import missing_blocks, release_to
from simcore.serving.prefix_cache import leave_prefix, share_prefix
from simcore.serving.reservation import (
    covered_tokens,
    lacks_room,
    life_blocks,
    life_draft_blocks,
    plan_cycle,
)
from simcore.serving.state import (
    CANCELLED,
    DECODING,
    FAILED,
    GAVE_UP,
    NONE,
    NOTHING,
    OUTGREW_MEMORY,
    State,
)
from simcore.serving.waiting import put_back


@compiled_apart
def make_room(state: State, index: int, position: int) -> tuple[int, int]:
    """Preempt until the request at `position` has its blocks: (how many, the position now).

    It may have to go itself; whoever came behind it then stands at the position. Alone on the
    replica, or in a slot of its own, it first gives up its drafts, and fails where not even one
    more token fits: nothing that waiting could change.
    """
    replica = state.replicas[index]
    request = int(state.running[index, position])
    row = state.requests[request]
    preempted = 0
    while lacks_room(state, index, request):
        if replica.num_running > 1 and state.limits.slot_blocks == 0:
            victim = _victim(state, index)
            _preempt(state, index, victim)
            preempted += 1
            if victim == position:
                break
            position -= int(victim < position)
        elif row.step_mode > 0:
            row.step_mode = 0
            row.step_tokens = 1
            row.step_most = 0
        else:
            _fail(state, index, position)
            break
    return preempted, position


@compiled
def _victim(state: State, index: int) -> int:
    """Position of who goes first: the last admitted; by priority the last of the least urgent."""
    last = int(state.replicas[index].num_running) - 1
    if state.limits.is_prioritised == 0:
        return last
    chosen = last
    for position in range(last - 1, -1, -1):
        row = state.requests[state.running[index, position]]
        other = state.requests[state.running[index, chosen]]
        if row.level > other.level or (
            row.level == other.level and row.arrival_s > other.arrival_s
        ):
            chosen = position
    return chosen


@compiled_apart
def retract(state: State, index: int) -> int:
    """Preempt until every decode of the next step fits: fewest generated tokens first (SGLang).

    Among equals the longest prompt goes; the last request stays.
    """
    mode = int(state.replicas[index].mode)
    preempted = 0
    while state.replicas[index].num_running > 1:
        missing, victim = 0, NOTHING
        for position in range(state.replicas[index].num_running):
            request = int(state.running[index, position])
            row = state.requests[request]
            if row.state == DECODING:
                plan_cycle(state, request, mode)
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
def take_out(state: State, index: int, position: int) -> int:
    """Take the request at `position` out of the running list; its blocks return."""
    replica = state.replicas[index]
    request = int(state.running[index, position])
    replica.num_running -= 1
    for later in range(position, replica.num_running):
        state.running[index, later] = state.running[index, later + 1]
    row = state.requests[request]
    if row.state == DECODING:
        replica.num_decoding -= 1
    yield_blocks(state, index, request)
    row.committed_tokens = 0
    row.step_tokens = 0
    row.step_mode = 0
    row.confidence_row = NONE  # its drafts are dropped, and what their proposer thought of them
    return request


@compiled_apart
def yield_blocks(state: State, index: int, request: int) -> None:
    """Give back all KV that a request holds or was promised; what it shares stays cached."""
    row = state.requests[request]
    shares = state.limits.caches_prefixes and row.prefix_end > row.prefix_begin
    if shares:
        share_prefix(state, index, request)
    row.draft_committed_tokens = 0
    release_to(state, index, request, NOTHING)
    if shares:
        leave_prefix(state, index, request)
    if state.limits.admits_whole_life:
        state.replicas[index].promised_blocks -= life_blocks(state, request)
        state.replicas[index].promised_draft_blocks -= life_draft_blocks(state, request)


@compiled
def leave(state: State, index: int, request: int) -> None:
    """A running request leaves its replica for good."""
    yield_blocks(state, index, request)
    row = state.requests[request]
    state.replicas[index].outstanding_tokens -= row.prompt_tokens + row.emitted_tokens


@compiled_apart
def _preempt(state: State, index: int, position: int) -> None:
    request = take_out(state, index, position)
    state.requests[request].num_preemptions += 1
    put_back(state, index, request)


@compiled_apart
def _fail(state: State, index: int, position: int) -> None:
    now_s = float(state.replicas[index].now_s)
    _end_early(state, index, position, FAILED, OUTGREW_MEMORY, now_s)


@compiled_apart
def drop_running(state: State, request: int, end_s: float) -> None:
    """A running request is cancelled between two steps."""
    index, position = int(state.requests[request].replica), NOTHING
    while state.running[index, position] != request:
        position += 1
    _end_early(state, index, position, CANCELLED, GAVE_UP, end_s)


@compiled_apart
def _end_early(
    state: State, index: int, position: int, final: int, reason: int, end_s: float
) -> None:
    request = take_out(state, index, position)
    row = state.requests[request]
    state.replicas[index].outstanding_tokens -= row.prompt_tokens + row.emitted_tokens
    end_request(state, request, final, reason, end_s)
