"""What a running request needs for its next step: drafts, tokens, blocks."""

from simcore.compiled import compiled
from simcore.serving.cycle import draw
from simcore.serving.ledger import missing_blocks
from simcore.serving.policy_tables import ORACLE
from simcore.serving.state import DECODING, State


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
def life_blocks(state: State, request: int) -> int:
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
def lacks_room(state: State, index: int, request: int) -> bool:
    missing = missing_blocks(state, request, covered_tokens(state, request))
    if state.limits.slot_blocks > 0:
        return missing > 0  # a slot is all there is
    return bool(missing > state.replicas[index].free_blocks)
