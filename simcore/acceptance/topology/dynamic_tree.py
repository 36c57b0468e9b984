"""EAGLE-2's dynamic trees (Li et al. 2024, 2406.16858), shaped anew each cycle by confidence.

A node is worth V, the product of the draft's probabilities along its path. At every level the
`topk` likeliest of the newest nodes are expanded into `topk` candidates each; after `depth` levels
the best `num_nodes` of all candidates are verified. V never rises along a path and ties favour
the node proposed first, so the choice is a connected tree without gaps among siblings.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from simcore.acceptance.topology.paths import RankPath, tree_from_paths
from simcore.acceptance.topology.replay import IntArray, RankArray
from simcore.acceptance.trace import RANK_ABSENT
from simcore.acceptance.tree import DraftTree
from simcore.errors import TreeError

CONFIDENCE_ROUNDING = 0.005  # recordings keep three digits
Candidates = Callable[[RankPath], ArrayLike]  # path -> the draft's probabilities, best first


@dataclass(frozen=True)
class DynamicShape:
    """What is fixed of a dynamic tree; SGLang: num_steps, eagle_topk, num_draft_tokens − 1."""

    topk: int
    depth: int
    num_nodes: int  # verified, the root not counted

    def __post_init__(self) -> None:
        if min(self.topk, self.depth, self.num_nodes) < 1:
            raise TreeError(f"{self}; expected at least 1 of each")
        if self.num_nodes > self.num_proposed:
            raise TreeError(
                f"{self.num_nodes} nodes to verify, but topk {self.topk} and depth {self.depth} "
                f"propose {self.num_proposed}; lower the nodes or raise topk or depth"
            )

    @property
    def num_proposed(self) -> int:
        """Nodes that the draft scores: topk at the first level, topk² at every other."""
        return self.topk + (self.depth - 1) * self.topk**2


@dataclass(frozen=True)
class ProposedNodes:
    """Everything that the draft scored in one cycle, in the order of proposal."""

    paths: tuple[RankPath, ...]
    confidence: NDArray[np.float64]  # [num_proposed] V, product along the path

    def order(self) -> IntArray:
        """[num_proposed] place of each node when the best are chosen, 0 = first."""
        place = np.empty(len(self.paths), dtype=np.int64)
        place[np.argsort(-self.confidence, kind="stable")] = np.arange(len(self.paths))
        return place

    def selected(self, num_nodes: int) -> DraftTree:
        """The tree of the best nodes."""
        order = self.order()
        return tree_from_paths(
            path for path, place in zip(self.paths, order, strict=True) if place < num_nodes
        )

    def orders_along(self, ranks: ArrayLike) -> IntArray:
        """[depths] place of the realised path's node at each depth; RANK_ABSENT if not proposed.

        One such list decides every number of verified nodes under the same topk and depth.
        """
        order = dict(zip(self.paths, self.order().tolist(), strict=True))
        realised = np.asarray(ranks).tolist()
        places = [order.get(tuple(realised[: at + 1]), RANK_ABSENT) for at in range(len(realised))]
        return np.array(places, dtype=np.int64)


def propose_nodes(topk: int, depth: int, candidates: Candidates) -> ProposedNodes:
    """Expand as EAGLE-2 does; `candidates` gives at least `topk` probabilities, falling."""
    paths: list[RankPath] = []
    confidence: list[float] = []
    beam: list[tuple[float, RankPath]] = [(1.0, ())]
    for _ in range(depth):
        level = [
            (value * float(rate), (*path, rank))
            for value, path in beam
            for rank, rate in enumerate(np.asarray(candidates(path))[:topk])
        ]
        confidence += [value for value, _ in level]
        paths += [path for _, path in level]
        beam = sorted(level, key=lambda node: -node[0])[:topk]  # stable: ties as proposed
    return ProposedNodes(tuple(paths), np.array(confidence))


def depths_from_orders(orders: RankArray, num_nodes: int) -> IntArray:
    """[num_rows] accepted drafts, exactly, from recorded places [num_rows, depths]."""
    return _leading(orders < num_nodes)


def depth_bounds(
    shape: DynamicShape, ranks: RankArray, confidence: NDArray[np.float64]
) -> tuple[IntArray, IntArray]:
    """(lower, upper) accepted drafts [num_rows] where only the realised path was recorded.

    `ranks` of the realised tokens and `confidence` of the top candidates, [num_rows, depths].

    Upper: every rank must be a candidate, and the better siblings of a path all come before it:
    Σ (rank + 1) ≤ num_nodes. Lower: along top candidates V is known, and the V of one level sum
    to at most 1, so at most ⌊1/V⌋ nodes of a level come before or with it; below another candidate
    nothing is known of V, and only trees that verify everything are sure to hold it.
    """
    ranks, confidence = ranks[:, : shape.depth], confidence[:, : shape.depth]
    candidate = ranks < shape.topk
    ahead = np.cumsum(np.where(candidate, ranks, 0).astype(np.int64) + 1, axis=1)
    upper = _leading(candidate & (ahead <= shape.num_nodes))
    is_top = np.logical_and.accumulate(ranks == 0, axis=1)
    value = np.where(is_top, np.cumprod(confidence * (1.0 - CONFIDENCE_ROUNDING), axis=1), 0.0)
    rivals = np.floor(1.0 / np.maximum(value, 1e-12))  # of one level, the node itself counted
    others = np.minimum(rivals, shape.topk**2) * (shape.depth - 1)
    is_chosen = np.minimum(rivals, shape.topk) + others <= shape.num_nodes
    is_chosen[:, :1] |= is_top[:, :1]  # the root's best candidate comes first of all
    is_expanded = rivals <= shape.topk
    is_expanded[:, :1] = True  # all candidates of the first level are
    is_proposed = np.ones_like(is_expanded)
    is_proposed[:, 1:] = np.logical_and.accumulate(is_expanded, axis=1)[:, :-1]
    lower = _leading(candidate & is_proposed & is_chosen)
    return np.minimum(lower, upper), upper


def _leading(holds: NDArray[np.bool_]) -> IntArray:
    """[num_rows] leading entries that are true."""
    return np.asarray(np.logical_and.accumulate(holds, axis=1).sum(axis=1), dtype=np.int64)
