"""Draft trees as parent indices, and how deep a recorded request goes down one.

Candidates are numbered 0 .. m − 1, a parent before its children; parent −1 is the root. The k-th
child of a node (in order of index) is the proposer's k-th best candidate there. With the rank
of every realised token recorded, the accepted path of any static tree follows: go down while a
child of the realised rank exists. That is exact for greedy verification, and for sampling with
deterministic top-k children as EAGLE builds them: such a child is accepted exactly when the
target's own sample is among the children (algorithms: released EAGLE code, Σ p over children).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

ROOT = -1


@dataclass(frozen=True)
class DraftTree:
    """A static tree of m candidates."""

    parents: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.parents:
            raise ValueError("a tree needs at least one candidate")
        for node, parent in enumerate(self.parents):
            if not ROOT <= parent < node:
                raise ValueError(
                    f"candidate {node} has parent {parent}; expected -1 (the root) or an earlier "
                    "candidate"
                )

    @property
    def num_nodes(self) -> int:
        """m: candidates that the target scores, the root not counted."""
        return len(self.parents)

    @property
    def depths(self) -> tuple[int, ...]:
        """Depth of every candidate; children of the root have depth 1."""
        found: list[int] = []
        for parent in self.parents:
            found.append(1 if parent == ROOT else found[parent] + 1)
        return tuple(found)

    @property
    def depth(self) -> int:
        """Serial draft passes, and the most drafts that one cycle can accept."""
        return max(self.depths)

    @property
    def width(self) -> int:
        """Most children of a node."""
        return max(self.parents.count(parent) for parent in set(self.parents))

    def children(self) -> NDArray[np.int64]:
        """[m + 1, widest] child of each node by rank, −1 where there is none; row 0 is the root.

        Nodes are shifted by one: candidate i is row i + 1.
        """
        lists: list[list[int]] = [[] for _ in range(self.num_nodes + 1)]
        for node, parent in enumerate(self.parents):
            lists[parent + 1].append(node + 1)
        widest = max(len(children) for children in lists)
        table = np.full((self.num_nodes + 1, widest), -1, dtype=np.int64)
        for row, children in enumerate(lists):
            table[row, : len(children)] = children
        return table


def chain(num_speculative_tokens: int) -> DraftTree:
    """A tree without branches."""
    return DraftTree(tuple(range(-1, num_speculative_tokens - 1)))


def wide_chains(width: int, depth: int) -> DraftTree:
    """`width` chains of `depth` candidates each, side by side below the root."""
    return DraftTree((*[ROOT] * width, *range(width * (depth - 1))))


def accepted_depth(children: NDArray[np.int64], ranks: NDArray[np.int16]) -> NDArray[np.int8]:
    """How deep [...] the realised tokens, by rank at each depth [..., depth], lead down a tree."""
    deepest = np.zeros(ranks.shape[:-1], dtype=np.int8)
    node = np.zeros(ranks.shape[:-1], dtype=np.int64)
    on_tree = np.ones(ranks.shape[:-1], dtype=bool)
    for depth in range(ranks.shape[-1]):
        rank = ranks[..., depth]
        known = (rank >= 0) & (rank < children.shape[1])
        child = children[node, np.where(known, rank, 0)]
        on_tree &= known & (child >= 0)
        node = np.where(on_tree, child, node)
        deepest += on_tree
    return deepest
