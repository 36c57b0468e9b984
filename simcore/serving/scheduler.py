"""Which requests take part in the next step, and with how many tokens.

Shared by all engines: running requests first in order of admission, each decode with its root
and drafts, prefill in chunks with what the token budget leaves, then first come first served from
the waiting list. Where blocks run out the request admitted last is preempted and later
recomputed; a step that preempted admits nobody unless it left the replica empty. What engines do
otherwise are rules (simcore/engines.py). The scheduler never reads how long an output will be nor
what will be accepted.
"""

from simcore.compiled import compiled, compiled_apart
from simcore.serving.cycle import draw
from simcore.serving.ledger import missing_blocks, release_to, reserve
from simcore.serving.policy_tables import ORACLE
from simcore.serving.state import (
    CANCELLED,
    DECODING,
    FAILED,
    GAVE_UP,
    NEVER_FITS,
    NONE,
    NOTHING,
    OUTGREW_MEMORY,
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
        least = max(least, _life_blocks(state, request))
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


@compiled
def schedule(state: State, index: int, now_s: float) -> int:
    """Plan the next step of a replica: reserve blocks and set step_tokens and step_gamma.

    Returns how many requests were preempted for it.
    """
    if state.limits.prefills_apart and state.replicas[index].num_decoding > 0:
        if _plan_prefill_step(state, index, now_s):
            return 0
        preempted = _retract(state, index) if state.limits.retracts_youngest else 0
        preempted += _plan_running(state, index, NOTHING)
        if state.replicas[index].num_running == 0:  # the last one failed: nobody waits for it
            _admit(state, index, now_s, int(state.limits.max_num_batched_tokens))
        return preempted
    # Decodes come first: what they may take is no prefill's to spend.
    gamma = int(state.replicas[index].gamma)
    decode_tokens = state.replicas[index].num_decoding * (1 + candidates(state, gamma))
    budget = state.limits.max_num_batched_tokens - decode_tokens
    preempted = _plan_running(state, index, budget)
    admits = preempted == 0 or state.replicas[index].num_running == 0
    if admits and state.replicas[index].num_waiting > 0:
        _admit(state, index, now_s, budget - _planned_prefill(state, index))
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
        if _lacks_room(state, index, int(request)):
            preempted += _make_room(state, index, position)
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
    _admit(state, index, now_s, budget)
    return _planned_prefill(state, index) > 0


@compiled
def candidates(state: State, gamma: int) -> int:
    """m: tokens that one request drafts and has verified at this draft length; a tree is whole."""
    return int(state.limits.num_draft_tokens) if gamma == state.limits.gamma else gamma


@compiled
def covered_tokens(state: State, request: int) -> int:
    """Tokens whose blocks a running request holds during its step (law 5)."""
    row = state.requests[request]
    if row.state != DECODING:
        return int(row.committed_tokens + row.step_tokens)
    if row.step_tokens == 0:
        return int(row.committed_tokens)
    if state.limits.headroom_tokens > 0:
        return int(row.committed_tokens + state.limits.headroom_tokens)
    drafts = candidates(state, int(row.step_gamma))
    return int(row.committed_tokens + 1 + drafts + state.limits.lookahead_tokens)


@compiled
def _life_blocks(state: State, request: int) -> int:
    """Blocks at the end of the longest life that the request declared."""
    row = state.requests[request]
    size = state.limits.block_size
    tokens = row.prompt_tokens + row.max_tokens + state.limits.num_draft_tokens
    return int((tokens + size - 1) // size)


@compiled
def plan_drafts(state: State, request: int, gamma: int) -> int:
    """Drafts planned for one request of a step; the oracle alone looks at what would survive."""
    row = state.requests[request]
    if row.can_speculate == 0:
        return 0
    if state.policy.rule.kind == ORACLE:
        row.step_gamma = gamma
        draw(state, request)
        return int(row.step_accepted)
    return gamma


@compiled
def _lacks_room(state: State, index: int, request: int) -> bool:
    missing = missing_blocks(state, request, covered_tokens(state, request))
    if state.limits.slot_blocks > 0:
        return missing > 0  # a slot is all there is
    return bool(missing > state.replicas[index].free_blocks)


@compiled_apart
def _make_room(state: State, index: int, position: int) -> int:
    """Preempt from the end of the running list until the request at `position` has its blocks.

    May preempt that request itself. Alone on the replica, or in a slot of its own, it first gives
    up its drafts, and fails where not even one more token fits: nothing that waiting could change.
    """
    replica = state.replicas[index]
    request = int(state.running[index, position])
    row = state.requests[request]
    preempted = 0
    while _lacks_room(state, index, request):
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
def _retract(state: State, index: int) -> int:
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
        state.replicas[index].promised_blocks -= _life_blocks(state, request)


@compiled
def leave(state: State, index: int, request: int) -> None:
    """A running request leaves its replica for good."""
    _yield_blocks(state, index, request)
    row = state.requests[request]
    state.replicas[index].outstanding_tokens -= row.prompt_tokens + row.emitted_tokens


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


@compiled_apart
def _admit(state: State, index: int, now_s: float, budget: int) -> None:
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
            replica.promised_blocks += _life_blocks(state, request)
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
        promised = int(replica.promised_blocks) + _life_blocks(state, request)
        return bool(promised <= replica.total_blocks)
    ahead = 0
    if ends_prefill and replica.num_running > 0:
        ahead = 1 + candidates(state, int(replica.gamma)) + limits.lookahead_tokens
        ahead = max(ahead, limits.headroom_tokens)
    return bool(missing_blocks(state, request, chunk + ahead) <= replica.free_blocks)
