"""The end of a step: emit, commit KV, give back the rest, finish requests."""

import math

from simcore.compiled import compiled
from simcore.serving.ending import end_request
from simcore.serving.ledger import release_to
from simcore.serving.policy import observe_step
from simcore.serving.policy_tables import FIXED
from simcore.serving.preemption import leave
from simcore.serving.prefix_cache import share_prefix
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
    State,
)

LOG_GAP_BIN_RATIO = math.log(GAP_BIN_RATIO)


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
            _end(state, index, int(request), CANCELLED, GAVE_UP, end_s)
            continue
        if row.step_tokens == 0:
            state.running[index, kept] = request
            kept += 1
            continue
        if row.state == PREFILLING:
            commit_prefill(state, index, int(request), end_s)
            step.emitted_tokens += int(row.first_token_s == end_s)
        else:
            gap_s = end_s - row.last_emission_s
            if gap_s != known_gap_s:
                known_gap_s, known_bin = gap_s, _gap_bin(gap_s)
            if row.is_counted:
                state.gap_counts[known_bin] += 1
            row.max_gap_s = max(row.max_gap_s, gap_s)
            drafting += int(row.step_mode > 0)
            step.accepted_tokens += row.step_accepted
            state.accepted_histogram[request, row.step_accepted] += 1
            step.emitted_tokens += commit_cycle(state, int(request), end_s)
        row.step_tokens = 0
        if row.emitted_tokens == row.output_tokens and row.state == DECODING:
            _end(state, index, int(request), FINISHED, NOTHING, end_s)
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
def _end(state: State, index: int, request: int, final: int, reason: int, end_s: float) -> None:
    """A running request ends in its final state; its blocks and seat are free."""
    leave(state, index, request)
    state.replicas[index].num_decoding -= int(state.requests[request].state == DECODING)
    end_request(state, request, final, reason, end_s)


@compiled
def commit_prefill(state: State, index: int, request: int, end_s: float) -> None:
    """A chunk's KV is committed; the last chunk of a new request emits its first token.

    A recomputed request emits nothing here: its last token is the root of its next cycle.
    """
    row = state.requests[request]
    row.committed_tokens += row.step_tokens
    row.prefill_left_tokens -= row.step_tokens
    # A loaded draft prefills, and recomputes, along with the target.
    row.draft_lag_tokens = 0
    row.draft_committed_tokens = row.committed_tokens
    if state.limits.caches_prefixes and row.prefix_end > row.prefix_begin:
        share_prefix(state, index, request)
    if row.prefill_left_tokens == 0:
        row.state = DECODING
        state.replicas[row.replica].num_decoding += 1
        if row.emitted_tokens == 0:
            row.emitted_tokens = 1
            state.replicas[row.replica].outstanding_tokens += 1
            row.first_token_s = end_s
            row.last_emission_s = end_s


@compiled
def commit_cycle(state: State, request: int, end_s: float) -> int:
    """Account for one cycle; returns the tokens emitted after the cut at the output's end."""
    row = state.requests[request]
    remaining = row.output_tokens - row.emitted_tokens
    accepted = min(row.step_accepted, remaining)
    emitted = min(row.step_accepted + 1, remaining)
    row.num_cycles += 1
    mode = state.modes[row.step_mode]
    row.planned_tokens += mode.proposed_tokens
    row.proposed_tokens += row.step_proposed
    row.verified_tokens += row.step_verified
    row.accepted_tokens += accepted
    row.cut_tokens += row.step_accepted + 1 - emitted
    if emitted > accepted:
        if row.step_accepted == min(mode.depth, row.step_verified):
            row.bonus_tokens += 1
        else:
            row.corrected_tokens += 1
    if row.segment > 0:
        row.stitched_tokens += emitted
    row.emitted_tokens += emitted
    if row.step_mode > 0 and mode.writes_kv:
        # The draft read up to its last candidate but one: full acceptance leaves it one behind.
        read = min(row.step_accepted, mode.depth - 1)
        row.draft_committed_tokens = row.committed_tokens + min(1 + read, emitted)
    row.committed_tokens += emitted
    state.replicas[row.replica].outstanding_tokens += emitted
    keeps_up = row.step_mode > 0 and mode.is_own
    row.draft_lag_tokens = 0 if keeps_up else row.draft_lag_tokens + emitted
    row.last_emission_s = end_s
    return int(emitted)


@compiled
def _gap_bin(gap_s: float) -> int:
    if gap_s <= GAP_MIN_S:
        return 0
    return min(NUM_GAP_BINS - 1, int(math.log(gap_s / GAP_MIN_S) / LOG_GAP_BIN_RATIO))
