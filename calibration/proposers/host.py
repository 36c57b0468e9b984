"""Proposers that look things up in a request's own text, in an engine of unequal lengths."""

from collections.abc import Sequence

import torch

from calibration.proposers.protocol import Proposer, Remembers, Topology, TreeFiller
from calibration.proposers.tree_protocol import NO_DRAFT, Asked, Draft, PromptChunk, Reconciled
from simcore.acceptance.tree import DraftTree
from simcore.profile.schema import Sampling


class HostProposer:
    """Asks a stateless proposer request by request.

    It fills the tree that is asked for, or, where it cannot, a chain as deep as the tree.
    """

    def __init__(self, lookup: Proposer) -> None:
        self._lookup = lookup

    @property
    def name(self) -> str:
        """The lookup's own."""
        return self._lookup.name

    def read(self, chunks: Sequence[PromptChunk]) -> None:
        """Nothing: every lookup reads the whole text."""

    def propose(self, asked: Sequence[Asked], sampling: Sampling) -> list[Draft]:
        """One draft a request; none where nothing is found."""
        return [self._propose_one(one, sampling) for one in asked]

    def _propose_one(self, asked: Asked, sampling: Sampling) -> Draft:
        text = torch.from_numpy(asked.token_ids)[None]
        luck = [asked.generator]
        lookup = self._lookup
        if isinstance(lookup, TreeFiller) and _can_fill(lookup, asked.topology):
            found = lookup.propose_tree(text, asked.topology, sampling, luck)
        else:
            found = lookup.propose(text, asked.topology.depth, sampling, luck)
        candidates = found.candidates()[0]
        if candidates.num_nodes == 0:
            return NO_DRAFT
        return Draft(candidates.parents, candidates.token_ids, candidates.q)

    def reconcile(self, cycles: Sequence[Reconciled]) -> None:
        """Nothing to keep."""

    def learn(self, output_ids: Sequence[int]) -> None:
        """Tell a lookup that keeps the texts of finished requests."""
        if isinstance(self._lookup, Remembers):
            self._lookup.remember(output_ids)

    def forget(self, request: int) -> None:
        """Nothing is remembered."""


def _can_fill(lookup: TreeFiller, topology: Topology) -> bool:
    """Whether this is a tree, and one that it can fill."""
    if isinstance(topology, DraftTree):
        return topology.width > 1
    return lookup.fills_dynamic_trees
