"""The cycle of one request: what its proposer would propose and the target accept."""

from simcore.acceptance.model import draw_cycle, next_trace
from simcore.compiled import compiled
from simcore.serving.state import State


@compiled
def draw(state: State, request: int) -> None:
    """The cycle of one decoding request: proposed and accepted drafts."""
    row = state.requests[request]
    position = int(row.emitted_tokens)
    tables = state.cycles
    trace_row = 0
    if tables.is_trace and row.step_gamma > 0:
        while position - row.segment_start >= tables.output_tokens[row.trace]:
            row.segment_start += tables.output_tokens[row.trace]
            row.segment += 1
            row.trace = next_trace(tables, state.seed, request, int(row.segment), int(row.trace))
        trace_row = int(tables.offset[row.trace] + position - row.segment_start)
    proposed, accepted = draw_cycle(
        tables, state.seed, request, int(row.domain), position, trace_row, int(row.step_gamma)
    )
    row.step_proposed = proposed
    row.step_accepted = accepted
