"""Sequoia's programme and Medusa's growth: brute force, golden values, published figures."""

import functools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcore.acceptance.topology.greedy_tree import frequent_tree, head_accuracies, medusa_tree
from simcore.acceptance.topology.node_value import expected_tokens, node_probabilities
from simcore.acceptance.topology.paths import tree_from_paths
from simcore.acceptance.topology.replay import node_shares
from simcore.acceptance.topology.sequoia import best_trees, serial_cycle_s
from simcore.acceptance.tree import chain
from tests.acceptance.topology.strategies import POSITIONAL, rank_rows

# Infini-AI-Lab/Sequoia, acceptance-rate-vector.pt: p of the b-th child; the rest is rejection.
SEQUOIA_RATES = (
    0.6342, 0.1079, 0.0570, 0.0225, 0.0195, 0.0150, 0.0045, 0.0030, 0.0120, 0.0045, 0.0075,
    0.0045, 0.0060, 0.0030, 0.0015, 0.0030, 0.0015, 0.0030, 0.0, 0.0030, 0.0030, 0.0030, 0.0,
    0.0015, 0.0, 0.0015, 0.0, 0.0, 0.0, 0.0015, 0.0015, 0.0015,
)  # fmt: skip
GOLDEN_LEVELS = (2, 3, 4, 5, 6, 7, 8, 10, 12)
# The shipped programme's values by nodes; nodes and levels count the root.
GOLDEN = {
    4: (1.799, 2.144, 2.291),
    8: (1.861, 2.374, 2.593, 2.698, 2.732, 2.732, 2.732),
    16: (1.903, 2.521, 2.865, 3.013, 3.088, 3.125, 3.130, 3.130, 3.130),
    32: (1.925, 2.626, 3.056, 3.305, 3.412, 3.463, 3.490, 3.501, 3.501),
    64: (None, 2.707, 3.223, 3.526, 3.702, 3.788, 3.824, 3.852, 3.856),
    128: (None, 2.758, 3.355, 3.736, 3.958, 4.086, 4.151, 4.192, 4.202),
}


@functools.cache
def _all_trees(num_nodes):
    """Every tree of so many nodes as sets of rank paths: a forest by the size of its last tree."""
    return [tuple(paths) for paths in _forests(num_nodes)]


def _forests(num_nodes):
    if num_nodes == 0:
        return [[]]
    found = []
    for last in range(1, num_nodes + 1):
        for before in _forests(num_nodes - last):
            place = sum(len(path) == 1 for path in before)
            for below in _forests(last - 1):
                found.append([*before, (place,), *((place, *path) for path in below)])
    return found


def _value(paths, rates):
    return 1.0 + sum(
        np.prod([rates[depth][rank] for depth, rank in enumerate(path)])
        for path in paths
        if len(path) <= len(rates) and max(path) < rates.shape[1]
    )


def test_there_are_catalan_many_trees_of_each_size():
    assert [len(_all_trees(size)) for size in range(1, 6)] == [1, 2, 5, 14, 42]


@given(POSITIONAL, st.integers(1, 6), st.integers(1, 4))
def test_the_programme_finds_the_best_of_all_trees(rates, num_nodes, depth):
    depth = min(depth, len(rates))
    best = max(
        _value(paths, rates[:depth])
        for size in range(1, num_nodes + 1)
        for paths in _all_trees(size)
    )
    solved = best_trees(rates[:depth], num_nodes, depth)
    assert solved.expected_tokens[num_nodes, depth] == pytest.approx(best)
    tree = solved.tree(num_nodes, depth)
    assert tree.num_nodes <= num_nodes
    assert tree.depth <= depth
    assert expected_tokens(node_probabilities(tree, rates[:depth])) == pytest.approx(best)


@given(POSITIONAL, st.integers(1, 10))
def test_programme_beats_greedy_and_greedy_beats_the_chain(rates, num_nodes):
    best = best_trees(rates, num_nodes, len(rates)).expected_tokens[-1, -1]
    greedy = expected_tokens(node_probabilities(medusa_tree(rates, num_nodes), rates))
    straight = expected_tokens(node_probabilities(chain(min(num_nodes, len(rates))), rates))
    assert best >= greedy - 1e-12
    assert greedy >= straight - 1e-12


@given(POSITIONAL, st.integers(1, 10))
def test_greedy_is_the_best_where_rates_fall_with_rank(rates, num_nodes):
    falling = -np.sort(-rates, axis=1)
    best = best_trees(falling, num_nodes, len(rates)).expected_tokens[-1, -1]
    greedy = expected_tokens(node_probabilities(medusa_tree(falling, num_nodes), falling))
    assert greedy == pytest.approx(best)


def test_greedy_misses_a_good_candidate_behind_a_useless_one():
    rates = [[0.5, 0.0, 0.4]]
    greedy = expected_tokens(node_probabilities(medusa_tree(rates, 3), rates))
    assert greedy == pytest.approx(1.5)
    assert best_trees(rates, 3, 1).expected_tokens[3, 1] == pytest.approx(1.9)


@given(POSITIONAL)
def test_the_best_value_grows_with_nodes_and_levels(rates):
    tokens = best_trees(rates, 12, len(rates)).expected_tokens
    assert (np.diff(tokens, axis=0) >= -1e-12).all()
    assert (np.diff(tokens, axis=1) >= -1e-12).all()
    assert (tokens[0] == 1.0).all()
    assert (tokens[:, 0] == 1.0).all()


@pytest.mark.parametrize("num_nodes", GOLDEN)
def test_the_shipped_vector_gives_the_golden_values(num_nodes):
    tokens = best_trees(SEQUOIA_RATES, 127, 11).expected_tokens
    for levels, expected in zip(GOLDEN_LEVELS, GOLDEN[num_nodes], strict=False):
        if expected is not None:
            assert tokens[num_nodes - 1, levels - 1] == pytest.approx(expected, abs=5.1e-4)


def test_two_levels_hold_no_more_than_the_vector_has_children():
    solved = best_trees(SEQUOIA_RATES, 63, 1)
    assert solved.tree(63, 1).num_nodes == 32
    assert solved.expected_tokens[63, 1] == pytest.approx(1 + sum(SEQUOIA_RATES))


def test_hundreds_of_nodes_with_rates_of_their_own_at_every_depth_are_solved():
    rates = np.array(SEQUOIA_RATES) * np.linspace(1.0, 0.8, 20)[:, None]
    solved = best_trees(rates, 512, 20)
    tree = solved.tree(512, 20)
    assert tree.num_nodes == 512
    value = expected_tokens(node_probabilities(tree, rates))
    assert value == pytest.approx(solved.expected_tokens[512, 20])


def test_the_demo_curve_of_the_shipped_search_wants_four_nodes_in_a_row():
    # draft_time 0.3, valid_budget 1 2 4 8 16 32, target_time 10 10 10 12 14 18, root counted.
    verify = np.full(32, np.inf)
    verify[[0, 1, 3, 7, 15, 31]] = 10, 10, 10, 12, 14, 18
    solved = best_trees(SEQUOIA_RATES, 31, 8)
    chosen = solved.fastest(serial_cycle_s(verify, 0.3, 8))
    assert (chosen.num_nodes, chosen.depth) == (3, 3)
    assert chosen.cycle_s / chosen.expected_tokens == pytest.approx(10.9 / 2.291, rel=1e-3)


@given(POSITIONAL, st.lists(st.floats(0.0, 2.0), min_size=6, max_size=6), st.floats(0.0, 2.0))
def test_the_fastest_tree_beats_every_other_at_the_same_clock(rates, steps, draft_s):
    verify = 1.0 + np.concatenate([[0.0], np.cumsum(steps)])
    solved = best_trees(rates, 6, len(rates))
    seconds = serial_cycle_s(verify, draft_s, len(rates))
    chosen = solved.fastest(seconds)
    for size in range(1, 6):
        for paths in _all_trees(size):
            tree = tree_from_paths(paths)
            if tree.depth <= len(rates):
                value = expected_tokens(node_probabilities(tree, rates))
                rate = value / seconds[size, tree.depth]
                assert chosen.tokens_per_s >= rate - 1e-9
    assert chosen.tokens_per_s >= 1.0 / verify[0] - 1e-12


def test_verification_that_costs_too_much_leaves_plain_decoding():
    solved = best_trees([[0.5]], 4, 2)
    chosen = solved.fastest(serial_cycle_s([1.0, 3.0, 5.0, 7.0, 9.0], 0.1, 2))
    assert (chosen.num_nodes, chosen.depth, chosen.expected_tokens) == (0, 0, 1.0)


# FasterDecoding/Medusa, assets/medusa_acc.csv: cumulative top-1 .. top-5 of heads 0 to 3.
MEDUSA_HEADS = {
    "7B": (
        (0.560, 0.672, 0.727, 0.760, 0.780),
        (0.316, 0.424, 0.485, 0.528, 0.562),
        (0.201, 0.288, 0.348, 0.383, 0.417),
        (0.147, 0.225, 0.274, 0.311, 0.340),
    ),
    "13B": (
        (0.594, 0.705, 0.758, 0.792, 0.816),
        (0.340, 0.440, 0.507, 0.546, 0.580),
        (0.216, 0.309, 0.361, 0.403, 0.436),
        (0.150, 0.232, 0.288, 0.323, 0.354),
    ),
    "33B": (
        (0.605, 0.716, 0.765, 0.798, 0.822),
        (0.356, 0.469, 0.529, 0.569, 0.596),
        (0.225, 0.320, 0.379, 0.421, 0.446),
        (0.160, 0.249, 0.307, 0.348, 0.376),
    ),
}
MEDUSA_BEST = {"7B": (2.38, 2.29), "13B": (2.48, 2.38), "33B": (2.52, 2.42)}  # 63 and 25 nodes
MEDUSA_SHIPPED = {"7B": 2.34, "13B": 2.43, "33B": 2.47}  # mc_sim_7b_63
# FasterDecoding/Medusa, medusa_choices.py, mc_sim_7b_63 by level: how many children each node has.
MC_SIM_7B_63 = (
    *((rank,) for rank in range(10)),
    *((0, rank) for rank in range(10)), *((1, rank) for rank in range(7)),
    *((2, rank) for rank in range(3)), *((3, rank) for rank in range(2)),
    *((rank, 0) for rank in range(4, 10)),
    *((0, 0, rank) for rank in range(10)), *((0, 1, rank) for rank in range(3)),
    *((0, 2, rank) for rank in range(2)), *((0, rank, 0) for rank in range(3, 8)),
    *((1, 0, rank) for rank in range(2)), (2, 0, 0),
    (0, 0, 0, 0), (0, 0, 0, 1),
)  # fmt: skip


def test_the_shipped_medusa_tree_has_its_published_shape():
    tree = tree_from_paths(MC_SIM_7B_63)
    assert [tree.depths.count(depth) for depth in (1, 2, 3, 4)] == [10, 28, 23, 2]


@pytest.mark.parametrize("model", MEDUSA_HEADS)
def test_medusa_trees_have_their_published_values(model):
    rates = head_accuracies(MEDUSA_HEADS[model])
    for num_nodes, expected in zip((63, 25), MEDUSA_BEST[model], strict=True):
        tree = medusa_tree(rates, num_nodes)
        assert tree.num_nodes == num_nodes
        assert expected_tokens(node_probabilities(tree, rates)) == pytest.approx(
            expected, abs=0.006
        )
    shipped = tree_from_paths(MC_SIM_7B_63)
    value = expected_tokens(node_probabilities(shipped, rates))
    assert value == pytest.approx(MEDUSA_SHIPPED[model], abs=0.006)


@given(rank_rows(3), st.integers(1, 8))
def test_the_frequent_tree_is_worth_at_least_the_chain_on_its_own_cycles(ranks, num_nodes):
    tree = frequent_tree(ranks, num_nodes, 3, 5)
    assert tree.num_nodes <= num_nodes
    straight = node_shares(chain(min(num_nodes, 3)), ranks)
    assert node_shares(tree, ranks).sum() >= straight.sum() - 1e-12


def test_the_frequent_tree_sees_what_independence_cannot():
    # The second candidate is right only where the first level took the second, too.
    ranks = np.array([[0, 0]] * 5 + [[0, 9]] * 1 + [[1, 1]] * 4 + [[9, 9]] * 2, dtype=np.int16)
    assert set(map(tuple, [(0,), (0, 0), (1,), (1, 0), (1, 1)])) == set(
        _paths_of(frequent_tree(np.vstack([ranks, [[1, 0]]]).astype(np.int16), 5, 2, 2))
    )


def _paths_of(tree):
    from simcore.acceptance.topology.paths import rank_paths

    return rank_paths(tree)
