"""The waiting list of a replica: who comes in, who is rejected, who is admitted."""

from simcore.compiled import compiled, compiled_apart
from simcore.serving.ledger import missing_blocks, reserve
from simcore.serving.reservation import candidates, life_blocks
from simcore.serving.state import (
    CANCELLED,
    GAVE_UP,
    NEVER_FITS,
    NONE,
    PREFILLING,
    QUEUE_FULL,
    REJECTED,
    WAITING,
    State,
)


@compiled_apart
def enqueue(state: State, index: int, request: int) -> None:
    """A request arrives at a replica: it waits, or is rejected for a reason that is kept."""
    row = state.requests[request]
    replica, limits = state.replicas[index], state.limits
    row.replica = index
    room = limits.slot_blocks if limits.slot_blocks > 0 else int(replica.total_blocks)
    least = missing_blocks(state, request, row.prompt_tokens + 1)
    if limits.admits_whole_life:
        least = max(least, life_blocks(state, request))
    if least > room:
        row.reason = NEVER_FITS
    elif replica.num_waiting >= limits.max_queue:
        row.reason = QUEUE_FULL
    if row.reason != 0:
        row.state = REJECTED
        row.finish_s = row.arrival_s
        state.cursor.num_ended += 1
        return
    row.state = WAITING
    row.next_waiting = NONE
    replica.outstanding_tokens += row.prompt_tokens
    if replica.num_waiting == 0:
        replica.waiting_head = request
    else:
        state.requests[replica.waiting_tail].next_waiting = request
    replica.waiting_tail = request
    replica.num_waiting += 1


@compiled_apart
def drop_waiting(state: State, request: int) -> None:
    """A waiting request is cancelled. It stays in the list, to be passed over at its head."""
    row = state.requests[request]
    replica = state.replicas[row.replica]
    replica.num_waiting -= 1
    replica.outstanding_tokens -= row.prompt_tokens + row.emitted_tokens
    row.state = CANCELLED
    row.reason = GAVE_UP
    row.finish_s = row.gives_up_s
    state.cursor.num_ended += 1


@compiled_apart
def admit(state: State, index: int, now_s: float, budget: int) -> None:
    """Admit from the waiting list while seats, tokens and blocks last, in order of arrival."""
    replica, limits = state.replicas[index], state.limits
    while replica.num_waiting > 0 and replica.num_running < limits.max_num_seqs and budget > 0:
        request = int(replica.waiting_head)
        row = state.requests[request]
        if row.state != WAITING:
            replica.waiting_head = row.next_waiting
            continue
        # A preempted request recomputes what it had: prompt + emitted, less the root.
        prefill_tokens = row.prompt_tokens + max(row.emitted_tokens - 1, 0)
        chunk = min(prefill_tokens, budget)
        if not _may_enter(state, index, request, int(chunk), chunk == prefill_tokens):
            return
        replica.waiting_head = row.next_waiting
        replica.num_waiting -= 1
        if replica.num_waiting == 0:
            replica.waiting_tail = NONE
        row.state = PREFILLING
        row.prefill_left_tokens = prefill_tokens
        row.step_tokens = chunk
        row.step_gamma = 0
        if row.scheduled_s < 0.0:
            row.scheduled_s = now_s
        state.running[index, replica.num_running] = request
        replica.num_running += 1
        budget -= chunk
        if limits.admits_whole_life:
            replica.promised_blocks += life_blocks(state, request)
        reserve(state, index, request, max(int(chunk), limits.slot_blocks * limits.block_size))


@compiled
def _may_enter(state: State, index: int, request: int, chunk: int, ends_prefill: bool) -> bool:
    """Whether the blocks for a first chunk are there, by the engine's rule.

    A prefill that ends in this step must leave room for the step after it at its planned
    maximum, so that nobody is admitted only to be preempted at once.
    """
    replica, limits = state.replicas[index], state.limits
    if limits.slot_blocks > 0:
        return True
    if limits.admits_whole_life:
        promised = int(replica.promised_blocks) + life_blocks(state, request)
        return bool(promised <= replica.total_blocks)
    ahead = 0
    if ends_prefill and replica.num_running > 0:
        ahead = 1 + candidates(state, int(replica.gamma)) + limits.lookahead_tokens
        ahead = max(ahead, limits.headroom_tokens)
    return bool(missing_blocks(state, request, chunk + ahead) <= replica.free_blocks)
