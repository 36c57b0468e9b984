"""Who comes in: an arriving request waits or is rejected, a waiting one is admitted or not yet."""

from simcore.compiled import compiled, compiled_apart
from simcore.serving.ending import end_request
from simcore.serving.ledger import blocks_for, missing_blocks, reserve
from simcore.serving.prefix_cache import find_prefix, hold_prefix
from simcore.serving.reservation import life_blocks, life_draft_blocks
from simcore.serving.state import (
    CANCELLED,
    FAILED,
    GAVE_UP,
    LIFE_NEVER_FITS,
    NEVER_FITS,
    NOTHING,
    OUTGREW_MEMORY,
    PREFILLING,
    QUEUE_FULL,
    REJECTED,
    State,
)
from simcore.serving.waiting import append_waiting, first_waiting, take_first


@compiled_apart
def enqueue(state: State, index: int, request: int) -> None:
    """A request arrives at a replica: it waits, or is rejected for a reason that is kept."""
    row = state.requests[request]
    replica = state.replicas[index]
    row.replica = index
    reason = refusal(state, index, request)
    if reason != 0:
        end_request(state, request, REJECTED, reason, row.arrival_s)
        return
    replica.outstanding_tokens += row.prompt_tokens
    append_waiting(state, index, request)


@compiled_apart
def refusal(state: State, index: int, request: int) -> int:
    """Why a replica does not take a request in; 0 where it does."""
    row = state.requests[request]
    replica, limits = state.replicas[index], state.limits
    room = limits.slot_blocks if limits.slot_blocks > 0 else int(replica.total_blocks)
    draft_size, draft_least = limits.draft_block_size, NOTHING
    if draft_size > 0:
        draft_least = blocks_for(int(row.prompt_tokens), draft_size)
    least = missing_blocks(state, request, row.prompt_tokens + 1)
    if least > room or draft_least > replica.draft_total_blocks:
        return int(NEVER_FITS)
    if limits.admits_whole_life and (
        life_blocks(state, request) > room
        or life_draft_blocks(state, request) > replica.draft_total_blocks
    ):
        return int(LIFE_NEVER_FITS)
    return int(QUEUE_FULL) if replica.num_waiting >= limits.max_queue else 0


@compiled_apart
def drop_waiting(state: State, request: int, end_s: float) -> None:
    """A waiting request is cancelled. It stays in the list, to be passed over at its head."""
    row = state.requests[request]
    replica = state.replicas[row.replica]
    replica.num_waiting -= 1
    replica.outstanding_tokens -= row.prompt_tokens + row.emitted_tokens
    end_request(state, request, CANCELLED, GAVE_UP, end_s)


@compiled_apart
def admit(state: State, index: int, now_s: float, budget: int) -> None:
    """Admit from the waiting lists while seats, tokens and blocks last."""
    replica, limits = state.replicas[index], state.limits
    while replica.num_waiting > 0 and replica.num_running < limits.max_num_seqs and budget > 0:
        request = first_waiting(state, index)
        row = state.requests[request]
        # A preempted request recomputes what it had: prompt + emitted, less the root.
        tokens = int(row.prompt_tokens + max(row.emitted_tokens - 1, 0))
        hits, idle = NOTHING, NOTHING
        if limits.caches_prefixes and row.prefix_end > row.prefix_begin:
            hits, idle = find_prefix(state, index, request, tokens)
        cached = hits * limits.block_size
        chunk = min(tokens - cached, budget)
        ends_prefill = cached + chunk == tokens
        if not _may_enter(state, index, request, int(cached + chunk), ends_prefill, hits - idle):
            if replica.num_running > 0:
                return
            _fail_waiting(state, index, request, now_s)
            continue
        take_first(state, index, request)
        row.state = PREFILLING
        row.prefill_left_tokens = tokens - cached
        row.step_tokens = chunk
        row.step_mode = 0
        if row.scheduled_s < 0.0:
            row.scheduled_s = now_s
        if hits > 0:
            hold_prefix(state, index, request, int(hits))
            row.committed_tokens = cached
            row.draft_committed_tokens = cached
            row.cached_tokens += cached
        state.running[index, replica.num_running] = request
        replica.num_running += 1
        budget -= chunk
        if limits.admits_whole_life:
            replica.promised_blocks += life_blocks(state, request)
            replica.promised_draft_blocks += life_draft_blocks(state, request)
        seat_tokens = limits.slot_blocks * limits.block_size
        reserve(state, index, request, max(int(cached + chunk), seat_tokens))


@compiled_apart
def _fail_waiting(state: State, index: int, request: int, now_s: float) -> None:
    """All memory is free and it still does not fit: it went on without drafts, and grew."""
    take_first(state, index, request)
    row = state.requests[request]
    state.replicas[index].outstanding_tokens -= row.prompt_tokens + row.emitted_tokens
    end_request(state, request, FAILED, OUTGREW_MEMORY, now_s)


@compiled
def _may_enter(
    state: State, index: int, request: int, tokens: int, ends_prefill: bool, shared: int
) -> bool:
    """Whether the blocks for a first chunk are there, by the engine's rule.

    `tokens` are those that its KV holds after the chunk, `shared` blocks of them are held by others
    already. A prefill that ends in this step must leave room for the step after it at its planned
    maximum, so that nobody is admitted only to be preempted at once. The watermark stays free, but
    for a request that would be alone.
    """
    replica, limits = state.replicas[index], state.limits
    if limits.slot_blocks > 0:
        return True
    if limits.admits_whole_life:
        promised = int(replica.promised_blocks) + life_blocks(state, request)
        of_draft = int(replica.promised_draft_blocks) + life_draft_blocks(state, request)
        return bool(promised <= replica.total_blocks and of_draft <= replica.draft_total_blocks)
    ahead, spare = 0, NOTHING
    if replica.num_running > 0:
        spare = limits.watermark_blocks
        if ends_prefill:
            ahead = 1 + state.modes[replica.mode].verified_tokens + limits.lookahead_tokens
            ahead = max(ahead, limits.headroom_tokens)
    missing = missing_blocks(state, request, tokens + ahead) - shared
    fits = missing + spare <= replica.free_blocks
    return bool(fits and _draft_fits(state, index, tokens, shared))


@compiled
def _draft_fits(state: State, index: int, tokens: int, shared: int) -> bool:
    """Whether a draft pool of its own, if there is one, holds the prefill and the drafts after."""
    size = state.limits.draft_block_size
    if size == 0:
        return True
    replica = state.replicas[index]
    ahead = state.modes[replica.mode].proposed_tokens if replica.num_running > 0 else 0
    return bool(blocks_for(tokens + ahead, size) - shared <= replica.draft_free_blocks)
