"""Trees grown node by node, the most likely next (Medusa, Cai et al. 2024, section 2.3.1).

The best n nodes by probability are the best tree of n nodes wherever a better ranked sibling is
never less likely: a node is at most as likely as its parent, so the choice is a tree by itself.
"""

import heapq
from collections import Counter
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from simcore.acceptance.topology.node_value import positional_rates
from simcore.acceptance.topology.paths import RankPath, tree_from_paths
from simcore.acceptance.tree import DraftTree


def grow_tree(
    probability: Callable[[RankPath], float], num_nodes: int, depth: int, width: int
) -> DraftTree:
    """Up to `num_nodes` nodes, each time the likeliest whose parent and better siblings stand.

    Ties favour shallow nodes. Stops early where no node within `depth` and `width` has any
    probability left; the root's best candidate is kept in any case.
    """
    chosen: list[RankPath] = []
    frontier: list[tuple[float, int, RankPath]] = [(-probability((0,)), 1, (0,))]
    while frontier and len(chosen) < num_nodes:
        negative, level, path = heapq.heappop(frontier)
        if negative == 0.0 and chosen:
            break
        chosen.append(path)
        following: list[RankPath] = []
        if level < depth:
            following.append((*path, 0))
        if path[-1] + 1 < width:
            following.append((*path[:-1], path[-1] + 1))
        for each in following:
            heapq.heappush(frontier, (-probability(each), len(each), each))
    return tree_from_paths(chosen)


def medusa_tree(acceptance: ArrayLike, num_nodes: int) -> DraftTree:
    """The greedy tree for positional acceptance [depths, ranks], as Medusa builds its own."""
    rates = positional_rates(acceptance)

    def probability(path: RankPath) -> float:
        return float(np.prod(rates[np.arange(len(path)), list(path)]))

    return grow_tree(probability, num_nodes, *rates.shape)


def head_accuracies(cumulative: ArrayLike) -> NDArray[np.float64]:
    """[heads, ranks] P(the candidate of that rank is right) from top-1, top-2, .. accuracies."""
    return np.diff(np.atleast_2d(np.asarray(cumulative, dtype=np.float64)), axis=1, prepend=0.0)


def frequent_tree(ranks: NDArray[np.int16], num_nodes: int, depth: int, width: int) -> DraftTree:
    """The greedy tree for the joint ranks [num_cycles, depths] that cycles really had.

    Nothing is assumed independent: a node counts for the share of cycles that went through it.
    """
    prefixes: Counter[RankPath] = Counter()
    for row in ranks[:, :depth].tolist():
        path: RankPath = ()
        for rank in row:
            if not 0 <= rank < width:
                break
            path = (*path, rank)
            prefixes[path] += 1
    return grow_tree(lambda path: prefixes[path] / len(ranks), num_nodes, depth, width)
