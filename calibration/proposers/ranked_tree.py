"""Trees of a proposer that ranks the tokens after any drafted path and draws nothing."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from calibration.proposers.protocol import Proposal, Topology
from simcore.acceptance.topology.dynamic_tree import propose_nodes
from simcore.acceptance.topology.paths import RankPath, rank_paths, tree_from_paths
from simcore.acceptance.tree import DraftTree

Tokens = tuple[int, ...]
# drafted tokens so far -> (token, how likely it follows), best first, each token once
Ranking = Callable[[Tokens], Sequence[tuple[int, float]]]


@dataclass(frozen=True)
class RankedTree:
    """What a ranking puts into a topology, and how likely its nodes are taken to be."""

    parents: tuple[int, ...]
    token_ids: Tokens
    expected_accepted: float  # Σ over nodes of the product of likelihoods along the path


def ranked_tree(topology: Topology, ranking: Ranking) -> RankedTree:
    """Fill a static tree by rank, or take the best nodes of a dynamic one.

    Nodes for which the ranking has no token are left out, and with them what hangs below.
    """
    found = _RankedPaths(ranking)
    if isinstance(topology, DraftTree):
        kept = [path for path in rank_paths(topology) if found.has(path)]
    else:
        nodes = propose_nodes(topology.topk, topology.depth, found.likelihoods)
        if not nodes.paths:
            return RankedTree((), (), 0.0)
        kept = list(rank_paths(nodes.selected(topology.num_nodes)))
    if not kept:
        return RankedTree((), (), 0.0)
    tree = tree_from_paths(kept)
    paths = rank_paths(tree)
    return RankedTree(
        tree.parents,
        tuple(found.tokens(path)[-1] for path in paths),
        sum(found.product(path) for path in paths),
    )


def ranked_chain(num_tokens: int, ranking: Ranking) -> RankedTree:
    """The best token after the best token, as long as there is one."""
    tokens: list[int] = []
    product, expected = 1.0, 0.0
    while len(tokens) < num_tokens:
        ranked = ranking(tuple(tokens))
        if not ranked:
            break
        token, likelihood = ranked[0]
        product *= likelihood
        expected += product
        tokens.append(token)
    return RankedTree(tuple(range(-1, len(tokens) - 1)), tuple(tokens), expected)


def tree_proposal(trees: Sequence[RankedTree]) -> Proposal:
    """One proposal of a tree a request, each a set of point masses."""
    width = max((len(tree.token_ids) for tree in trees), default=0)
    rows = [[*tree.token_ids, *[0] * (width - len(tree.token_ids))] for tree in trees]
    return Proposal(
        torch.tensor(rows, dtype=torch.int64).view(len(trees), width),
        tuple(len(tree.token_ids) for tree in trees),
        None,
        tuple(tree.parents for tree in trees),
    )


class _RankedPaths:
    """Rank paths read through a ranking, each prefix asked once."""

    def __init__(self, ranking: Ranking) -> None:
        self._ranking = ranking
        self._ranked: dict[RankPath, Sequence[tuple[int, float]]] = {}

    def has(self, path: RankPath) -> bool:
        """Whether every rank along the path exists."""
        return all(rank < len(self._after(path[:depth])) for depth, rank in enumerate(path))

    def tokens(self, path: RankPath) -> Tokens:
        """The tokens along the path."""
        return tuple(self._after(path[:depth])[rank][0] for depth, rank in enumerate(path))

    def product(self, path: RankPath) -> float:
        """The product of likelihoods along the path."""
        product = 1.0
        for depth, rank in enumerate(path):
            product *= self._after(path[:depth])[rank][1]
        return product

    def likelihoods(self, path: RankPath) -> list[float]:
        """Of the tokens after the path, best first."""
        return [likelihood for _, likelihood in self._after(path)]

    def _after(self, path: RankPath) -> Sequence[tuple[int, float]]:
        if path not in self._ranked:
            self._ranked[path] = self._ranking(self.tokens(path))
        return self._ranked[path]
