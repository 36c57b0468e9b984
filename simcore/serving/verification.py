"""Adaptive verification: how many of its drafts each request has verified, batch by batch.

vLLM's rule (engines: #47808): the proposer drafts in full; the budget of B drafts to verify
maximises (requests + the B largest survival probabilities) / step time. Survival comes from the
proposer's confidences, one cycle old; before a request's first, from what the profile expects.
"""

from simcore.compiled import compiled, compiled_apart
from simcore.cost.price import price_step
from simcore.cost.shape import StepShape
from simcore.serving.state import DECODING, NONE, NOTHING, State


@compiled_apart
def choose_verified(state: State, index: int) -> None:
    """Set step_most and step_tokens of every request that drafts in the step under plan."""
    num_requests, num_drafting, count, kv = NOTHING, NOTHING, NOTHING, NOTHING
    for position in range(state.replicas[index].num_running):
        request = int(state.running[index, position])
        row = state.requests[request]
        if row.state != DECODING or row.step_tokens == 0:
            continue
        num_requests += 1
        kv += row.committed_tokens
        if row.step_mode == 0:
            continue
        num_drafting += 1
        for depth in range(state.modes[row.step_mode].depth):
            state.survivals[count] = _survival(state, request, depth)
            count += 1
    if num_drafting == 0:
        return
    _sort_falling(state, count)
    budget = _best_budget(state, index, count, num_requests, num_drafting, kv)
    _share_out(state, index, budget)


@compiled
def _survival(state: State, request: int, depth: int) -> float:
    """P(drafts 1 .. depth + 1 accepted) as the engine believes it."""
    row = state.requests[request]
    scheme = state.modes[row.step_mode].scheme
    if row.confidence_row == NONE or state.cycles.confidence.shape[2] == 0:
        tokens = state.policy.expected_tokens
        return float(tokens[depth + 1] - tokens[depth])
    survival = 1.0
    for earlier in range(depth + 1):
        survival *= state.cycles.confidence[scheme, row.confidence_row, earlier]
    return survival


@compiled
def _sort_falling(state: State, count: int) -> None:
    """Shell's sort in place: nothing may be allocated here."""
    values = state.survivals
    gap = count // 2
    while gap > 0:
        for place in range(gap, count):
            value, hole = values[place], place
            while hole >= gap and values[hole - gap] < value:
                values[hole] = values[hole - gap]
                hole -= gap
            values[hole] = value
        gap //= 2


@compiled
def _best_budget(
    state: State, index: int, count: int, num_requests: int, num_drafting: int, kv: int
) -> int:
    depth = float(state.modes[state.replicas[index].mode].depth)
    batch = float(num_requests)
    best, best_rate, tokens = NOTHING, 0.0, batch
    for budget in range(count + 1):
        if budget > 0:
            tokens += state.survivals[budget - 1]
        queries = batch + budget
        shape = StepShape(
            batch,
            batch,
            depth,
            depth * num_drafting,
            float(budget),
            queries,
            float(kv) if budget == 0 else 0.0,
            float(kv) if budget > 0 else 0.0,
            0.0,
            0.0,
            queries * (kv / batch + queries / batch / 2) if budget > 0 else 0.0,
            float(state.modes[state.replicas[index].mode].scheme),
        )
        propose_s, target_s, reconcile_s, overhead_s = price_step(state.law, shape)
        rate = tokens / (propose_s + target_s + reconcile_s + overhead_s)
        if rate > best_rate:
            best, best_rate = budget, rate
    return int(best)


@compiled
def _share_out(state: State, index: int, budget: int) -> None:
    """Every draft above the budget's last survival is verified, and ties while they last."""
    bound = state.survivals[budget - 1] if budget > 0 else 2.0
    ties = 0
    for place in range(budget):
        ties += int(state.survivals[place] == bound)
    for position in range(state.replicas[index].num_running):
        request = int(state.running[index, position])
        row = state.requests[request]
        if row.state != DECODING or row.step_tokens == 0 or row.step_mode == 0:
            continue
        kept = 0
        for depth in range(state.modes[row.step_mode].depth):
            survival = _survival(state, request, depth)
            if survival < bound or (survival == bound and ties == 0):
                break
            ties -= int(survival == bound)
            kept += 1
        row.step_most = kept
        row.step_tokens = 1 + kept
