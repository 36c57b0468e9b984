"""Lookahead's window walks with the text, and its n-grams are what the target said."""

from itertools import pairwise

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install .[calibration]")

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from calibration.errors import CalibrationError
from calibration.paged.query import node_depths
from calibration.proposers.lookahead import LookaheadProposer, LookaheadShape
from calibration.proposers.token_trie import token_trie
from calibration.proposers.tree_protocol import Asked, Reconciled
from simcore.acceptance.tree import DraftTree
from simcore.profile.schema import Sampling

pytestmark = pytest.mark.torch
PROPERTIES = settings(derandomize=True, deadline=None, max_examples=60)


def run(shape, says, steps, accepts=lambda step, draft: 0, text=(5, 3, 9)):
    """(proposer, drafts, text) after `steps` cycles; `says(position, token)`: the target's answer.

    `position` is that of the token that follows.
    """
    proposer, text, drafts = LookaheadProposer(shape, seed=1), list(text), []
    for step in range(steps):
        asked = Asked(0, np.array(text), shape.topology, torch.Generator())
        (draft,) = proposer.propose([asked], Sampling())
        drafts.append(draft)
        parents = draft.parents + draft.window_parents
        tokens = [text[-1], *draft.token_ids, *draft.window_token_ids]
        depths = node_depths(parents)
        root = len(text) - 1
        answers = [says(root + d + 1, token) for d, token in zip(depths, tokens, strict=True)]
        path = tuple(range(accepts(step, draft)))
        kept = [draft.token_ids[node] for node in path]
        following = says(root + len(path) + 1, (kept or text)[-1])
        choices = np.array(answers, dtype=np.int64)
        cycle = Reconciled(0, root, draft, path, following, choices)
        proposer.reconcile([cycle])
        text += [*kept, following]
    return proposer, drafts, text


@given(
    window=st.integers(1, 5),
    ngram=st.integers(2, 5),
    accepted=st.lists(st.integers(0, 3), min_size=1, max_size=12),
)
@PROPERTIES
def test_guesses_keep_their_places_in_the_text(window, ngram, accepted):
    # The target says each place's own number: a guess at the wrong place has another number.
    shape = LookaheadShape(window, ngram, 3)

    def accepts(step, draft):
        chain = 0
        while chain < draft.num_candidates and draft.parents[chain] == chain - 1:
            chain += 1
        return min(accepted[step], chain)

    proposer, _, text = run(shape, lambda p, token: 1000 + p, len(accepted), accepts)
    window_now, root = proposer._windows[0], len(text) - 1
    levels = window_now.levels
    for column, age in enumerate(window_now.ages):
        for level in range(max(len(levels) - age, 0), len(levels)):  # older ones are guesses
            assert levels[level][column] == 1000 + root + 1 + column + level


@given(window=st.integers(1, 6), ngram=st.integers(2, 5))
@PROPERTIES
def test_ngrams_are_runs_of_the_targets_own_answers(window, ngram):
    shape = LookaheadShape(window, ngram, 4)
    proposer, _, _ = run(shape, lambda position, token: (3 * token + 1) % 50, 4 * ngram)
    pool = proposer._windows[0].pool
    for first, tails in pool.items():
        for tail in tails:
            assert len(tail) == ngram - 1
            for before, after in pairwise((first, *tail)):
                assert after == (3 * before + 1) % 50
        assert len(tails) <= shape.guesses


def test_ngrams_that_begin_with_the_root_become_candidates():
    shape = LookaheadShape(4, 3, 2)
    _, drafts, _ = run(shape, lambda position, token: (token + 1) % 4, 8, text=(0, 1, 2, 3))
    found = [draft for draft in drafts if draft.num_candidates]
    assert found
    assert all(draft.token_ids[1] == (draft.token_ids[0] + 1) % 4 for draft in found)


def test_the_window_fills_level_by_level_and_then_stays():
    shape = LookaheadShape(3, 4, 2)
    _, drafts, _ = run(shape, lambda position, token: token + 1, 6)
    assert [len(draft.window_parents) for draft in drafts] == [3, 6, 9, 9, 9, 9]
    assert all(len(d.window_parents) <= shape.num_window_tokens for d in drafts)


def test_columns_are_chains_below_the_first_level():
    shape = LookaheadShape(3, 3, 2)
    _, drafts, _ = run(shape, lambda position, token: token + 1, 3)
    m = drafts[-1].num_candidates
    assert drafts[-1].window_parents == (-1, m, m + 1, m, m + 1, m + 2)


@given(
    chains=st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=4), max_size=5),
    most=st.integers(0, 12),
)
@PROPERTIES
def test_a_trie_holds_its_chains_once(chains, most):
    parents, tokens = token_trie(chains, most)
    assert len(parents) == len(tokens) <= most
    if parents:
        DraftTree(parents)
    paths = set()
    for node in range(len(tokens)):
        path, at = [], node
        while at != -1:
            path.append(tokens[at])
            at = parents[at]
        paths.add(tuple(reversed(path)))
    assert len(paths) == len(tokens)
    prefixes = {tuple(c[:end]) for c in chains for end in range(1, len(c) + 1)}
    assert paths <= prefixes
    if most >= len(prefixes):
        assert paths == prefixes


def test_a_window_without_columns_is_refused():
    with pytest.raises(CalibrationError, match="expected at least 1, 2 and 1"):
        LookaheadShape(0, 3, 2)
