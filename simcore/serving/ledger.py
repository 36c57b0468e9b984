"""The KV ledger of a replica: reserve before a step, commit and release after it.

Before a cycle a request reserves its root and every candidate, 1 + m tokens, never the expected
acceptance; after it 1 + A stay committed and the blocks of the rest return (DESIGN section 5).
"""

from simcore.compiled import compiled
from simcore.serving.state import State


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
    if missing == 0:
        return
    replica = state.replicas[index]
    replica.free_blocks -= missing
    state.requests[request].held_blocks += missing
    used = replica.total_blocks - replica.free_blocks
    replica.peak_used_blocks = max(replica.peak_used_blocks, used)


@compiled
def release_to(state: State, index: int, request: int, tokens: int) -> None:
    """Give back every block beyond those that cover `tokens`."""
    row = state.requests[request]
    size = state.limits.block_size
    if row.held_blocks * size - tokens < size:
        return
    kept = blocks_for(tokens, size)
    state.replicas[index].free_blocks += row.held_blocks - kept
    row.held_blocks = kept
