"""Captured forwards: one CUDA graph for each padded size, and the eager twin of the same size.

A graph replays the same kernels over the same memory: sizes are fixed, inputs are copied into the
buffers that it was captured with. Only decodes are captured; a plan with a prefill chunk, or beyond
the captured sizes, runs eagerly, which is the cliff that engines have too.
"""

from dataclasses import dataclass, fields

import torch

from calibration.model.decoder import Decoder
from calibration.paged.kv import PagedKV
from calibration.paged.plan import AttentionGroup, StepPlan


@dataclass(frozen=True)
class GraphSize:
    """What a captured forward is padded to."""

    num_requests: int
    num_query_tokens: int  # per request, and slots of its tail
    num_blocks: int  # per request


def padded_plan(plan: StepPlan, size: GraphSize, kv: PagedKV) -> StepPlan:
    """`plan` padded to `size`: every token scored, padding writes to the scratch block.

    Logits of token t of request b are row b · num_query_tokens + t. Raises ValueError where the
    plan has several groups, or more than the size holds.
    """
    if len(plan.groups) != 1:
        raise ValueError(f"{len(plan.groups)} attention groups; expected one of a single width")
    group = plan.groups[0]
    batch, width, length = group.tails.shape
    if not fits(plan, size):
        raise ValueError(
            f"{batch} requests of {max(width, length)} tokens over {group.blocks.shape[1]} blocks "
            f"do not fit {size}"
        )
    total = size.num_requests * size.num_query_tokens
    device = plan.token_ids.device
    # Where the padded row of each token is; the same for all requests, whatever their width.
    places = plan.unpad // width * size.num_query_tokens + plan.unpad % width  # [T]
    scratch = kv.scratch_block * kv.block_size

    def spread(values: torch.Tensor, fill: int) -> torch.Tensor:
        return torch.full((total,), fill, device=device).index_copy_(0, places, values)

    def grown(values: torch.Tensor, *sizes: int, fill: int = 0) -> torch.Tensor:
        found = values.new_full((size.num_requests, *sizes), fill)
        found[tuple(slice(0, n) for n in values.shape)] = values
        return found

    every = torch.arange(total, device=device)
    tails = grown(group.tails, size.num_query_tokens, size.num_query_tokens)
    # A row that sees nothing is NaN in some kernels, and would lie in the scratch block for others
    # to multiply by zero.
    tails[..., 0] |= ~tails.any(dim=-1)
    return StepPlan(
        token_ids=spread(plan.token_ids, 0),
        positions=spread(plan.positions, 0),
        slots=spread(plan.slots, scratch),
        scored=every,
        unpad=every,
        groups=(
            AttentionGroup(
                rows=every.view(size.num_requests, size.num_query_tokens),
                blocks=grown(group.blocks, size.num_blocks, fill=kv.scratch_block),
                contexts=grown(group.contexts),
                tails=tails,
                tail_positions=grown(group.tail_positions, size.num_query_tokens),
                positions=grown(group.positions, size.num_query_tokens),
            ),
        ),
    )


def fits(plan: StepPlan, size: GraphSize) -> bool:
    """Whether a captured forward of `size` can run the plan."""
    if len(plan.groups) != 1:
        return False
    group = plan.groups[0]
    batch, width, length = group.tails.shape
    return (
        batch <= size.num_requests
        and max(width, length) <= size.num_query_tokens
        and group.blocks.shape[1] <= size.num_blocks
    )


class CapturedForward:
    """A decoder's forward at one padded size, replayed as a CUDA graph."""

    def __init__(self, decoder: Decoder, kv: PagedKV, plan: StepPlan, size: GraphSize) -> None:
        """Capture with `plan` as the example; needs a CUDA device."""
        self._decoder, self._kv, self._size = decoder, kv, size
        self._inputs = padded_plan(plan, size, kv)
        side = torch.cuda.Stream()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):  # warm-up: libraries allocate what they keep
            for _ in range(2):
                decoder.forward(self._inputs, kv)
        torch.cuda.current_stream().wait_stream(side)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            self._logits = decoder.forward(self._inputs, kv)

    def replay(self, plan: StepPlan) -> torch.Tensor:
        """Logits of the plan's scored tokens, as `eager` gives them."""
        padded = padded_plan(plan, self._size, self._kv)
        _copy_into(padded, self._inputs)
        self._graph.replay()
        return self._logits.index_select(0, scored_rows(plan, self._size))


def eager(decoder: Decoder, kv: PagedKV, plan: StepPlan, size: GraphSize) -> torch.Tensor:
    """The captured forward's twin: the same padded inputs, kernels launched one by one."""
    logits = decoder.forward(padded_plan(plan, size, kv), kv)
    return logits.index_select(0, scored_rows(plan, size))


def scored_rows(plan: StepPlan, size: GraphSize) -> torch.Tensor:
    """Rows [K] of the padded logits that the plan asked for."""
    width = plan.groups[0].tails.shape[1]
    places = plan.unpad.index_select(0, plan.scored)
    return places // width * size.num_query_tokens + places % width


def _copy_into(values: StepPlan, buffers: StepPlan) -> None:
    for source, target in zip(_tensors(values), _tensors(buffers), strict=True):
        target.copy_(source)


def _tensors(plan: StepPlan) -> list[torch.Tensor]:
    (group,) = plan.groups
    own = [plan.token_ids, plan.positions, plan.slots, plan.scored, plan.unpad]
    return own + [getattr(group, field.name) for field in fields(group)]
