"""Where the nodes of a tree stand when it is drawn."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from simcore.acceptance.topology.paths import RankPath, rank_paths
from simcore.acceptance.tree import ROOT, DraftTree


@dataclass(frozen=True)
class NodePlace:
    """One node: who it is, how likely, and where; the root stands at depth 0, x of its children."""

    node: int
    parent: int
    depth: int
    path: RankPath
    probability: float
    x: float


def layout(tree: DraftTree, probabilities: Sequence[float]) -> tuple[NodePlace, ...]:
    """Leaves side by side in order of rank, a parent in the middle of its children.

    `probabilities` [m]: P(node accepted). Raises ValueError where there are not m of them.
    """
    paths = rank_paths(tree)
    across = _across(tree, paths)
    return tuple(
        NodePlace(node, tree.parents[node], len(path), path, float(probability), across[node])
        for node, (path, probability) in enumerate(zip(paths, probabilities, strict=True))
    )


def depth_first(tree: DraftTree) -> tuple[int, ...]:
    """Nodes in reading order: each before its children, siblings by rank."""
    paths = rank_paths(tree)
    return tuple(sorted(range(tree.num_nodes), key=lambda node: paths[node]))


def _across(tree: DraftTree, paths: Sequence[RankPath]) -> list[float]:
    children: dict[int, list[int]] = {}
    for node, parent in enumerate(tree.parents):
        children.setdefault(parent, []).append(node)
    leaves = iter(range(tree.num_nodes))
    place = {node: float(next(leaves)) for node in depth_first(tree) if node not in children}
    for node in sorted(children, key=lambda node: -len(paths[node]) if node != ROOT else 0):
        if node != ROOT:
            place[node] = float(np.mean([place[child] for child in children[node]]))
    return [place[node] for node in range(tree.num_nodes)]
