"""Which requests take part in the next step, and with how many tokens.

The rules are vLLM V1's: running requests first in order of admission, each decode with 1 + γ
tokens, prefill in chunks with what the token budget leaves, then first come first served from
the waiting list. Where blocks run out the request admitted last is preempted and later
recomputed; a step that preempted admits nobody unless it left the replica empty. The scheduler
never reads how long an output will be nor what will be accepted.
"""

from simcore.compiled import compiled
from simcore.serving.cycle import draw
from simcore.serving.ledger import missing_blocks, release_to, reserve
from simcore.serving.policy_tables import ORACLE
from simcore.serving.state import (
    DECODING,
    FAILED,
    NONE,
    PREFILLING,
    REJECTED,
    WAITING,
    State,
)


@compiled
def enqueue(state: State, index: int, request: int) -> None:
    """A request arrives at a replica: it waits, or is rejected if it can never fit."""
    row = state.requests[request]
    replica = state.replicas[index]
    row.replica = index
    if missing_blocks(state, request, row.prompt_tokens + 1) > replica.total_blocks:
        row.state = REJECTED
        row.finish_s = row.arrival_s
        state.cursor.num_ended[0] += 1
        return
    row.state = WAITING
    row.next_waiting = NONE
    if replica.num_waiting == 0:
        replica.waiting_head = request
    else:
        state.requests[replica.waiting_tail].next_waiting = request
    replica.waiting_tail = request
    replica.num_waiting += 1


@compiled
def schedule(state: State, index: int, now_s: float) -> int:
    """Plan the next step of a replica: reserve blocks and set step_tokens and step_gamma.

    Returns how many requests were preempted for it.
    """
    # Decodes come first: what they may take is no prefill's to spend.
    gamma = int(state.replicas[index].gamma)
    decode_tokens = state.replicas[index].num_decoding * (1 + candidates(state, gamma))
    budget = state.limits.max_num_batched_tokens - decode_tokens
    preempted = 0
    position = 0
    while position < state.replicas[index].num_running:
        request = state.running[index, position]
        row = state.requests[request]
        if row.state == DECODING:
            row.step_gamma = plan_drafts(state, int(request), gamma)
            row.step_tokens = 1 + candidates(state, int(row.step_gamma))
        else:
            row.step_gamma = 0
            row.step_tokens = max(0, min(row.prefill_left_tokens, budget))
        preempted += _make_room(state, index, position)
        if position < state.replicas[index].num_running:
            if row.state == PREFILLING:
                budget -= row.step_tokens
            reserve(state, index, request, row.committed_tokens + row.step_tokens)
        position += 1
    if preempted == 0 or state.replicas[index].num_running == 0:
        _admit(state, index, now_s, budget)
    return preempted


@compiled
def candidates(state: State, gamma: int) -> int:
    """m: tokens that one request drafts and has verified at this draft length; a tree is whole."""
    return state.limits.num_draft_tokens if gamma == state.limits.gamma else gamma


@compiled
def plan_drafts(state: State, request: int, gamma: int) -> int:
    """Drafts planned for one request of a step; the oracle alone looks at what would survive."""
    row = state.requests[request]
    if row.can_speculate == 0:
        return 0
    if state.policy.kind == ORACLE:
        row.step_gamma = gamma
        draw(state, request)
        return int(row.step_accepted)
    return gamma


@compiled
def _make_room(state: State, index: int, position: int) -> int:
    """Preempt from the end of the running list until the request at `position` has its blocks.

    May preempt that request itself. Alone on the replica it first gives up its drafts, and fails
    where not even one more token fits: nothing that waiting could change.
    """
    replica = state.replicas[index]
    request = state.running[index, position]
    row = state.requests[request]
    preempted = 0
    while missing_blocks(state, request, row.committed_tokens + row.step_tokens) > (
        replica.free_blocks
    ):
        last = replica.num_running - 1
        if last > 0:
            _preempt_last(state, index)
            preempted += 1
            if last == position:
                break
        elif row.step_gamma > 0:
            row.step_gamma = 0
            row.step_tokens = 1
        else:
            _fail_last(state, index)
            break
    return preempted


@compiled
def _drop_last(state: State, index: int) -> int:
    """Take the request admitted last out of the running list; its blocks return."""
    replica = state.replicas[index]
    replica.num_running -= 1
    request = state.running[index, replica.num_running]
    release_to(state, index, request, 0)
    row = state.requests[request]
    if row.state == DECODING:
        replica.num_decoding -= 1
    row.committed_tokens = 0
    row.step_tokens = 0
    row.step_gamma = 0
    return int(request)


@compiled
def _preempt_last(state: State, index: int) -> None:
    request = _drop_last(state, index)
    replica = state.replicas[index]
    row = state.requests[request]
    row.state = WAITING
    row.num_preemptions += 1
    row.next_waiting = replica.waiting_head
    replica.waiting_head = request
    if replica.num_waiting == 0:
        replica.waiting_tail = request
    replica.num_waiting += 1


@compiled
def _fail_last(state: State, index: int) -> None:
    request = _drop_last(state, index)
    row = state.requests[request]
    row.state = FAILED
    # The last commit ended at this very moment, or the request has only just been admitted.
    row.finish_s = max(row.last_emission_s, row.scheduled_s)
    state.cursor.num_ended[0] += 1


@compiled
def _admit(state: State, index: int, now_s: float, budget: int) -> None:
    """Admit from the waiting list while seats, tokens and blocks last, in order of arrival.

    A prefill that ends in this step must leave room for the step after it at its planned
    maximum, so that nobody is admitted only to be preempted at once.
    """
    replica = state.replicas[index]
    while (
        replica.num_waiting > 0 and replica.num_running < state.limits.max_num_seqs and budget > 0
    ):
        request = replica.waiting_head
        row = state.requests[request]
        # A preempted request recomputes what it had: prompt + emitted, less the root.
        prefill_tokens = row.prompt_tokens + max(row.emitted_tokens - 1, 0)
        chunk = min(prefill_tokens, budget)
        ahead = 1 + candidates(state, int(replica.gamma)) if chunk == prefill_tokens else 0
        alone = replica.num_running == 0
        needed = chunk if alone else chunk + ahead
        if missing_blocks(state, request, needed) > replica.free_blocks:
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
        reserve(state, index, request, chunk)
