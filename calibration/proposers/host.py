"""Proposers that look things up in a request's own text, in an engine of unequal lengths."""

from collections.abc import Sequence

import torch

from calibration.proposers.protocol import Proposer
from calibration.proposers.tree_protocol import NO_DRAFT, Asked, Draft, PromptChunk, Reconciled
from simcore.profile.schema import Sampling


class HostProposer:
    """Asks a stateless proposer of chains request by request; the chain is as deep as the tree."""

    def __init__(self, chains: Proposer) -> None:
        self._chains = chains

    @property
    def name(self) -> str:
        """The lookup's own."""
        return self._chains.name

    def read(self, chunks: Sequence[PromptChunk]) -> None:
        """Nothing: every lookup reads the whole text."""

    def propose(self, asked: Sequence[Asked], sampling: Sampling) -> list[Draft]:
        """One chain a request; none where nothing is found."""
        return [self._propose_one(one, sampling) for one in asked]

    def _propose_one(self, asked: Asked, sampling: Sampling) -> Draft:
        text = torch.from_numpy(asked.token_ids)[None]
        found = self._chains.propose(text, asked.topology.depth, sampling, [asked.generator])
        length = found.lengths[0]
        if length == 0:
            return NO_DRAFT
        q = None if found.probabilities is None else found.probabilities[0, :length]
        return Draft(tuple(range(-1, length - 1)), tuple(found.token_ids[0, :length].tolist()), q)

    def reconcile(self, cycles: Sequence[Reconciled]) -> None:
        """Nothing to keep."""

    def forget(self, request: int) -> None:
        """Nothing is remembered."""
