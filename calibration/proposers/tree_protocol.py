"""What an engine step asks of any proposer: trees for requests of different lengths.

A chain is a tree whose nodes have one child. Node numbers, parents and `q` are as in a verification
contract: parent -1 is the root, a parent comes before its children, siblings in order of trial.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch

from calibration.paged.query import IntArray
from simcore.acceptance.topology.dynamic_tree import DynamicShape
from simcore.acceptance.tree import DraftTree
from simcore.profile.schema import Sampling

Topology = DraftTree | DynamicShape


@dataclass(frozen=True)
class PromptChunk:
    """Part of a text that the target reads in this step."""

    request: int
    token_ids: IntArray
    context_tokens: int  # before the chunk
    is_last: bool


@dataclass(frozen=True)
class Asked:
    """One request that is to be drafted for."""

    request: int  # the same number in all its cycles
    token_ids: IntArray  # [S] the text so far; the last token is the root
    topology: Topology
    generator: torch.Generator

    @property
    def context_tokens(self) -> int:
        """S - 1: tokens whose KV the target has."""
        return len(self.token_ids) - 1


@dataclass(frozen=True)
class Draft:
    """m candidates below the root, and further nodes that the proposer wants answered.

    `q` [R, V] holds in row 0 what the root's children were drawn from and in row i + 1 what the
    children of candidate i were; None: each candidate is a point mass. The target scores
    `window_*` nodes too, numbered on from m, but none of them can be accepted.
    """

    parents: tuple[int, ...] = ()
    token_ids: tuple[int, ...] = ()
    q: torch.Tensor | None = None
    window_parents: tuple[int, ...] = ()
    window_token_ids: tuple[int, ...] = ()

    @property
    def num_candidates(self) -> int:
        """m."""
        return len(self.parents)


NO_DRAFT = Draft()


@dataclass(frozen=True)
class Reconciled:
    """What became of a draft; KV has not moved yet."""

    request: int
    context_tokens: int  # before the cycle, the root not counted
    draft: Draft
    path: tuple[int, ...]  # accepted candidates from below the root down
    next_token: int
    choices: IntArray  # [1 + m + window] the target's likeliest token after each scored node


class TreeProposer(Protocol):
    """Drafts for a batch of requests, and follows what became of it."""

    @property
    def name(self) -> str:
        """Key of the proposer in a profile."""
        ...

    def read(self, chunks: Sequence[PromptChunk]) -> None:
        """Read along with the target's prefill, if KV of its own is to be kept."""
        ...

    def propose(self, asked: Sequence[Asked], sampling: Sampling) -> list[Draft]:
        """One draft a request, at most its topology; an empty one where nothing is found."""
        ...

    def reconcile(self, cycles: Sequence[Reconciled]) -> None:
        """Keep what was accepted."""
        ...

    def learn(self, output_ids: Sequence[int]) -> None:
        """A request has finished with this output; later ones may draw on it."""
        ...

    def forget(self, request: int) -> None:
        """The request has ended, or starts anew."""
        ...
