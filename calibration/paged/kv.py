"""Keys and values of one model in blocks."""

import torch

from calibration.model.shape import ModelShape


class PagedKV:
    """Slots of all layers; block b is slots b·size to (b + 1)·size.

    One block more than asked for takes what padding writes and is never read unmasked.
    """

    def __init__(
        self,
        shape: ModelShape,
        num_blocks: int,
        block_size: int,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        self.block_size = block_size
        self.scratch_block = num_blocks
        slots = (num_blocks + 1) * block_size
        size = (shape.num_layers, slots, shape.num_kv_heads, shape.head_dim)
        # Zeros, not whatever memory held: a masked slot counts zero times its value, never NaN.
        self.keys = torch.zeros(size, dtype=dtype, device=device)  # [layers, slots, K, D]
        self.values = torch.zeros(size, dtype=dtype, device=device)

    @property
    def num_bytes(self) -> int:
        """Of both tensors, the scratch block included."""
        return 2 * self.keys.numel() * self.keys.element_size()

    def write(
        self, layer: int, slots: torch.Tensor, keys: torch.Tensor, values: torch.Tensor
    ) -> None:
        """Put keys and values [T, K, D] into `slots` [T] of one layer."""
        self.keys[layer].index_copy_(0, slots, keys)
        self.values[layer].index_copy_(0, slots, values)

    def read(self, layer: int, blocks: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values [B, K, S, D] of block tables `blocks` [B, N], S = N · block size."""
        return self._gather(self.keys[layer], blocks), self._gather(self.values[layer], blocks)

    def _gather(self, pool: torch.Tensor, blocks: torch.Tensor) -> torch.Tensor:
        rows, _, heads, head_dim = *blocks.shape, *pool.shape[1:]
        by_block = pool.view(-1, self.block_size * heads * head_dim)
        found = by_block.index_select(0, blocks.flatten())
        return found.view(rows, -1, heads, head_dim).transpose(1, 2)

    @torch.inference_mode()
    def move(self, sources: torch.Tensor, destinations: torch.Tensor) -> None:
        """Copy slots [n] of every layer; all are read before any is written."""
        self.keys[:, destinations] = self.keys[:, sources]
        self.values[:, destinations] = self.values[:, sources]
