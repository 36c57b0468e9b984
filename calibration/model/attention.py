"""Attention of a padded group over paged keys and values."""

import torch
from torch.nn.functional import scaled_dot_product_attention

from calibration.paged.plan import AttentionGroup


def additive_mask(
    group: AttentionGroup, block_size: int, window_tokens: int | None, dtype: torch.dtype
) -> torch.Tensor:
    """[B, 1, Q, S] zero where a token sees a slot, else minus infinity; S = N · block size.

    A token sees the context, and of the tail its ancestors and itself; within `window_tokens`
    positions where the model's attention slides. Rows of padding may see nothing.
    """
    batch, width, length = group.tails.shape
    slots = torch.arange(group.blocks.shape[1] * block_size, device=group.blocks.device)  # [S]
    behind = slots - group.contexts[:, None]  # [B, S] place in the tail
    in_context = behind < 0
    in_tail = (behind >= 0) & (behind < length)
    places = behind.clamp(0, length - 1)
    seen = group.tails.gather(2, places[:, None].expand(batch, width, -1))  # [B, Q, S]
    visible = (seen & in_tail[:, None]) | in_context[:, None]
    if window_tokens is not None:
        tail_positions = group.tail_positions.gather(1, places)
        positions = torch.where(in_context, slots, tail_positions)  # [B, S]
        visible &= positions[:, None] > group.positions[:, :, None] - window_tokens
    mask = torch.zeros(visible.shape, dtype=dtype, device=visible.device)
    return mask.masked_fill_(~visible, -torch.inf)[:, None]


def grouped_attention(
    queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    """[B, Q, H, D] from queries of that size, keys and values [B, K, S, D], mask [B, 1, G Q, S].

    The G = H / K query heads of a KV head are further rows of one attention, so that no key is
    copied for them.
    """
    batch, width, heads, head_dim = queries.shape
    kv_heads = keys.shape[1]
    per_head = heads // kv_heads
    rows = queries.transpose(1, 2).reshape(batch, kv_heads, per_head * width, head_dim)
    found = scaled_dot_product_attention(rows, keys, values, attn_mask=mask)  # [B, K, G Q, D]
    found = found.view(batch, kv_heads, per_head, width, head_dim)
    return found.permute(0, 3, 1, 2, 4).reshape(batch, width, heads, head_dim)
