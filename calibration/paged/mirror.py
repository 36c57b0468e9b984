"""Block numbers that follow the rows of simcore's State, and the proof that they do.

After every operation of the ledger (begin, commit, a failure, a cancellation) call `follow`. Counts
live in State alone; a difference between the two is an error of this program and raises.
"""

from collections.abc import Iterable
from typing import Literal

import numpy as np

from calibration.paged.query import BoolArray
from calibration.paged.tables import BlockTables, Holding
from simcore.records import Record
from simcore.serving.accounts import KVState

Pool = Literal["target", "draft"]
HELD = {"target": "held_blocks", "draft": "draft_held_blocks"}
FREE = {"target": "free_blocks", "draft": "draft_free_blocks"}
COMMITTED = {"target": "committed_tokens", "draft": "draft_committed_tokens"}


class Mirror:
    """The numbers of one pool of one replica."""

    def __init__(self, tables: BlockTables, pool: Pool, replica: int = 0) -> None:
        self.tables = tables
        self._pool = pool
        self._replica = replica
        self._contents: dict[int, tuple[int, ...]] = {}

    def follow(self, state: KVState, running: Iterable[int]) -> None:
        """Hold what `running` requests hold in `state`; others that are known hold nothing."""
        requests = dict.fromkeys((*self.tables.requests, *map(int, running)))
        caches = bool(state.limits.caches_prefixes)
        holdings = [self._holding(state, request, caches) for request in requests]
        is_cached = self._is_cached(state) if caches else None
        self.tables.follow(holdings, is_cached)
        self._check(state, holdings, is_cached)
        for request in self._contents.keys() - set(self.tables.requests):
            del self._contents[request]

    def _holding(self, state: KVState, request: int, caches: bool) -> Holding:
        row = state.requests[request]
        here = int(row["replica"]) == self._replica
        return Holding(
            request=request,
            num_blocks=int(row[HELD[self._pool]]) if here else 0,
            committed_tokens=int(row["committed_tokens"]),
            life=int(row["num_preemptions"] + row["num_restarts"]),
            num_shared=int(row["shared_blocks"]) if here else 0,
            contents=self._contents_of(state, request, row) if caches else (),
        )

    def _contents_of(self, state: KVState, request: int, row: Record) -> tuple[int, ...]:
        if request not in self._contents:
            runs = state.prefix_runs[row["prefix_begin"] : row["prefix_end"]]
            self._contents[request] = tuple(
                content for first, count in runs.tolist() for content in range(first, first + count)
            )
        return self._contents[request]

    def _is_cached(self, state: KVState) -> BoolArray:
        found: BoolArray = state.prefixes[self._replica]["is_cached"][1:] != 0
        return found

    def _check(self, state: KVState, holdings: list[Holding], is_cached: BoolArray | None) -> None:
        for holding in holdings:
            self._same(
                f"blocks of request {holding.request}",
                holding.num_blocks,
                len(self.tables.blocks(holding.request)),
            )
        free = int(state.replicas[self._replica][FREE[self._pool]])
        self._same("free blocks", free, self.tables.num_free)
        if is_cached is None:
            return
        entries = state.prefixes[self._replica][1:]
        self._same("cached blocks", int(np.count_nonzero(is_cached)), self.tables.num_cached)
        for content in np.flatnonzero(is_cached).tolist():
            counted = int(entries[content]["num_holders"])
            self._same(f"holders of content {content}", counted, self.tables.num_holders(content))

    def _same(self, what: str, counted: int, found: int) -> None:
        if counted != found:
            raise RuntimeError(
                f"{self._pool} {what}: the ledger counts {counted}, {found} have numbers"
            )
