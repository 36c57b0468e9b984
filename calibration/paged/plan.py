"""A ragged batch laid out for one forward: tokens in a row, attention in padded groups.

Linear layers see the T tokens of all requests side by side. Attention runs over groups of requests
of like width, padded to the widest, so that one long chunk does not pad every decode.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from calibration.paged.query import IntArray, Query
from calibration.paged.tables import BlockTables

NARROW_TOKENS = 16  # up to this width requests share a group; then each doubling has its own


@dataclass(frozen=True)
class AttentionGroup:
    """B requests of at most Q query tokens, L tail slots and N blocks."""

    rows: torch.Tensor  # [B, Q] places among the T tokens; padding repeats one
    blocks: torch.Tensor  # [B, N]
    contexts: torch.Tensor  # [B] slots that every query token of the request sees
    tails: torch.Tensor  # [B, Q, L] bool, which slots behind the context a token sees
    tail_positions: torch.Tensor  # [B, L]
    positions: torch.Tensor  # [B, Q]


@dataclass(frozen=True)
class StepPlan:
    """Everything that a forward reads besides weights and KV."""

    token_ids: torch.Tensor  # [T]
    positions: torch.Tensor  # [T]
    slots: torch.Tensor  # [T] where each token's KV is written
    scored: torch.Tensor  # [K] tokens whose logits are wanted
    unpad: torch.Tensor  # [T] places among the groups' padded rows
    groups: tuple[AttentionGroup, ...]


def plan_step(queries: Sequence[Query], tables: BlockTables, device: torch.device) -> StepPlan:
    """Lay out `queries` over their block tables.

    Raises ValueError for no queries, or one that covers more than its request's blocks.
    """
    if not queries:
        raise ValueError("a forward over no queries; expected at least one")
    for query in queries:
        _check_room(query, tables)
    starts = np.cumsum([0, *(query.num_tokens for query in queries)])
    members: dict[int, list[int]] = {}
    for index, query in enumerate(queries):
        members.setdefault(_width_class(query.num_tokens), []).append(index)
    groups, unpad, padded_before = [], np.empty(starts[-1], dtype=np.int64), 0
    for indices in members.values():
        group = _group([queries[i] for i in indices], starts[indices], tables, device)
        width = group.rows.shape[1]
        for row, index in enumerate(indices):
            begin = padded_before + row * width
            unpad[starts[index] : starts[index + 1]] = begin + np.arange(queries[index].num_tokens)
        padded_before += group.rows.numel()
        groups.append(group)
    return StepPlan(
        token_ids=_tensor(np.concatenate([query.token_ids for query in queries]), device),
        positions=_tensor(np.concatenate([_positions(query) for query in queries]), device),
        slots=_tensor(np.concatenate([_slots(query, tables) for query in queries]), device),
        scored=_tensor(
            np.concatenate([at + q.scored for at, q in zip(starts, queries, strict=False)]), device
        ),
        unpad=_tensor(unpad, device),
        groups=tuple(groups),
    )


def _width_class(num_tokens: int) -> int:
    return max(NARROW_TOKENS, 1 << (num_tokens - 1).bit_length())


def _check_room(query: Query, tables: BlockTables) -> None:
    room = len(tables.blocks(query.request)) * tables.block_size
    if query.covered_tokens > room:
        raise ValueError(
            f"request {query.request} needs KV for {query.covered_tokens} tokens but holds blocks "
            f"for {room}; reserve them first"
        )


def _positions(query: Query) -> IntArray:
    found: IntArray = query.context_tokens + query.tail_depths[query.offsets]
    return found


def _slots(query: Query, tables: BlockTables) -> IntArray:
    return tables.slots(query.request, query.context_tokens + query.offsets)


def _group(
    queries: Sequence[Query], starts: IntArray, tables: BlockTables, device: torch.device
) -> AttentionGroup:
    size = tables.block_size
    batch = len(queries)
    width = max(query.num_tokens for query in queries)
    tail = max(len(query.tail_depths) for query in queries)
    num_blocks = max(-(-query.covered_tokens // size) for query in queries)
    rows = np.zeros((batch, width), dtype=np.int64)
    blocks = np.zeros((batch, num_blocks), dtype=np.int64)
    tails = np.zeros((batch, width, tail), dtype=np.bool_)
    positions = np.zeros((batch, width), dtype=np.int64)
    tail_positions = np.zeros((batch, tail), dtype=np.int64)
    for at, (query, start) in enumerate(zip(queries, starts, strict=True)):
        tokens, length = query.visible.shape
        held = tables.blocks(query.request)[:num_blocks]
        rows[at] = start + np.minimum(np.arange(width), tokens - 1)
        blocks[at, : len(held)] = held
        tails[at, :, :length] = query.visible[-1]  # padding sees something: no row is all masked
        tails[at, :tokens, :length] = query.visible
        positions[at] = _positions(query)[-1]
        positions[at, :tokens] = _positions(query)
        tail_positions[at, :length] = query.context_tokens + query.tail_depths
    return AttentionGroup(
        rows=_tensor(rows, device),
        blocks=_tensor(blocks, device),
        contexts=_tensor(np.array([query.context_tokens for query in queries]), device),
        tails=torch.from_numpy(tails).to(device),
        tail_positions=_tensor(tail_positions, device),
        positions=_tensor(positions, device),
    )


def _tensor(values: IntArray, device: torch.device) -> torch.Tensor:
    return torch.from_numpy(values).to(device)
