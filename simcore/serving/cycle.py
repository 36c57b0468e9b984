"""The cycle of one request: what its proposer would propose and the target accept."""

from simcore.acceptance.model import draw_cycle, next_trace
from simcore.compiled import compiled
from simcore.serving.state import State


@compiled
def draw(state: State, request: int) -> None:
    """The cycle of one decoding request: proposed, verified and accepted drafts."""
    row = state.requests[request]
    if row.step_mode == 0:
        row.step_proposed = 0
        row.step_verified = 0
        row.step_accepted = 0
        return
    mode = state.modes[row.step_mode]
    position = int(row.emitted_tokens)
    tables = state.cycles
    trace_row = 0
    if tables.is_trace:
        while position - row.segment_start >= tables.output_tokens[row.trace]:
            row.segment_start += tables.output_tokens[row.trace]
            row.segment += 1
            row.trace = next_trace(tables, state.seed, request, int(row.segment), int(row.trace))
        trace_row = int(tables.offset[row.trace] + position - row.segment_start)
    drafted, accepted = draw_cycle(
        tables,
        state.seed,
        request,
        int(row.domain),
        position,
        trace_row,
        int(mode.scheme),
        int(mode.depth),
    )
    # A tree is proposed whole or not at all; a chain ends where the proposer has no more.
    is_chain = mode.proposed_tokens == mode.depth
    row.step_proposed = drafted if is_chain or drafted == 0 else mode.proposed_tokens
    row.step_verified = min(row.step_proposed, row.step_most)
    row.step_accepted = min(accepted, row.step_verified)
    if drafted > 0:
        row.confidence_row = trace_row
