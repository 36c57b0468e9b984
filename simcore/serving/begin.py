"""The begin of a step: schedule, reserve, propose, and say how long it will take."""

from simcore.compiled import compiled
from simcore.cost.price import price_step
from simcore.cost.regime import graph_of
from simcore.cost.shape import StepShape
from simcore.serving.cycle import draw
from simcore.serving.policy import choose_mode
from simcore.serving.policy_tables import FIXED
from simcore.serving.scheduler import schedule
from simcore.serving.state import PREFILLING, State


@compiled
def has_work(state: State, index: int) -> bool:
    """Whether an idle replica could begin a step."""
    replica = state.replicas[index]
    return bool(replica.is_down == 0 and (replica.num_running > 0 or replica.num_waiting > 0))


@compiled
def begin(state: State, index: int, now_s: float) -> None:
    """Begin a step: afterwards the replica is busy until step_end_s, or idle if nothing ran."""
    if plan(state, index, now_s):
        launch(state, index, True)


@compiled
def plan(state: State, index: int, now_s: float) -> bool:
    """Choose the draft mode, schedule and reserve; False where nothing runs."""
    replica = state.replicas[index]
    if state.policy.rule.kind != FIXED:
        choose_mode(state, index, now_s)
    preempted = schedule(state, index, now_s)
    if replica.num_running == 0:
        return False
    step = state.steps[state.cursor[0].num_steps]
    replica.step_row = state.cursor[0].num_steps
    state.cursor[0].num_steps += 1
    step.replica = index
    step.begin_s = now_s
    step.num_running = replica.num_running
    step.num_waiting = replica.num_waiting
    step.used_blocks = replica.total_blocks - replica.free_blocks
    step.used_draft_blocks = replica.draft_total_blocks - replica.draft_free_blocks
    step.num_preemptions = preempted
    step.is_aborted = 0
    step.accepted_tokens = 0
    step.emitted_tokens = 0
    return True


@compiled
def launch(state: State, index: int, draws: bool) -> None:
    """Count and price the planned step; its cycles are drawn, or stand in the rows already."""
    replica = state.replicas[index]
    shape = _propose(state, index, draws)
    replica.last_scheduled = int(shape.num_requests)
    _price(state, index, shape)
    replica.is_busy = 1
    replica.step_end_s = state.steps[replica.step_row].end_s


@compiled
def _propose(state: State, index: int, draws: bool) -> StepShape:
    """Draw every decoding request's cycle, if asked to, and add up what the step holds."""
    step = state.steps[state.replicas[index].step_row]
    num_requests, num_decoding, gamma, proposed, verified = 0, 0, 0, 0, 0
    query, prefill, planned, plain_context, verify_context, longest = 0, 0, 0, 0, 0, 0
    pairs, widest, deepest, chunk_context, chunk_pairs, lagging = 0.0, 0, 0, 0, 0.0, 0
    for position in range(state.replicas[index].num_running):
        request = state.running[index, position]
        row = state.requests[request]
        if row.step_tokens == 0:
            continue
        num_requests += 1
        longest = max(longest, row.committed_tokens)
        if row.state == PREFILLING:
            prefill += row.step_tokens
            chunk_pairs += row.step_tokens * (row.committed_tokens + 0.5 * row.step_tokens)
            chunk_context += row.committed_tokens
            continue
        num_decoding += 1
        deepest = max(deepest, row.committed_tokens)
        if draws:
            draw(state, int(request))
        row.step_tokens = 1 + row.step_verified
        mode = state.modes[row.step_mode]
        gamma = max(gamma, mode.depth)
        planned += mode.proposed_tokens
        proposed += row.step_proposed
        verified += row.step_verified
        padded = state.limits.pads_drafts and row.step_mode > 0
        widest = max(widest, row.step_tokens)
        query += 1 + mode.verified_tokens if padded else row.step_tokens
        lagging += row.draft_lag_tokens if row.step_mode > 0 and mode.is_own else 0
        if row.step_verified == 0:
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
    step.verified_tokens = verified
    replica = state.replicas[index]
    scored = query + num_requests - num_decoding  # a prefill chunk has its last token scored
    replica.peak_scored_tokens = max(replica.peak_scored_tokens, scored)
    step.context_tokens = plain_context + verify_context + chunk_context
    law = state.law
    if law.rate.pads_attention > 0.0:  # every decoding request as the widest, over the longest
        plain_context, verify_context, pairs = _padded(num_decoding, widest, deepest)
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
        float(verified),
        float(query + prefill),
        float(plain_context),
        float(verify_context + chunk_context),
        float(prefill),
        float(lagging),
        pairs + chunk_pairs,
        float(state.modes[replica.mode].scheme),
    )


@compiled
def _padded(num_decoding: int, widest: int, deepest: int) -> tuple[int, int, float]:
    """(KV read by one query, KV read by several, attention pairs) of a padded decoding batch."""
    context = num_decoding * deepest
    if widest <= 1:
        return context, 0, 0.0
    return 0, context, context * widest + 0.5 * num_decoding * widest * widest


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
