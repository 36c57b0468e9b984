"""The KV ledger of a replica: reserve before a step, commit and release after it.

Before a cycle a request reserves its root and every candidate, 1 + m tokens, never the expected
acceptance; after it 1 + A stay committed and the blocks of the rest return (DESIGN section 5).
A draft with a pool of its own keeps a second account there: both are reserved, or none.
"""

from simcore.compiled import compiled
from simcore.serving.prefix_cache import append_blank, claim
from simcore.serving.state import DECODING, State


@compiled
def blocks_for(tokens: int, block_size: int) -> int:
    """Blocks that hold this many tokens."""
    return (tokens + block_size - 1) // block_size


@compiled
def missing_blocks(state: State, request: int, tokens: int) -> int:
    """Blocks beyond those held that the request needs to cover `tokens`; 0 if none."""
    held = int(state.requests[request].held_blocks)
    size = state.limits.block_size
    # Most steps stay within the last block: no division for them.
    return 0 if tokens <= held * size else blocks_for(tokens, size) - held


@compiled
def reserve(state: State, index: int, request: int, tokens: int) -> None:
    """Hold blocks for `tokens`; the caller has checked that they are free."""
    missing = missing_blocks(state, request, tokens)
    if missing > 0:
        replica = state.replicas[index]
        replica.free_blocks -= missing
        if state.limits.caches_prefixes:
            claim(state, index, missing)
        state.requests[request].held_blocks += missing
        used = replica.total_blocks - replica.free_blocks
        replica.peak_used_blocks = max(replica.peak_used_blocks, used)
    if state.limits.draft_block_size > 0:
        _reserve_draft(state, index, request)


@compiled
def release_to(state: State, index: int, request: int, tokens: int) -> None:
    """Give back every block beyond those that cover `tokens`; shared ones stay."""
    row = state.requests[request]
    size = state.limits.block_size
    if row.held_blocks * size - tokens >= size:
        kept = max(blocks_for(tokens, size), row.shared_blocks)
        returned = row.held_blocks - kept
        state.replicas[index].free_blocks += returned
        row.held_blocks = kept
        if state.limits.caches_prefixes and returned > 0:
            append_blank(state, index, returned)
    if state.limits.draft_block_size > 0:
        _release_draft(state, index, request)


@compiled
def draft_covered_tokens(state: State, request: int) -> int:
    """Tokens whose draft KV has a block during the request's step: γ + lag more than it has.

    A prefill runs through the draft as well; a step without drafts writes none.
    """
    row = state.requests[request]
    if row.state != DECODING:
        return int(row.committed_tokens + row.step_tokens)
    mode = state.modes[row.step_mode]
    if row.step_tokens == 0 or row.step_mode == 0 or mode.writes_kv == 0:
        return int(row.draft_committed_tokens)
    return int(row.committed_tokens + mode.proposed_tokens)


@compiled
def missing_draft_blocks(state: State, request: int) -> int:
    """Blocks of the draft's own pool beyond those held; 0 where it has no such pool."""
    size = state.limits.draft_block_size
    if size == 0:
        return 0
    held = int(state.requests[request].draft_held_blocks)
    return max(0, blocks_for(draft_covered_tokens(state, request), size) - held)


@compiled
def _reserve_draft(state: State, index: int, request: int) -> None:
    replica = state.replicas[index]
    missing = missing_draft_blocks(state, request)
    replica.draft_free_blocks -= missing
    state.requests[request].draft_held_blocks += missing
    used = replica.draft_total_blocks - replica.draft_free_blocks
    replica.draft_peak_used_blocks = max(replica.draft_peak_used_blocks, used)


@compiled
def _release_draft(state: State, index: int, request: int) -> None:
    row = state.requests[request]
    kept = blocks_for(row.draft_committed_tokens, state.limits.draft_block_size)
    kept = max(kept, row.shared_blocks)
    if kept < row.draft_held_blocks:
        state.replicas[index].draft_free_blocks += row.draft_held_blocks - kept
        row.draft_held_blocks = kept
