"""The KV of a replica: one namespace for the target, one for a draft model."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch

from calibration.model.shape import ModelShape
from calibration.paged.kv import PagedKV
from calibration.paged.mirror import Mirror
from calibration.paged.query import IntArray
from calibration.paged.tables import BlockTables
from simcore.serving.accounts import KVState


@dataclass(frozen=True)
class Namespace:
    """Tensors of one model and the tables that say whose they are."""

    kv: PagedKV
    tables: BlockTables

    def move(self, request: int, sources: IntArray, destinations: IntArray) -> None:
        """Copy the KV of places of a request's text to others; nothing where they are the same."""
        if np.array_equal(sources, destinations):
            return
        device = self.kv.keys.device
        slots = [
            torch.from_numpy(self.tables.slots(request, places)).to(device)
            for places in (sources, destinations)
        ]
        self.kv.move(slots[0], slots[1])

    def commit_path(self, request: int, context_tokens: int, path: IntArray) -> None:
        """Move the accepted nodes `path`, in slots behind the root at `context_tokens`, in line."""
        first = context_tokens + 1
        self.move(request, first + path, first + np.arange(len(path)))


class KVCache:
    """The namespaces of one replica. A draft has a pool of its own, or lies in the target's blocks.

    `draft_blocks` None: the draft's KV has the target's block table (vLLM's way).
    """

    def __init__(
        self,
        target: ModelShape,
        num_blocks: int,
        block_size: int,
        *,
        dtype: torch.dtype,
        device: torch.device,
        draft: ModelShape | None = None,
        draft_blocks: int | None = None,
        draft_block_size: int | None = None,
    ) -> None:
        tables = BlockTables(num_blocks, block_size)
        self.target = Namespace(PagedKV(target, num_blocks, block_size, dtype, device), tables)
        self._mirrors = [Mirror(tables, "target")]
        self.draft: Namespace | None = None
        if draft is not None:
            if draft_blocks is not None:
                tables = BlockTables(draft_blocks, draft_block_size or block_size)
                self._mirrors.append(Mirror(tables, "draft"))
            kv = PagedKV(draft, tables.num_blocks, tables.block_size, dtype, device)
            self.draft = Namespace(kv, tables)

    def follow(self, state: KVState, running: Iterable[int]) -> None:
        """Number the blocks that the ledger holds for `running`; raises where the counts differ."""
        requests = list(running)
        for mirror in self._mirrors:
            mirror.follow(state, requests)
