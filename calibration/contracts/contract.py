"""What every verification contract offers."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch

from calibration.contracts.candidates import Candidates, Verdict
from calibration.contracts.luck import GeneratorLuck, Luck
from simcore.acceptance.topology.sibling_rules import SiblingRule
from simcore.profile.schema import Contract


class VerificationContract(ABC):
    """One rule that turns target distributions and candidates into an accepted path."""

    promise: Contract | None = None  # what the text is worth; None: a relaxed rule
    sibling_rule: SiblingRule | None = None  # how siblings must have been chosen; None: anyhow
    verifies_chains_only = False
    reads_probabilities = True  # False: only the order of p matters, any scores will do

    @property
    @abstractmethod
    def name(self) -> str:
        """What it is called in options and outputs."""

    @property
    def is_exact(self) -> bool:
        """Whether the text is the target's: its greedy text, or a sample of its distribution."""
        return self.promise is not None

    @property
    def label(self) -> str:
        """The name for people, which never hides that a rule is relaxed."""
        return self.name if self.is_exact else f"{self.name} (not exact)"

    @abstractmethod
    def verify_one(self, p: torch.Tensor, candidates: Candidates, luck: Luck) -> Verdict:
        """The verdict on one request.

        `p` [>= m + 1, V]: the target's distribution after the root (row 0) and after every
        candidate i (row i + 1), after the request's transforms and given the path to it.
        """

    def verify(
        self,
        p: torch.Tensor | Sequence[torch.Tensor],
        candidates: Sequence[Candidates],
        generators: Sequence[torch.Generator],
    ) -> list[Verdict]:
        """One verdict a request; `p` [B, M + 1, V], or a tensor a request where they differ."""
        return [
            self.verify_one(rows, of_request, GeneratorLuck(generator, of_request.num_nodes))
            for rows, of_request, generator in zip(p, candidates, generators, strict=True)
        ]

    def check_topology(self, candidates: Candidates) -> None:
        """Raise ValueError for a tree where the rule is for chains."""
        if self.verifies_chains_only and not candidates.is_chain:
            raise ValueError(
                f"contract {self.name!r} verifies chains, got a tree of {candidates.num_nodes} "
                "candidates; use one for trees"
            )
