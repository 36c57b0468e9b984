"""Values of static trees: survival, monotony, and the joint law against the product."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcore.acceptance.survival import mean_emitted_tokens, survival_from_conditional
from simcore.acceptance.topology.node_value import (
    expected_tokens,
    node_probabilities,
    path_products,
    positional_rates,
    tree_survival,
)
from simcore.acceptance.topology.replay import node_shares
from simcore.acceptance.tree import DraftTree, chain
from tests.acceptance.topology.strategies import POSITIONAL, TREES, rank_rows


def test_a_fork_is_worth_one_plus_the_products_along_its_paths():
    fork = DraftTree((-1, -1, 0, 0, 1))
    found = node_probabilities(fork, [[0.6, 0.3], [0.5, 0.2]])
    assert found == pytest.approx([0.6, 0.3, 0.3, 0.12, 0.15])
    assert expected_tokens(found) == pytest.approx(2.47)
    assert tree_survival(fork, found) == pytest.approx([0.9, 0.57])


@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=8))
def test_a_chain_is_worth_what_its_conditional_rates_say(rates):
    found = node_probabilities(chain(len(rates)), [[rate] for rate in rates])
    survival = survival_from_conditional(rates)
    assert tree_survival(chain(len(rates)), found) == pytest.approx(survival)
    assert expected_tokens(found) == pytest.approx(mean_emitted_tokens(survival))


@given(TREES, POSITIONAL)
def test_survival_never_rises_with_depth_and_starts_at_most_at_one(tree, rates):
    survival = tree_survival(tree, node_probabilities(tree, rates))
    assert survival[0] <= 1 + 1e-9
    assert (np.diff(survival) <= 1e-9).all()


@given(TREES, POSITIONAL)
def test_one_more_node_never_lowers_the_value(tree, rates):
    before = expected_tokens(node_probabilities(tree, rates))
    assert 1.0 <= before <= 1 + tree.depth + 1e-9
    for parent in range(-1, tree.num_nodes):
        grown = DraftTree((*tree.parents, parent))
        assert expected_tokens(node_probabilities(grown, rates)) >= before - 1e-12


@given(TREES, rank_rows(4))
def test_joint_shares_are_the_products_of_their_own_conditionals(tree, ranks):
    shares = node_shares(tree, ranks)
    before = np.array([1.0 if parent < 0 else shares[parent] for parent in tree.parents])
    conditional = np.divide(shares, before, out=np.zeros_like(shares), where=before > 0)
    assert path_products(tree, conditional) == pytest.approx(shares)
    assert (np.diff(tree_survival(tree, shares)) <= 1e-12).all()


@pytest.mark.parametrize("rates", [[[0.7, 0.5]], [[-0.1]], [[float("nan")]], []])
def test_rates_that_no_node_can_have_are_refused(rates):
    with pytest.raises(ValueError, match="positional acceptance"):
        positional_rates(rates)


def test_conditional_rates_need_one_entry_a_node():
    with pytest.raises(ValueError, match="expected 2"):
        path_products(chain(2), [0.5])
