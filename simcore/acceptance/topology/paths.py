"""Rank paths: a tree as the list of its nodes, each named by ranks from the root.

Node (i_1 .. i_d) is the i_d-th best candidate (0 = best) below node (i_1 .. i_{d−1}). Medusa's and
TensorRT-LLM's choices and vLLM's token tree are such lists.
"""

from collections.abc import Iterable

from simcore.acceptance.tree import ROOT, DraftTree
from simcore.errors import TreeError

RankPath = tuple[int, ...]


def rank_paths(tree: DraftTree) -> tuple[RankPath, ...]:
    """The path of every node, in the order of nodes."""
    found: list[RankPath] = []
    num_children = [0] * (tree.num_nodes + 1)
    for parent in tree.parents:
        before = found[parent] if parent != ROOT else ()
        found.append((*before, num_children[parent + 1]))
        num_children[parent + 1] += 1
    return tuple(found)


def tree_from_paths(paths: Iterable[RankPath]) -> DraftTree:
    """The tree of these nodes, numbered level by level, siblings by rank.

    Raises TreeError where a node repeats, lacks its parent, or lacks its next better sibling:
    a proposer's second best candidate is never verified without its best.
    """
    ordered = sorted((tuple(path) for path in paths), key=lambda path: (len(path), path))
    index = {path: node for node, path in enumerate(ordered)}
    if len(index) < len(ordered):
        raise TreeError(f"{len(ordered) - len(index)} nodes repeat; expected each path once")
    parents = []
    for path in ordered:
        _check_path(path, index)
        parents.append(index[path[:-1]] if len(path) > 1 else ROOT)
    if not parents:
        raise TreeError("a tree without nodes; expected at least one path")
    return DraftTree(tuple(parents))


def canonical(tree: DraftTree) -> DraftTree:
    """The same tree, numbered level by level, siblings by rank."""
    return tree_from_paths(rank_paths(tree))


def _check_path(path: RankPath, index: dict[RankPath, int]) -> None:
    if not path or min(path) < 0:
        raise TreeError(f"node {path}; expected at least one rank, each 0 or more")
    if len(path) > 1 and path[:-1] not in index:
        raise TreeError(f"node {path} lacks its parent {path[:-1]}; add it")
    better = (*path[:-1], path[-1] - 1)
    if path[-1] > 0 and better not in index:
        raise TreeError(f"node {path} lacks its better sibling {better}; ranks leave no gap")
