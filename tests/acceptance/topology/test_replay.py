"""Trees over recordings: the chain, joint shares, cycle starts, what a rule needs recorded."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcore.acceptance.topology.node_value import (
    expected_tokens,
    node_probabilities,
    tree_survival,
)
from simcore.acceptance.topology.recorded_children import dense_lists, recorded_children
from simcore.acceptance.topology.replay import (
    accepted_depths,
    accepted_nodes,
    cycle_count_bounds,
    cycles_of,
    node_shares,
    rank_rates,
    tree_cycles,
)
from simcore.acceptance.topology.sibling_rules import SiblingRule
from simcore.acceptance.trace import RANK_ABSENT, TraceSet, walk
from simcore.acceptance.tree import DraftTree, accepted_depth, chain
from simcore.errors import TreeError
from simcore.matching import load_traces, matching_records
from tests.acceptance.topology.strategies import TREES, rank_rows
from tests.factories import make_scenario, sampled


@pytest.fixture(scope="module")
def greedy(recorded_profile) -> TraceSet:
    return _traces(recorded_profile, make_scenario(recorded_profile))


@pytest.fixture(scope="module")
def stochastic(recorded_profile) -> TraceSet:
    return _traces(recorded_profile, make_scenario(recorded_profile, **sampled()))


def _traces(stored, scenario):
    found = load_traces(stored, matching_records(stored, scenario, "draft_model"))
    assert found is not None
    return found


def invented(ranks, requests=1) -> TraceSet:
    """Requests of equal length with these ranks, chains accepted accordingly."""
    ranks = np.asarray(ranks, dtype=np.int16)
    length = len(ranks) // requests
    return TraceSet(
        domain_names=("all",),
        accepted=accepted_depths(chain(ranks.shape[1]), ranks).astype(np.int8),
        proposed=np.full(len(ranks), ranks.shape[1], dtype=np.int8),
        ratio=np.zeros((len(ranks), 0)),
        offset=np.arange(0, length * requests, length, dtype=np.int64),
        output_tokens=np.full(requests, length, dtype=np.int64),
        prompt_tokens=np.ones(requests, dtype=np.int64),
        domain=np.zeros(requests, dtype=np.int64),
        max_gamma=ranks.shape[1],
        rank=ranks,
    )


@given(TREES, rank_rows(5))
def test_all_rows_at_once_equal_the_step_by_step_descent(tree, ranks):
    children = tree.children()
    assert accepted_depths(tree, ranks).tolist() == [
        accepted_depth(children, row[: tree.depth]) for row in ranks
    ]


@given(TREES, rank_rows(5))
def test_accepted_nodes_form_a_path(tree, ranks):
    for row in accepted_nodes(tree, ranks):
        before = -1
        for node in row[row >= 0]:
            assert tree.parents[node] == before
            before = node


@pytest.mark.parametrize("gamma", [1, 3, 8])
@pytest.mark.parametrize("start", [0, 1])
def test_replay_of_a_chain_as_a_tree_equals_the_walk(greedy, gamma, start):
    expected = walk(greedy, gamma, start=start)
    found = tree_cycles(greedy, chain(gamma), greedy.rank, start=start)
    assert found.accepted.tolist() == expected.accepted.tolist()
    assert found.request.tolist() == expected.request.tolist()


def test_cycles_name_the_rows_that_they_begin_at(greedy):
    tree = DraftTree((-1, -1, 0, 0, 1))
    chosen = np.array([3, 1, 7])
    found = tree_cycles(greedy, tree, greedy.rank, requests=chosen)
    depths = accepted_depths(tree, greedy.rank)
    assert (depths[found.rows] == found.accepted).all()
    for place, request in enumerate(chosen):
        rows = found.rows[found.request == place]
        assert rows[0] == greedy.offset[request] + 1
        assert (np.diff(rows) == depths[rows[:-1]] + 1).all()
        assert rows[-1] + depths[rows[-1]] + 1 >= (
            greedy.offset[request] + greedy.output_tokens[request]
        )


@given(TREES, rank_rows(5))
def test_the_joint_value_is_the_mean_of_the_accepted_depths(tree, ranks):
    shares = node_shares(tree, ranks)
    depths = accepted_depths(tree, ranks)
    assert expected_tokens(shares) == pytest.approx(1 + depths.mean())
    assert tree_survival(tree, shares) == pytest.approx(
        [(depths >= level).mean() for level in range(1, tree.depth + 1)]
    )


@given(st.integers(1, 5).flatmap(rank_rows), st.integers(1, 3))
def test_rates_by_rank_are_rates_and_predict_a_chain_exactly(ranks, width):
    rates = rank_rates(ranks, width)
    assert rates.shape == (ranks.shape[1], width)
    assert (rates.sum(axis=1) <= 1 + 1e-12).all()
    straight = chain(ranks.shape[1])
    alone = rank_rates(ranks, 1)
    assert node_probabilities(straight, alone) == pytest.approx(node_shares(straight, ranks))


def test_independence_is_wrong_where_easy_and_hard_cycles_mix():
    # Half of the cycles take every top candidate, half none: the joint law knows, the product not.
    ranks = np.array([[0, 0, 0], [9, 9, 9]] * 20, dtype=np.int16)
    tree = chain(3)
    joint = expected_tokens(node_shares(tree, ranks))
    pooled = [[(ranks[:, 0] == 0).mean()]] * 3  # one vector for every depth
    assert joint == pytest.approx(2.5)
    assert expected_tokens(node_probabilities(tree, pooled)) == pytest.approx(1.875)


@given(rank_rows(3, highest=2), st.integers(0, 2))
def test_every_walk_between_the_bounds_has_a_count_between_them(ranks, spread):
    traces = invented(np.vstack([ranks, ranks]))
    upper = accepted_depths(DraftTree((-1, -1, 0, 1, 2)), traces.rank)
    lower = np.maximum(upper - spread, 0)
    fewest, most = cycle_count_bounds(traces, lower, upper)
    rng = np.random.default_rng(0)
    for _ in range(5):
        depths = rng.integers(lower, upper + 1)
        count = len(cycles_of(traces, depths).accepted)
        assert fewest <= count <= most
    if spread == 0:
        assert fewest == most


def test_a_proposer_that_found_nothing_accepts_nothing(greedy):
    silent = replace(greedy, proposed=np.zeros_like(greedy.proposed))
    assert tree_cycles(silent, chain(3), greedy.rank).accepted.max() == 0


def test_ranks_decide_the_top_k_rule_for_every_tree(stochastic):
    assert recorded_children(stochastic, SiblingRule.TOP_K, 9) is stochastic.rank
    with pytest.raises(TreeError, match="no ranks"):
        recorded_children(replace(stochastic, rank=None), SiblingRule.TOP_K, 2)


@pytest.mark.parametrize("rule", [SiblingRule.SPECINFER, SiblingRule.SEQUOIA])
def test_the_ratio_decides_other_rules_for_chains_alone(stochastic, greedy, rule):
    children = recorded_children(stochastic, rule, 1, seed=3)
    expected = np.minimum(stochastic.ratio, 1.0)
    assert set(np.unique(children)) == {0, RANK_ABSENT}
    # One coin an output position, so the first depth alone has independent rows.
    error = np.sqrt((expected[:, 0] * (1 - expected[:, 0])).sum()) / len(expected)
    assert abs((children[:, 0] == 0).mean() - expected[:, 0].mean()) < 4 * error
    with pytest.raises(TreeError, match=f"'{rule}_child'"):
        recorded_children(stochastic, rule, 2)
    with pytest.raises(TreeError, match="no q/p"):
        recorded_children(greedy, rule, 1)
    drawn = np.zeros_like(stochastic.rank)
    assert recorded_children(stochastic, rule, 4, drawn=drawn) is drawn


def test_the_luck_of_an_output_position_is_the_same_at_every_depth(stochastic):
    sure = replace(stochastic, ratio=np.full_like(stochastic.ratio, 0.5))
    children = recorded_children(sure, SiblingRule.SPECINFER, 1)
    assert (children[:-1, 1] == children[1:, 0]).all()


def test_a_list_column_is_padded_and_cut_and_missing_where_never_filled():
    lists = pa.array([[1, 2], None, [], [3, 4, 5]], type=pa.list_(pa.int16()))
    table = pa.table({"some": lists, "none": pa.array([None] * 4, type=pa.list_(pa.int16()))})
    found = dense_lists(table, "some", 2, -7)
    assert found is not None
    assert found.tolist() == [[1, 2], [-7, -7], [-7, -7], [3, 4]]
    assert dense_lists(table, "none", 2, -7) is None
    assert dense_lists(table, "absent", 2, -7) is None
