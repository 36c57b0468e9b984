"""Prompt lookup: propose what followed the last occurrence of the last n tokens.

n goes from `max_n` down to `min_n`; the most recent earlier occurrence wins; the drafts are the
tokens that followed it, at most γ and at most to the end of the text. No model, no KV cache: the
cost is host time. The proposal for γ is a prefix of the proposal for any larger γ. A tree holds
what followed other occurrences beside it, the more recent the better.
"""

from collections import Counter
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from calibration.errors import CalibrationError
from calibration.proposers.protocol import Proposal, Topology
from calibration.proposers.ranked_tree import Ranking, ranked_tree, tree_proposal
from simcore.acceptance.topology.sibling_rules import SiblingRule
from simcore.acceptance.tree import DraftTree
from simcore.profile.schema import Sampling

Tokens = npt.NDArray[np.int64]
Positions = npt.NDArray[np.intp]


@dataclass(frozen=True)
class NgramProposer:
    """Looks up the last tokens of each request in its own prompt and output."""

    max_n: int = 3
    min_n: int = 1
    name: str = "ngram"

    def __post_init__(self) -> None:
        if not 1 <= self.min_n <= self.max_n:
            raise CalibrationError(
                f"n-gram sizes {self.min_n}..{self.max_n}; expected 1 <= min_n <= max_n"
            )

    fills_dynamic_trees = False  # it ranks by recency

    def proposes_point_mass(self, sampling: Sampling) -> bool:
        """Always: the lookup draws nothing."""
        del sampling
        return True

    def propose(
        self,
        token_ids: torch.Tensor,
        num_speculative_tokens: int,
        sampling: Sampling,
        generators: list[torch.Generator],
    ) -> Proposal:
        """Drafts for `token_ids` [B, S]; as wide as the longest proposal of the batch."""
        del sampling, generators
        rows = [
            lookup(tokens, self.max_n, self.min_n)[:num_speculative_tokens]
            for tokens in token_ids.numpy()
        ]
        drafts = np.zeros((len(rows), max(map(len, rows))), dtype=np.int64)  # [B, M]
        for row, found in enumerate(rows):
            drafts[row, : len(found)] = found
        return Proposal(torch.from_numpy(drafts), tuple(map(len, rows)), None)

    def siblings(self, sampling: Sampling) -> SiblingRule:
        """The most recent ones."""
        del sampling
        return SiblingRule.TOP_K

    def propose_tree(
        self,
        token_ids: torch.Tensor,
        topology: Topology,
        sampling: Sampling,
        generators: list[torch.Generator],
    ) -> Proposal:
        """Static trees for `token_ids` [B, S]; raises CalibrationError for a dynamic one."""
        del sampling, generators
        if not isinstance(topology, DraftTree):
            raise CalibrationError(
                "n-gram lookup ranks by recency, a dynamic tree needs likelihoods; expected a "
                "static tree, or the suffix proposer"
            )
        return tree_proposal(
            [
                ranked_tree(topology, _ranking(tokens, matches(tokens, self.max_n, self.min_n)))
                for tokens in token_ids.numpy()
            ]
        )


def lookup(tokens: Tokens, max_n: int, min_n: int) -> Tokens:
    """All tokens that followed the most recent match in `tokens` [S]; empty without a match."""
    ends = matches(tokens, max_n, min_n)
    return tokens[ends[-1] :] if len(ends) else tokens[:0]


def matches(tokens: Tokens, max_n: int, min_n: int) -> Positions:
    """Where the longest n-gram with an earlier occurrence ended before; empty without any."""
    for n in range(min(max_n, len(tokens) - 1), min_n - 1, -1):
        ends = occurrences(tokens, n)
        if len(ends):
            return ends
    return np.empty(0, dtype=np.intp)


def occurrences(tokens: Tokens, n: int) -> Positions:
    """Ascending positions right after each earlier occurrence of the last n of `tokens` [S]."""
    num_starts = len(tokens) - n  # the suffix itself starts there and does not count
    equal = np.ones(num_starts, dtype=np.bool_)
    for offset in range(n):
        equal &= tokens[offset : offset + num_starts] == tokens[len(tokens) - n + offset]
    return np.flatnonzero(equal) + n


def _ranking(tokens: Tokens, ends: Positions) -> Ranking:
    """What followed the occurrences that agree with the drafted path, the most recent first."""

    def ranking(path: tuple[int, ...]) -> list[tuple[int, float]]:
        following = ends
        for token in path:
            following = following[tokens[following] == token] + 1
            following = following[following < len(tokens)]
        recent_first = tokens[following][::-1].tolist()
        counts = Counter(recent_first)
        return [(token, counts[token] / len(following)) for token in dict.fromkeys(recent_first)]

    return ranking
