"""Suffix decoding: continue the text as its longest repeated suffixes went on before.

Oliaro et al. 2024 (arXiv 2411.04975). Every suffix of the text that occurred before, in the
request's own prompt and output or in earlier outputs, proposes the most frequent continuations; a
suffix of p tokens at most factor · p + offset of them, while the product of frequencies reaches
`min_token_prob`. The proposal whose products sum highest wins. It draws nothing, so q is a point
mass, and costs host time only. The proposal for γ is a prefix of the proposal for any larger γ.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import torch

from calibration.errors import CalibrationError
from calibration.proposers.protocol import Proposal, Topology
from calibration.proposers.ranked_tree import (
    RankedTree,
    Ranking,
    ranked_chain,
    ranked_tree,
    tree_proposal,
)
from calibration.proposers.suffix_automaton import SuffixAutomaton
from simcore.acceptance.topology.sibling_rules import SiblingRule
from simcore.profile.schema import Sampling

TokenArray = npt.NDArray[np.int64]
Build = Callable[[Ranking], RankedTree]


@dataclass(frozen=True)
class SuffixSettings:
    """How far a match reaches; defaults of vLLM and ArcticInference where they have them."""

    max_match_tokens: int = 64  # longer matches count as so long
    max_draft_tokens: int = 24  # longest chain that is ever considered
    factor: float = 1.0
    offset: float = 0.0
    min_token_prob: float = 0.1  # of a whole path
    # Of earlier outputs; the older half goes when it is full. 0: nothing is learnt from others.
    max_remembered_tokens: int = 100_000
    max_texts: int = 256  # requests whose automata are kept, about 400 bytes a token

    def __post_init__(self) -> None:
        counts = (
            self.max_match_tokens,
            self.max_draft_tokens,
            self.max_texts,
        )
        if (
            min(counts) < 1
            or min(self.max_remembered_tokens, self.factor) < 0
            or not 0.0 <= self.min_token_prob <= 1.0
        ):
            raise CalibrationError(
                f"suffix decoding with {self}; expected counts of at least 1, factor and "
                "max_remembered_tokens of at least 0 and a probability between 0 and 1"
            )

    def draft_limit(self, match_tokens: int) -> int:
        """Tokens that a match of this length may propose."""
        return int(self.factor * min(match_tokens, self.max_match_tokens) + self.offset)


class SuffixProposer:
    """Looks up the suffixes of each request in its own text and in remembered outputs.

    What it proposes depends on the text alone. The automata of the latest texts are kept and found
    again by what they hold, so that requests may come, go, change places, or be asked one by one.
    """

    name = "suffix"
    fills_dynamic_trees = True

    def __init__(self, settings: SuffixSettings | None = None) -> None:
        self.settings = settings or SuffixSettings()
        self._texts: list[_Text] = []  # the latest last
        self._outputs: deque[Sequence[int]] = deque()
        self._earlier = SuffixAutomaton()

    def remember(self, output_ids: Sequence[int]) -> None:
        """Learn the output of a finished request."""
        if self.settings.max_remembered_tokens == 0:
            return
        self._outputs.append(output_ids)
        self._learn(output_ids)
        if self._earlier.num_tokens > self.settings.max_remembered_tokens:
            self._forget_older_half()

    def proposes_point_mass(self, sampling: Sampling) -> bool:
        """Always: frequencies choose, nothing is drawn."""
        del sampling
        return True

    def siblings(self, sampling: Sampling) -> SiblingRule:
        """The most frequent ones."""
        del sampling
        return SiblingRule.TOP_K

    def propose(
        self,
        token_ids: torch.Tensor,
        num_speculative_tokens: int,
        sampling: Sampling,
        generators: list[torch.Generator],
    ) -> Proposal:
        """Chains for `token_ids` [B, S]; as wide as the longest proposal of the batch."""
        del sampling, generators
        best = self._best_trees(token_ids, partial(ranked_chain, self.settings.max_draft_tokens))
        rows = [list(tree.token_ids[:num_speculative_tokens]) for tree in best]
        width = max(map(len, rows), default=0)
        padded = [[*row, *[0] * (width - len(row))] for row in rows]
        drafts = torch.tensor(padded, dtype=torch.int64).view(len(rows), width)
        return Proposal(drafts, tuple(map(len, rows)), None)

    def propose_tree(
        self,
        token_ids: torch.Tensor,
        topology: Topology,
        sampling: Sampling,
        generators: list[torch.Generator],
    ) -> Proposal:
        """Trees for `token_ids` [B, S]: continuations by frequency, the best match's."""
        del sampling, generators
        return tree_proposal(self._best_trees(token_ids, partial(ranked_tree, topology)))

    def _best_trees(self, token_ids: torch.Tensor, build: Build) -> list[RankedTree]:
        return [self._best_tree(self._text(row), build) for row in token_ids.numpy()]

    def _best_tree(self, text: "_Text", build: Build) -> RankedTree:
        best = RankedTree((), (), 0.0)
        for automaton, state, match_tokens in self._matches(text):
            limit = self.settings.draft_limit(match_tokens)
            if limit <= best.expected_accepted:
                continue  # products of one depth sum to 1 at most
            found = build(_ranking(automaton, state, limit, self.settings.min_token_prob))
            if found.expected_accepted > best.expected_accepted:
                best = found
        return best

    def _matches(self, text: "_Text") -> Iterator[tuple[SuffixAutomaton, int, int]]:
        """(automaton, state, tokens of the match), the text's own first, longest first."""
        longest = self.settings.max_match_tokens
        tail = text.tokens[-longest:].tolist()
        own, earlier = text.automaton.repeats(), self._earlier.matches(tail)
        for automaton, found in ((text.automaton, own), (self._earlier, earlier)):
            # Of matches beyond the limit, which all count alike, the shortest occurred most often.
            beyond = [entry for entry in found if entry[1] >= longest][-1:]
            for state, match_tokens in [*beyond, *(e for e in found if e[1] < longest)]:
                yield automaton, state, match_tokens

    def _text(self, tokens: TokenArray) -> "_Text":
        """The automaton of this text: that of an earlier one which it continues, or a new one."""
        continued = [text for text in self._texts if text.begins(tokens)]
        found = max(continued, key=lambda text: len(text.tokens), default=None) or _Text()
        if continued:
            self._texts.remove(found)
        found.extend(tokens)
        self._texts = [*self._texts, found][-self.settings.max_texts :]
        return found

    def _learn(self, output_ids: Sequence[int]) -> None:
        self._earlier.start_text()
        self._earlier.append(output_ids)

    def _forget_older_half(self) -> None:
        kept_tokens = self._earlier.num_tokens
        while kept_tokens > self.settings.max_remembered_tokens // 2 and len(self._outputs) > 1:
            kept_tokens -= len(self._outputs.popleft())
        self._earlier = SuffixAutomaton()
        for output_ids in self._outputs:
            self._learn(output_ids)


class _Text:
    """One request's text and its automaton."""

    def __init__(self) -> None:
        self.tokens: TokenArray = np.empty(0, dtype=np.int64)
        self.automaton = SuffixAutomaton()

    def begins(self, tokens: TokenArray) -> bool:
        """Whether `tokens` [S] continue this text."""
        size = len(self.tokens)
        if size > len(tokens) or self.tokens[-1] != tokens[size - 1]:
            return False
        return bool((tokens[:size] == self.tokens).all())

    def extend(self, tokens: TokenArray) -> None:
        """Grow to `tokens` [S], which begin with what there is."""
        self.automaton.append(tokens[len(self.tokens) :].tolist())
        self.tokens = tokens.copy()


def _ranking(automaton: SuffixAutomaton, state: int, limit: int, min_product: float) -> Ranking:
    """Continuations of a match by frequency, at most `limit` deep and no product below."""
    reached: dict[tuple[int, ...], tuple[int, float]] = {(): (state, 1.0)}

    def ranking(path: tuple[int, ...]) -> list[tuple[int, float]]:
        here, product = reached[path]
        if len(path) >= limit:
            return []
        ranked = []
        for following in automaton.continuations(here):
            longer = product * following.share
            if longer < min_product:
                break
            reached[*path, following.token] = (following.state, longer)
            ranked.append((following.token, following.share))
        return ranked

    return ranking
