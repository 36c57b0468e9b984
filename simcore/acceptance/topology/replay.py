"""Replay of recorded requests on a tree: accepted nodes, cycles, rates by rank.

`ranks` [num_rows, depths] hold, for each output position and depth, the child that accepts the
realised token: its rank among the candidates, or what `recorded_children` made of it by rule.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from simcore.acceptance.trace import TraceSet, walk
from simcore.acceptance.tree import DraftTree

IntArray = NDArray[np.int64]
RankArray = NDArray[np.int16]


@dataclass(frozen=True)
class TreeCycles:
    """The cycles that a tree would run on recorded requests, pooled over requests in order."""

    rows: IntArray  # [num_cycles] the trace's row that each begins at
    accepted: IntArray  # [num_cycles] uncut accepted drafts
    request: IntArray  # [num_cycles] index into the walked requests

    @property
    def mean_emitted_tokens(self) -> float:
        """Of an uncut cycle, the bonus included."""
        return 1.0 + float(self.accepted.mean())


def accepted_nodes(tree: DraftTree, ranks: RankArray) -> IntArray:
    """[num_rows, tree depth] the node accepted at each depth, −1 from where none is."""
    children = tree.children()  # nodes are shifted by one, 0 is the root
    found = np.full((len(ranks), tree.depth), -1, dtype=np.int64)
    node = np.zeros(len(ranks), dtype=np.int64)
    alive = np.ones(len(ranks), dtype=bool)
    for depth in range(min(tree.depth, ranks.shape[1])):
        rank = ranks[:, depth].astype(np.int64)
        alive = alive & (rank >= 0) & (rank < children.shape[1])
        child = np.where(alive, children[node, np.where(alive, rank, 0)], -1)
        alive = child >= 0
        node = np.where(alive, child, 0)
        found[:, depth] = np.where(alive, child - 1, -1)
    return found


def accepted_depths(tree: DraftTree, ranks: RankArray) -> IntArray:
    """[num_rows] accepted drafts of a cycle that begins at each row."""
    return np.asarray((accepted_nodes(tree, ranks) >= 0).sum(axis=1), dtype=np.int64)


def cycles_of(
    traces: TraceSet,
    depths: IntArray,
    *,
    start: int = 1,
    requests: IntArray | None = None,
) -> TreeCycles:
    """The renewal walk: a cycle at `start`, the next after its accepted drafts and one more.

    `depths` [num_rows]: accepted drafts of a cycle that begins at each row.
    """
    longest = int(depths.max(initial=0))
    walked = walk(
        replace(traces, accepted=depths.astype(np.int8)), longest, start=start, requests=requests
    )
    chosen = np.arange(traces.num_requests) if requests is None else requests
    before = np.cumsum(walked.emitted) - walked.emitted
    first = np.flatnonzero(np.diff(walked.request, prepend=-1))
    num_cycles = np.diff(np.append(first, len(walked.request)))
    position = start + before - np.repeat(before[first], num_cycles)
    return TreeCycles(
        traces.offset[chosen][walked.request] + position, walked.accepted, walked.request
    )


def tree_cycles(
    traces: TraceSet,
    tree: DraftTree,
    ranks: RankArray,
    *,
    start: int = 1,
    requests: IntArray | None = None,
) -> TreeCycles:
    """The cycles of a static tree; where the proposer found nothing it proposes no tree."""
    depths = np.where(traces.proposed > 0, accepted_depths(tree, ranks), 0)
    return cycles_of(traces, depths, start=start, requests=requests)


def cycle_count_bounds(
    traces: TraceSet, lower: IntArray, upper: IntArray, *, start: int = 1
) -> tuple[int, int]:
    """(fewest, most) cycles of all requests, whatever depths between the bounds each row has.

    One row's depth moves all later starts, so the walks at both bounds bound nothing by
    themselves; this is the shortest and the longest way through every request.
    """
    fewest = most = 0
    for offset, length in zip(traces.offset.tolist(), traces.output_tokens.tolist(), strict=True):
        reach = int(upper[offset : offset + length].max(initial=0)) + 1
        short, long = np.zeros((2, length + reach), dtype=np.int64)
        for position in range(length - 1, start - 1, -1):
            row = offset + position
            following = slice(position + int(lower[row]) + 1, position + int(upper[row]) + 2)
            short[position] = 1 + short[following].min()
            long[position] = 1 + long[following].max()
        fewest, most = fewest + int(short[start]), most + int(long[start])
    return fewest, most


def node_shares(tree: DraftTree, ranks: RankArray) -> NDArray[np.float64]:
    """[m] share of cycles that accept each node: the joint law of ranks, nothing independent.

    `ranks` [num_cycles, depths] at cycle starts.
    """
    nodes = accepted_nodes(tree, ranks)
    counts = np.bincount(nodes[nodes >= 0], minlength=tree.num_nodes)
    return np.asarray(counts / max(len(ranks), 1), dtype=np.float64)


def rank_rates(ranks: RankArray, width: int) -> NDArray[np.float64]:
    """[depths, width] P(rank k at depth d | the ranks before lie below `width`).

    Sequoia's positional acceptance, by depth, from cycle starts [num_cycles, depths]; 0 where
    nothing came so deep.
    """
    inside = (ranks >= 0) & (ranks < width)
    came = np.ones(len(ranks), dtype=bool)
    rates = np.zeros((ranks.shape[1], width))
    for depth in range(ranks.shape[1]):
        counted = ranks[came & inside[:, depth], depth]
        rates[depth] = np.bincount(counted, minlength=width) / max(int(came.sum()), 1)
        came &= inside[:, depth]
    return rates


def pooled_rates(ranks: RankArray, width: int) -> NDArray[np.float64]:
    """[width] the same with all depths pooled: one rate a rank, as Sequoia assumes."""
    inside = (ranks >= 0) & (ranks < width)
    came = np.cumprod(np.pad(inside[:, :-1], ((0, 0), (1, 0)), constant_values=True), axis=1) > 0
    counted = np.bincount(ranks[came & inside], minlength=width)
    return np.asarray(counted / max(int(came.sum()), 1), dtype=np.float64)
