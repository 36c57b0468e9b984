"""Which block numbers each request holds, and where cached contents lie.

simcore's ledger counts blocks; this gives the counts numbers. It decides nothing: `follow` is told
what every request holds and makes it so.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from calibration.paged.query import BoolArray, IntArray

NO_BLOCKS: IntArray = np.empty(0, dtype=np.int64)


@dataclass(frozen=True)
class Holding:
    """What the ledger says of one request."""

    request: int
    num_blocks: int  # the shared ones included
    committed_tokens: int = 0
    life: int = 0  # grows when the request starts anew, without the KV it had
    num_shared: int = 0
    contents: tuple[int, ...] = ()  # of its first blocks, where others may have the same


@dataclass
class _Seat:
    """A request's blocks, and what lay in them when it was last followed."""

    blocks: IntArray
    holding: Holding


class BlockTables:
    """Numbers 0 .. num_blocks - 1 of one pool, with reference counts for shared blocks."""

    def __init__(self, num_blocks: int, block_size: int) -> None:
        self.num_blocks = num_blocks
        self.block_size = block_size
        self._unused = list(range(num_blocks - 1, -1, -1))
        self._holders = np.zeros(num_blocks, dtype=np.int64)
        self._seats: dict[int, _Seat] = {}
        self._cached: dict[int, int] = {}  # content -> number

    @property
    def requests(self) -> tuple[int, ...]:
        """Who holds blocks."""
        return tuple(self._seats)

    @property
    def num_free(self) -> int:
        """Blocks that nobody holds, cached or not."""
        return int(np.count_nonzero(self._holders == 0))

    @property
    def num_cached(self) -> int:
        """Blocks whose content can be found again."""
        return len(self._cached)

    def blocks(self, request: int) -> IntArray:
        """Block numbers of a request in the order of its text; empty if it holds none."""
        seat = self._seats.get(request)
        return NO_BLOCKS if seat is None else seat.blocks

    def num_holders(self, content: int) -> int:
        """Requests that hold this cached content."""
        return int(self._holders[self._cached[content]])

    def slots(self, request: int, places: IntArray) -> IntArray:
        """Slots of the request's `places`, counted from the begin of its text.

        Raises IndexError beyond the blocks that it holds.
        """
        blocks = self.blocks(request)
        return blocks[places // self.block_size] * self.block_size + places % self.block_size

    def follow(self, holdings: Sequence[Holding], is_cached: BoolArray | None = None) -> None:
        """Hold exactly this: requests left out, or with no blocks, hold nothing any more.

        `is_cached` [contents]: which contents the ledger can find again; None: it caches nothing.
        """
        if is_cached is not None:
            self._publish(holdings, is_cached)
            self._forget(is_cached)
        wanted = {holding.request: holding for holding in holdings if holding.num_blocks > 0}
        for request in [request for request in self._seats if request not in wanted]:
            self._release(self._seats.pop(request).blocks)
        changed = [holding for holding in wanted.values() if self._differs(holding)]
        for holding in changed:
            self._shrink(holding)
        for holding in changed:  # when everyone has given back
            self._grow(holding)

    def _publish(self, holdings: Iterable[Holding], is_cached: BoolArray) -> None:
        """Find the blocks of contents that have entered the ledger's cache."""
        now = {holding.request: holding for holding in holdings}
        for request, seat in self._seats.items():
            after = now.get(request)
            is_same_life = after is not None and after.life == seat.holding.life
            known = after if after is not None and is_same_life else seat.holding
            for place in range(min(known.committed_tokens // self.block_size, len(known.contents))):
                content = known.contents[place]
                if is_cached[content] and content not in self._cached:
                    self._cached[content] = int(seat.blocks[place])

    def _forget(self, is_cached: BoolArray) -> None:
        for content in [content for content in self._cached if not is_cached[content]]:
            number = self._cached.pop(content)
            if self._holders[number] == 0:
                self._unused.append(number)

    def _differs(self, holding: Holding) -> bool:
        seat = self._seats.get(holding.request)
        if seat is None:
            return True
        before, seat.holding = seat.holding, holding
        return (
            before.life != holding.life
            or before.num_shared != holding.num_shared
            or len(seat.blocks) != holding.num_blocks
        )

    def _shrink(self, holding: Holding) -> None:
        """Keep what the request goes on holding: shared contents first, then its own blocks."""
        seat = self._seats.get(holding.request)
        shared = [self._cached[content] for content in holding.contents[: holding.num_shared]]
        own = NO_BLOCKS
        before = NO_BLOCKS
        if seat is not None:
            before = seat.blocks
            own = before[holding.num_shared : holding.num_blocks]
        kept = np.concatenate((np.array(shared, dtype=np.int64), own))
        np.add.at(self._holders, kept, 1)
        self._release(before)
        self._seats[holding.request] = _Seat(kept, holding)

    def _grow(self, holding: Holding) -> None:
        seat = self._seats[holding.request]
        missing = holding.num_blocks - len(seat.blocks)
        if missing > len(self._unused):
            raise RuntimeError(
                f"request {holding.request} is to hold {missing} more blocks, but "
                f"{len(self._unused)} are free: the ledger counts otherwise"
            )
        taken = np.array([self._unused.pop() for _ in range(missing)], dtype=np.int64)
        self._holders[taken] += 1
        seat.blocks = np.concatenate((seat.blocks, taken))

    def _release(self, numbers: IntArray) -> None:
        np.subtract.at(self._holders, numbers, 1)
        idle = {int(number) for number in numbers if self._holders[number] == 0}
        self._unused += sorted(idle - set(self._cached.values()), reverse=True)
