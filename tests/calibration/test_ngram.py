"""Prompt lookup proposes what followed the most recent match, and nothing else."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="torch is not installed: pip install .[calibration]")

from calibration.errors import CalibrationError
from calibration.proposers.ngram import NgramProposer, lookup
from calibration.proposers.protocol import Proposal
from simcore.acceptance.topology.dynamic_tree import DynamicShape
from simcore.acceptance.tree import DraftTree, chain
from simcore.profile.schema import Sampling

pytestmark = pytest.mark.torch
TEXTS = st.lists(st.integers(0, 3), min_size=1, max_size=24)
PROPERTIES = settings(derandomize=True, deadline=None, max_examples=150)


def naive(tokens: list[int], max_n: int, min_n: int) -> list[int]:
    for n in range(max_n, min_n - 1, -1):
        for start in range(len(tokens) - n - 1, -1, -1):
            if tokens[start : start + n] == tokens[len(tokens) - n :]:
                return tokens[start + n :]
    return []


@given(tokens=TEXTS, min_n=st.integers(1, 2), extra=st.integers(0, 2))
@PROPERTIES
def test_lookup_equals_a_plain_search_from_the_end(tokens, min_n, extra):
    found = lookup(np.array(tokens), min_n + extra, min_n)
    assert found.tolist() == naive(tokens, min_n + extra, min_n)


@given(tokens=TEXTS, gamma=st.integers(1, 8))
@PROPERTIES
def test_a_shorter_draft_is_a_prefix_of_a_longer_one(tokens, gamma):
    ids = torch.tensor([tokens])
    short = NgramProposer().propose(ids, gamma, Sampling(), [])
    long = NgramProposer().propose(ids, 8, Sampling(), [])
    assert short.lengths[0] == min(gamma, long.lengths[0])
    assert short.token_ids.tolist()[0] == long.token_ids.tolist()[0][:gamma]


@given(rows=st.lists(st.lists(st.integers(0, 3), min_size=9, max_size=9), min_size=1, max_size=4))
@PROPERTIES
def test_rows_of_a_batch_are_looked_up_independently(rows):
    together = NgramProposer().propose(torch.tensor(rows), 4, Sampling(), [])
    for row, tokens in enumerate(rows):
        alone = NgramProposer().propose(torch.tensor([tokens]), 4, Sampling(), [])
        assert together.lengths[row] == alone.lengths[0]
        drafts = together.token_ids[row, : together.lengths[row]]
        assert drafts.tolist() == alone.token_ids[0].tolist()


def test_the_longest_ngram_wins_over_a_more_recent_shorter_match():
    tokens = np.array([1, 2, 3, 7, 9, 3, 8, 1, 2, 3])
    assert lookup(tokens, 3, 1)[:1].tolist() == [7]
    assert lookup(tokens, 1, 1)[:1].tolist() == [8]


def test_without_a_match_nothing_is_proposed():
    assert NgramProposer().propose(torch.tensor([[1, 2, 3]]), 4, Sampling(), []).lengths == (0,)


def test_sizes_out_of_order_are_refused():
    with pytest.raises(CalibrationError, match="expected 1 <= min_n <= max_n"):
        NgramProposer(max_n=1, min_n=2)


@given(tokens=TEXTS, gamma=st.integers(1, 6))
@PROPERTIES
def test_a_chain_as_a_tree_is_the_chain(tokens, gamma):
    ids = torch.tensor([tokens])
    drafts = NgramProposer().propose(ids, gamma, Sampling(), []).candidates()
    assert NgramProposer().propose_tree(ids, chain(gamma), Sampling(), []).candidates() == drafts


def test_a_tree_holds_what_followed_other_occurrences_the_most_recent_first():
    tokens = [1, 5, 6, 1, 7, 8, 1, 5, 9, 1]
    asked = DraftTree((-1, -1, -1, 0, 0, 1))
    proposal = NgramProposer(1, 1).propose_tree(torch.tensor([tokens]), asked, Sampling(), [])
    (candidates,) = proposal.candidates()
    assert candidates.parents == (-1, -1, 0, 0, 1)
    assert candidates.token_ids == (5, 7, 9, 6, 8)


def test_a_proposal_whose_trees_do_not_fit_its_lengths_is_refused():
    drafts = torch.tensor([[3, 4], [5, 0]])
    assert Proposal(drafts, (2, 1), None, ((-1, -1), (-1,))).candidates()[1].token_ids == (5,)
    with pytest.raises(ValueError, match="trees of"):
        Proposal(drafts, (2, 1), None, ((-1, 0), (-1, 0)))


def test_dynamic_trees_are_refused_for_want_of_likelihoods():
    with pytest.raises(CalibrationError, match="expected a static tree"):
        NgramProposer().propose_tree(torch.tensor([[1, 1]]), DynamicShape(2, 2, 3), Sampling(), [])
