"""The step kernel: begin a step, commit it, or run many up to the next outside event.

    begin   schedule, reserve, propose, price the step -> it will end at step_end_s
    commit  apply what was accepted, emit, give blocks back, finish requests

`run_until` repeats the two by itself for all replicas. At one moment commits come first, then
cancellations, arrivals, and the steps that begin; the one-step-at-a-time mode (service.py) keeps
this order.
"""

import math
from pathlib import Path

from simcore.compiled import compiled, compiled_apart
from simcore.cost.price import price_step
from simcore.cost.regime import graph_of
from simcore.cost.shape import StepShape
from simcore.serving.cycle import draw
from simcore.serving.ledger import release_to
from simcore.serving.policy import choose_draft_length, observe_step
from simcore.serving.policy_tables import FIXED
from simcore.serving.scheduler import candidates, drop_waiting, enqueue, leave, schedule
from simcore.serving.state import (
    CANCELLED,
    DECODING,
    FINISHED,
    GAP_BIN_RATIO,
    GAP_MIN_S,
    GAVE_UP,
    NOTHING,
    NUM_GAP_BINS,
    PREFILLING,
    WAITING,
    State,
)

# Why run_until came back.
ALL_ENDED, TIME_REACHED, RECORDS_FULL = range(3)

LOG_GAP_BIN_RATIO = math.log(GAP_BIN_RATIO)


@compiled
def route(state: State) -> int:
    """The replica of an arriving request: in turn, or the one with the least on its hands."""
    if state.limits.routes_by_load:
        chosen = 0
        for index in range(1, len(state.replicas)):
            load = state.replicas[index].outstanding_tokens
            if load < state.replicas[chosen].outstanding_tokens:
                chosen = index
        return chosen
    index = int(state.cursor.next_replica)
    state.cursor.next_replica = (index + 1) % len(state.replicas)
    return index


@compiled_apart
def arrive(state: State) -> int:
    """The next request in order of arrival comes in; returns its replica."""
    request = int(state.cursor.next_arrival)
    state.cursor.next_arrival += 1
    index = route(state)
    enqueue(state, index, request)
    return index


@compiled_apart
def give_up(state: State) -> None:
    """The client of the request whose patience ends next gives up, if it still waits for it.

    Requests give up in order of arrival. A waiting request leaves at once; one inside a step is
    marked, and its blocks return when the step commits.
    """
    request = int(state.cursor.next_deadline)
    state.cursor.next_deadline += 1
    row = state.requests[request]
    if row.state == WAITING:
        drop_waiting(state, request)
    elif row.state in (PREFILLING, DECODING):
        row.is_cancelled = 1


@compiled
def has_work(state: State, index: int) -> bool:
    """Whether an idle replica could begin a step."""
    replica = state.replicas[index]
    return bool(replica.num_running > 0 or replica.num_waiting > 0)


@compiled
def begin(state: State, index: int, now_s: float) -> None:
    """Begin a step: afterwards the replica is busy until step_end_s, or idle if nothing ran."""
    replica = state.replicas[index]
    if state.policy.rule.kind != FIXED:
        choose_draft_length(state, index, now_s)
    preempted = schedule(state, index, now_s)
    if replica.num_running == 0:
        return
    step = state.steps[state.cursor.num_steps]
    replica.step_row = state.cursor.num_steps
    state.cursor.num_steps += 1
    step.replica = index
    step.begin_s = now_s
    step.num_running = replica.num_running
    step.num_waiting = replica.num_waiting
    step.used_blocks = replica.total_blocks - replica.free_blocks
    step.num_preemptions = preempted
    shape = _propose(state, index)
    replica.last_scheduled = int(shape.num_requests)
    _price(state, index, shape)
    replica.is_busy = 1
    replica.step_end_s = step.end_s


@compiled
def _propose(state: State, index: int) -> StepShape:
    """Draw every decoding request's cycle and add up what the step holds."""
    step = state.steps[state.replicas[index].step_row]
    num_requests, num_decoding, gamma, proposed = 0, 0, 0, 0
    query, prefill, planned, plain_context, verify_context, longest = 0, 0, 0, 0, 0, 0
    pairs, widest = 0.0, 0
    lagging = 0
    for position in range(state.replicas[index].num_running):
        request = state.running[index, position]
        row = state.requests[request]
        if row.step_tokens == 0:
            continue
        num_requests += 1
        longest = max(longest, row.committed_tokens)
        if row.state == PREFILLING:
            prefill += row.step_tokens
            pairs += row.step_tokens * (row.committed_tokens + 0.5 * row.step_tokens)
            verify_context += row.committed_tokens
            continue
        num_decoding += 1
        draw(state, int(request))
        row.step_tokens = 1 + row.step_proposed
        gamma = max(gamma, row.step_gamma)
        planned += candidates(state, int(row.step_gamma))
        proposed += row.step_proposed
        padded = state.limits.pads_drafts and row.step_gamma > 0
        widest = max(widest, row.step_tokens)
        query += 1 + candidates(state, int(row.step_gamma)) if padded else row.step_tokens
        lagging += row.draft_lag_tokens if row.step_gamma > 0 else 0
        if row.step_proposed == 0:
            plain_context += row.committed_tokens
        else:
            verify_context += row.committed_tokens
            pairs += row.step_tokens * (row.committed_tokens + 0.5 * row.step_tokens)
    step.num_decoding = num_decoding
    step.gamma = gamma
    step.query_tokens = query
    step.prefill_tokens = prefill
    step.planned_tokens = planned
    step.proposed_tokens = proposed
    step.accepted_tokens = 0
    step.emitted_tokens = 0
    step.context_tokens = plain_context + verify_context
    law = state.law
    step.is_extrapolated = int(
        num_requests > law.rate.max_batch_size
        or longest > law.rate.max_context_tokens
        or query + prefill > law.rate.max_step_tokens
        or widest > law.rate.max_query_tokens
    )
    return StepShape(
        float(num_requests),
        float(num_decoding),
        float(gamma),
        float(proposed),
        float(query + prefill),
        float(plain_context),
        float(verify_context),
        float(prefill),
        float(lagging),
        pairs,
    )


@compiled
def _price(state: State, index: int, shape: StepShape) -> None:
    step = state.steps[state.replicas[index].step_row]
    computed_tokens, _ = graph_of(state.law.regimes, shape)
    step.padded_tokens = int(computed_tokens - shape.query_tokens)
    if computed_tokens > state.law.rate.max_step_tokens:
        step.is_extrapolated = 1
    propose_s, target_s, reconcile_s, overhead_s = price_step(state.law, shape)
    step.propose_s = propose_s
    step.target_s = target_s
    step.reconcile_s = reconcile_s
    step.overhead_s = overhead_s
    step.end_s = step.begin_s + propose_s + target_s + reconcile_s + overhead_s


@compiled
def commit(state: State, index: int) -> None:
    """End the step under way: emit, commit KV, release the rest, finish requests."""
    replica = state.replicas[index]
    step = state.steps[replica.step_row]
    end_s = step.end_s
    kept, drafting = 0, NOTHING
    known_gap_s, known_bin = -1.0, 0
    for position in range(replica.num_running):
        request = state.running[index, position]
        row = state.requests[request]
        if row.is_cancelled:
            row.reason = GAVE_UP
            _end(state, index, int(request), CANCELLED, end_s)
            continue
        if row.step_tokens == 0:
            state.running[index, kept] = request
            kept += 1
            continue
        if row.state == PREFILLING:
            _commit_prefill(state, int(request), end_s)
            step.emitted_tokens += int(row.first_token_s == end_s)
        else:
            gap_s = end_s - row.last_emission_s
            if gap_s != known_gap_s:
                known_gap_s, known_bin = gap_s, _gap_bin(gap_s)
            if request >= state.limits.first_counted:
                state.gap_counts[known_bin] += 1
            row.max_gap_s = max(row.max_gap_s, gap_s)
            drafting += int(row.step_gamma > 0)
            step.accepted_tokens += row.step_accepted
            state.accepted_counts[row.step_accepted] += 1
            step.emitted_tokens += _commit_cycle(state, int(request), end_s)
        row.step_tokens = 0
        if row.emitted_tokens == row.output_tokens and row.state == DECODING:
            _end(state, index, int(request), FINISHED, end_s)
        else:
            keeps = row.state == DECODING or state.limits.slot_blocks > 0
            kept_tokens = state.limits.kept_tokens if keeps else 0
            release_to(state, index, request, row.committed_tokens + kept_tokens)
            state.running[index, kept] = request
            kept += 1
    if state.policy.rule.kind != FIXED:
        observe_step(state, index, drafting, int(step.proposed_tokens), int(step.accepted_tokens))
    replica.num_running = kept
    replica.is_busy = 0
    replica.step_end_s = math.inf


@compiled
def _end(state: State, index: int, request: int, final: int, end_s: float) -> None:
    """A running request ends in its final state; its blocks and seat are free."""
    leave(state, index, request)
    row = state.requests[request]
    state.replicas[index].num_decoding -= int(row.state == DECODING)
    row.state = final
    row.finish_s = end_s
    state.cursor.num_ended += 1


@compiled
def _commit_prefill(state: State, request: int, end_s: float) -> None:
    """A chunk's KV is committed; the last chunk of a new request emits its first token.

    A recomputed request emits nothing here: its last token is the root of its next cycle.
    """
    row = state.requests[request]
    row.committed_tokens += row.step_tokens
    row.prefill_left_tokens -= row.step_tokens
    row.draft_lag_tokens = 0  # a loaded draft prefills, and recomputes, along with the target
    if row.prefill_left_tokens == 0:
        row.state = DECODING
        state.replicas[row.replica].num_decoding += 1
        if row.emitted_tokens == 0:
            row.emitted_tokens = 1
            state.replicas[row.replica].outstanding_tokens += 1
            row.first_token_s = end_s
            row.last_emission_s = end_s


@compiled
def _commit_cycle(state: State, request: int, end_s: float) -> int:
    """Account for one cycle; returns the tokens emitted after the cut at the output's end."""
    row = state.requests[request]
    remaining = row.output_tokens - row.emitted_tokens
    accepted = min(row.step_accepted, remaining)
    emitted = min(row.step_accepted + 1, remaining)
    row.num_cycles += 1
    row.planned_tokens += candidates(state, int(row.step_gamma))
    row.proposed_tokens += row.step_proposed
    row.accepted_tokens += accepted
    row.cut_tokens += row.step_accepted + 1 - emitted
    if emitted > accepted:
        if row.step_accepted == row.step_proposed:
            row.bonus_tokens += 1
        else:
            row.corrected_tokens += 1
    if row.segment > 0:
        row.stitched_tokens += emitted
    row.emitted_tokens += emitted
    row.committed_tokens += emitted
    state.replicas[row.replica].outstanding_tokens += emitted
    row.draft_lag_tokens = 0 if row.step_gamma > 0 else row.draft_lag_tokens + emitted
    row.last_emission_s = end_s
    return int(emitted)


@compiled
def _gap_bin(gap_s: float) -> int:
    if gap_s <= GAP_MIN_S:
        return 0
    return min(NUM_GAP_BINS - 1, int(math.log(gap_s / GAP_MIN_S) / LOG_GAP_BIN_RATIO))


@compiled_apart
def run_until(state: State, limit_s: float) -> int:
    """Run every replica through all events up to and including `limit_s`.

    Returns ALL_ENDED, TIME_REACHED, or RECORDS_FULL when the step records need more room.
    """
    while True:
        if records_full(state):
            return RECORDS_FULL
        now_s = _next_event_s(state)
        if math.isinf(now_s):
            return ALL_ENDED
        if now_s > limit_s:
            return TIME_REACHED
        for index in range(len(state.replicas)):
            if state.replicas[index].step_end_s == now_s:
                commit(state, index)
        _meet_clients(state, now_s)
        for index in range(len(state.replicas)):
            if state.replicas[index].is_busy == 0 and has_work(state, index):
                begin(state, index, now_s)


@compiled
def _meet_clients(state: State, now_s: float) -> None:
    """Those who give up by now, then those who arrive."""
    while _next_deadline_s(state) <= now_s:
        give_up(state)
    while _next_arrival_s(state) <= now_s:
        arrive(state)


@compiled
def records_full(state: State) -> bool:
    room = len(state.replicas)  # each may begin one step, and change its draft length, at a time
    return bool(
        state.cursor.num_steps + room > len(state.steps)
        or state.cursor.num_changes + room > len(state.changes)
    )


@compiled
def _next_arrival_s(state: State) -> float:
    arrival = state.cursor.next_arrival
    return float(state.requests[arrival].arrival_s) if arrival < len(state.requests) else math.inf


@compiled
def _next_deadline_s(state: State) -> float:
    """When the next client gives up; passes over those whose request has ended."""
    cursor = state.cursor
    while cursor.next_deadline < cursor.next_arrival:
        row = state.requests[cursor.next_deadline]
        if row.state in (WAITING, PREFILLING, DECODING):
            return float(row.gives_up_s)
        cursor.next_deadline += 1
    return math.inf


@compiled
def _next_event_s(state: State) -> float:
    now_s = min(_next_arrival_s(state), _next_deadline_s(state))
    for index in range(len(state.replicas)):
        now_s = min(now_s, state.replicas[index].step_end_s)
    return now_s


def needs_compilation() -> bool:
    """Whether the kernel has no machine code on disk yet, so that its first use takes seconds."""
    folder = Path(run_until.stats.cache_path)  # type: ignore[attr-defined]  # numba adds it
    return not any(folder.glob("engine.run_until-*.nbi"))
