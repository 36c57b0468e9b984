"""What a lookup is asked for; proposers that read with a model are in tree_protocol."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch

from calibration.contracts.candidates import Candidates, chain_candidates
from simcore.acceptance.topology.dynamic_tree import DynamicShape
from simcore.acceptance.topology.sibling_rules import SiblingRule
from simcore.acceptance.tree import DraftTree
from simcore.profile.schema import Sampling


@dataclass(frozen=True)
class Proposal:
    """Drafts of B requests; rows shorter than M are padded and `lengths` says where they end.

    Chains unless `parents` says otherwise. q by parent, as in Candidates: row 0 of a request is
    what the root's children were drawn from, row i + 1 what those of candidate i were; for a chain
    that is what each draft was drawn from.
    """

    token_ids: torch.Tensor  # [B, M] int64, on the host
    lengths: tuple[int, ...]  # B values in 0..M; 0: nothing found, a plain step
    probabilities: torch.Tensor | None  # q [B, M, V]; None: a point mass on the drafts
    parents: tuple[tuple[int, ...], ...] | None = None  # of each row's tree, `lengths` long

    def __post_init__(self) -> None:
        rows, width = self.token_ids.shape
        if len(self.lengths) != rows or any(not 0 <= n <= width for n in self.lengths):
            raise ValueError(
                f"lengths {self.lengths} do not fit drafts of shape {[rows, width]}; expected one "
                "value a row, between 0 and the width"
            )
        if self.parents is not None and tuple(map(len, self.parents)) != self.lengths:
            raise ValueError(
                f"trees of {[len(row) for row in self.parents]} candidates, lengths "
                f"{self.lengths}; expected equal"
            )

    def candidates(self) -> list[Candidates]:
        """What each request puts before the target."""
        rows = self.token_ids.tolist()
        found = []
        for row, length in enumerate(self.lengths):
            tokens = tuple(rows[row][:length])
            q = None if self.probabilities is None else self.probabilities[row, :length]
            if self.parents is None:
                found.append(chain_candidates(tokens, q))
            else:
                found.append(Candidates(self.parents[row], tokens, q))
        return found


class Proposer(Protocol):
    """Proposes chains for a batch of requests of equal length, from their texts alone."""

    @property
    def name(self) -> str:
        """Key of the proposer in the profile."""
        ...

    def proposes_point_mass(self, sampling: Sampling) -> bool:
        """Whether drafts are deterministic given the context, so that q is a point mass."""
        ...

    def propose(
        self,
        token_ids: torch.Tensor,
        num_speculative_tokens: int,
        sampling: Sampling,
        generators: list[torch.Generator],
    ) -> Proposal:
        """At most γ drafts to follow `token_ids` [B, S], the text so far, on the host."""
        ...


@runtime_checkable
class Remembers(Protocol):
    """A lookup that learns from the outputs of requests that have finished."""

    def remember(self, output_ids: Sequence[int]) -> None:
        """Learn one output; it changes what later requests are offered, never their law."""
        ...


Topology = DraftTree | DynamicShape  # a static tree, or the limits of one shaped anew each cycle


@runtime_checkable
class TreeFiller(Proposer, Protocol):
    """A proposer of chains that can fill a tree as well."""

    @property
    def fills_dynamic_trees(self) -> bool:
        """Whether it knows how likely its candidates are, so that the best can be chosen."""
        ...

    def siblings(self, sampling: Sampling) -> SiblingRule:
        """How it chooses the children of a node; `top_k` where it draws nothing."""
        ...

    def propose_tree(
        self,
        token_ids: torch.Tensor,
        topology: Topology,
        sampling: Sampling,
        generators: list[torch.Generator],
    ) -> Proposal:
        """A tree a request to follow `token_ids` [B, S]: the topology, or what can be filled of it.

        The shape may depend on the text so far and on confidences, never on drawn tokens.
        """
        ...
