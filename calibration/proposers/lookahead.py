"""Lookahead decoding (Fu et al. 2024, 2402.02057): n-grams from a Jacobi window, no draft model.

A request keeps a window of W columns and up to N - 1 levels of guessed tokens. Column i begins
i + 1 positions behind the root and goes one position further with every level; its token of a level
is what the target said after the token above it, one step before. The target's answer to the last
level completes an n-gram in every column. N-grams that begin with the root's token are candidates.

As a tree: the first level is a chain below the root, each column a chain below its first token.
Every node sees its own ancestry, so the window rides in the same pass as the candidates.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from calibration.errors import CalibrationError
from calibration.paged.query import IntArray
from calibration.proposers.token_trie import token_trie
from calibration.proposers.tree_protocol import (
    Asked,
    Draft,
    PromptChunk,
    Reconciled,
    Topology,
)
from simcore.acceptance.tree import ROOT, DraftTree, wide_chains
from simcore.profile.schema import Sampling

SEED_STREAM = 7


@dataclass(frozen=True)
class LookaheadShape:
    """W columns, n-grams of N tokens, at most G of them verified in a cycle."""

    window: int
    ngram: int
    guesses: int

    def __post_init__(self) -> None:
        if self.window < 1 or self.ngram < 2 or self.guesses < 1:  # noqa: PLR2004 - a pair
            raise CalibrationError(
                f"lookahead with window {self.window}, n-grams of {self.ngram} and "
                f"{self.guesses} guesses; expected at least 1, 2 and 1"
            )

    @property
    def num_window_tokens(self) -> int:
        """Most nodes beyond the candidates: slots to reserve ahead."""
        return self.window * (self.ngram - 1)

    @property
    def topology(self) -> DraftTree:
        """Largest tree of candidates."""
        return wide_chains(self.guesses, self.ngram - 1)


@dataclass
class _Window:
    """One request's guesses and the n-grams it has seen."""

    levels: list[list[int]]  # each [W], at most N - 1 of them
    ages: list[int]  # [W] steps since a column was guessed: after N - 2 only its first token is
    pool: dict[int, OrderedDict[tuple[int, ...], None]] = field(default_factory=dict)
    rng: np.random.Generator = field(default_factory=np.random.default_rng)


def _root_children(topology: Topology) -> int:
    """Most n-grams that a topology takes in: a chain is one."""
    if isinstance(topology, DraftTree):
        return topology.parents.count(ROOT)
    return topology.topk


class LookaheadProposer:
    """Window and pool of every request; all of it is host work beside the target's pass."""

    name = "lookahead"

    def __init__(self, shape: LookaheadShape, *, seed: int = 0) -> None:
        self.shape = shape
        self._seed = seed
        self._windows: dict[int, _Window] = {}
        self._texts: dict[int, IntArray] = {}

    def read(self, chunks: Sequence[PromptChunk]) -> None:
        """Nothing: the first window is guessed from the text when it is asked for."""

    def propose(self, asked: Sequence[Asked], sampling: Sampling) -> list[Draft]:
        """The pool's n-grams below the root, and the window. Drafts are point masses."""
        del sampling
        return [self._propose_one(one) for one in asked]

    def _propose_one(self, asked: Asked) -> Draft:
        window = self._windows.get(asked.request)
        if window is None:
            window = self._windows[asked.request] = self._begin(asked)
        self._texts[asked.request] = asked.token_ids
        depth = min(self.shape.ngram - 1, asked.topology.depth)
        found = window.pool.get(int(asked.token_ids[-1]), OrderedDict())
        most = min(self.shape.guesses, _root_children(asked.topology))
        guesses = [tail[:depth] for tail in reversed(found)][:most]
        parents, tokens = token_trie(guesses, asked.topology.num_nodes)
        window_parents, window_tokens = self._window_nodes(window, len(parents))
        return Draft(parents, tokens, None, window_parents, window_tokens)

    def _begin(self, asked: Asked) -> _Window:
        rng = np.random.default_rng((self._seed, SEED_STREAM, asked.request))
        first = rng.choice(asked.token_ids, self.shape.window).tolist()
        return _Window([first], [0] * self.shape.window, rng=rng)

    def _window_nodes(
        self, window: _Window, num_candidates: int
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Parents and tokens, level by level, numbered behind the candidates."""
        width, parents = self.shape.window, []
        for level in range(len(window.levels)):
            for column in range(width):
                above = num_candidates + (level - 1) * width + column
                beside = num_candidates + column - 1
                parents.append(above if level > 0 else beside if column > 0 else -1)
        return tuple(parents), tuple(token for level in window.levels for token in level)

    def reconcile(self, cycles: Sequence[Reconciled]) -> None:
        """Take in the target's answers: new n-grams, and the window one level on."""
        for cycle in cycles:
            window = self._windows.get(cycle.request)
            if window is not None and cycle.draft.window_parents:
                self._advance(window, cycle)

    def _advance(self, window: _Window, cycle: Reconciled) -> None:
        width = self.shape.window
        answers = cycle.choices[-width:].tolist()  # after the last level's nodes
        is_full = len(window.levels) == self.shape.ngram - 1
        if is_full:
            for column in range(width):
                first, *rest = (level[column] for level in window.levels)
                if window.ages[column] >= self.shape.ngram - 2:
                    self._remember(window, first, (*rest, answers[column]))
            window.levels = window.levels[1:]
        window.levels.append(answers)
        window.ages = [age + 1 for age in window.ages]
        # Guesses keep their places in the text while the root moves on by 1 + A. Without its first
        # level a window begins one position later by itself.
        self._shift(window, len(cycle.path) + (0 if is_full else 1), cycle.request)

    def _remember(self, window: _Window, first: int, tail: tuple[int, ...]) -> None:
        """The newest n-gram last; the oldest beyond G is forgotten."""
        tails = window.pool.setdefault(first, OrderedDict())
        tails.pop(tail, None)
        tails[tail] = None
        if len(tails) > self.shape.guesses:
            tails.popitem(last=False)

    def _shift(self, window: _Window, columns: int, request: int) -> None:
        gone = min(columns, self.shape.window)
        for index, level in enumerate(window.levels):
            guessed = window.rng.choice(self._texts[request], gone).tolist()
            window.levels[index] = level[gone:] + guessed
        window.ages = window.ages[gone:] + [0] * gone

    def learn(self, output_ids: Sequence[int]) -> None:
        """Nothing: a request draws on no other's text."""

    def forget(self, request: int) -> None:
        """Window and pool are the request's own."""
        self._windows.pop(request, None)
        self._texts.pop(request, None)
