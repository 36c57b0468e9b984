"""What a running request needs for its next step: drafts, tokens, blocks."""

from simcore.compiled import compiled
from simcore.serving.cycle import draw
from simcore.serving.ledger import blocks_for, missing_blocks, missing_draft_blocks
from simcore.serving.policy_tables import ORACLE
from simcore.serving.state import DECODING, State


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
    drafts = state.modes[row.step_mode].verified_tokens
    return int(row.committed_tokens + 1 + drafts + state.limits.lookahead_tokens)


@compiled
def life_blocks(state: State, request: int) -> int:
    """Blocks at the end of the longest life that the request declared."""
    row = state.requests[request]
    tokens = row.prompt_tokens + row.max_tokens + state.limits.most_verified_tokens
    return int(blocks_for(tokens, state.limits.block_size))


@compiled
def life_draft_blocks(state: State, request: int) -> int:
    """The same of a draft pool of its own; 0 where there is none."""
    if state.limits.draft_block_size == 0:
        return 0
    row = state.requests[request]
    tokens = row.prompt_tokens + row.max_tokens + state.limits.most_proposed_tokens
    return int(blocks_for(tokens, state.limits.draft_block_size))


@compiled
def plan_cycle(state: State, request: int, mode: int) -> None:
    """Plan one request's cycle: mode and tokens; the oracle alone looks at what would survive."""
    row = state.requests[request]
    row.step_mode = mode if row.can_speculate else 0
    if state.limits.shortens_last_drafts and row.step_mode <= state.limits.mode:
        # Modes up to the full draft are its lengths; every cycle emits one token that is no draft.
        row.step_mode = min(row.step_mode, max(int(row.max_tokens - row.emitted_tokens) - 1, 0))
    row.step_most = state.modes[row.step_mode].verified_tokens
    if state.policy.rule.kind == ORACLE and row.step_mode > 0:
        draw(state, request)
        row.step_mode = row.step_accepted
        row.step_most = row.step_accepted
    row.step_tokens = 1 + state.modes[row.step_mode].verified_tokens


@compiled
def lacks_room(state: State, index: int, request: int) -> bool:
    """Whether blocks are missing, of any pool."""
    missing = missing_blocks(state, request, covered_tokens(state, request))
    if state.limits.slot_blocks > 0:
        return missing > 0  # a slot is all there is
    replica = state.replicas[index]
    return bool(
        missing > replica.free_blocks
        or missing_draft_blocks(state, request) > replica.draft_free_blocks
    )
