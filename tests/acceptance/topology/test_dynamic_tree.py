"""EAGLE-2's trees on invented drafts: connected, exact from places, bounded from the path alone."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcore.acceptance.topology.dynamic_tree import (
    DynamicShape,
    depth_bounds,
    depths_from_orders,
    propose_nodes,
)
from simcore.acceptance.topology.paths import rank_paths, tree_from_paths
from simcore.acceptance.topology.replay import accepted_depths
from simcore.acceptance.topology.sglang_shape import SglangShape
from simcore.acceptance.trace import RANK_ABSENT
from simcore.acceptance.tree import accepted_depth
from simcore.errors import TreeError

NUM_TOKENS = 6


def invented_draft(seed, sharpness=1.5):
    """A draft over six tokens whose candidates depend on the whole path."""

    def candidates(path):
        rng = np.random.default_rng([seed, *path])
        weights = rng.random(NUM_TOKENS) ** (1 + sharpness * rng.random())
        return np.sort(weights / weights.sum())[::-1]

    return candidates


SHAPES = st.tuples(st.integers(1, 4), st.integers(1, 4)).flatmap(
    lambda pair: st.integers(1, pair[0] + (pair[1] - 1) * pair[0] ** 2).map(
        lambda nodes: DynamicShape(pair[0], pair[1], nodes)
    )
)
SEEDS = st.integers(0, 10_000)


@given(SHAPES, SEEDS)
def test_the_draft_scores_topk_and_then_topk_squared_a_level(shape, seed):
    proposed = propose_nodes(shape.topk, shape.depth, invented_draft(seed))
    assert len(proposed.paths) == shape.num_proposed
    assert len(set(proposed.paths)) == shape.num_proposed


@given(SHAPES, SEEDS)
def test_the_selected_nodes_are_one_tree_and_the_likeliest(shape, seed):
    proposed = propose_nodes(shape.topk, shape.depth, invented_draft(seed))
    tree = proposed.selected(shape.num_nodes)  # raises where a parent or sibling is missing
    assert tree.num_nodes == shape.num_nodes
    chosen = set(rank_paths(tree))
    values = dict(zip(proposed.paths, proposed.confidence.tolist(), strict=True))
    least = min(values[path] for path in chosen)
    assert all(value <= least for path, value in values.items() if path not in chosen)


@given(SHAPES, SEEDS)
def test_sglang_calls_every_selection_possible(shape, seed):
    tree = propose_nodes(shape.topk, shape.depth, invented_draft(seed)).selected(shape.num_nodes)
    if shape.topk > 1:
        assert SglangShape(shape.depth, shape.topk, shape.num_nodes + 1).can_choose(tree)


def test_ties_go_to_the_shallower_node():
    proposed = propose_nodes(2, 3, lambda path: [1.0, 0.0] if path else [0.5, 0.5])
    assert rank_paths(proposed.selected(4)) == ((0,), (1,), (0, 0), (1, 0))


@given(SHAPES, SEEDS)
def test_places_rise_along_a_path_and_cover_every_number(shape, seed):
    proposed = propose_nodes(shape.topk, shape.depth, invented_draft(seed))
    assert sorted(proposed.order()) == list(range(shape.num_proposed))
    for path in proposed.paths:
        places = proposed.orders_along(path)
        assert (np.diff(places) > 0).all()


@given(SHAPES, SEEDS, st.lists(st.integers(0, 4), min_size=4, max_size=4))
def test_recorded_places_replay_every_number_of_nodes_exactly(shape, seed, ranks):
    proposed = propose_nodes(shape.topk, shape.depth, invented_draft(seed))
    places = proposed.orders_along(ranks[: shape.depth])[None, :].astype(np.int16)
    for num_nodes in range(1, shape.num_proposed + 1):
        tree = proposed.selected(num_nodes)
        expected = accepted_depth(tree.children(), np.array(ranks[: tree.depth], dtype=np.int16))
        assert depths_from_orders(places, num_nodes)[0] == expected


@given(SHAPES, SEEDS, st.lists(st.sampled_from([0, 0, 0, 1, 2, 4]), min_size=4, max_size=4))
def test_the_truth_lies_between_the_bounds_of_the_realised_path(shape, seed, ranks):
    draft = invented_draft(seed, sharpness=6.0)
    proposed = propose_nodes(shape.topk, shape.depth, draft)
    places = proposed.orders_along(ranks[: shape.depth])[None, :].astype(np.int16)
    truth = depths_from_orders(places, shape.num_nodes)[0]
    top = [draft(tuple(ranks[:depth]))[0] for depth in range(4)]
    lower, upper = depth_bounds(shape, np.array([ranks], dtype=np.int16), np.array([top]))
    assert lower[0] <= truth <= upper[0]


def test_bounds_meet_where_everything_proposed_is_verified_and_the_draft_is_sure():
    shape = DynamicShape(2, 3, 10)
    ranks = np.array([[0, 0, 0], [0, 1, 0], [1, 1, 0], [2, 0, 0]], dtype=np.int16)
    lower, upper = depth_bounds(shape, ranks, np.full((4, 3), 0.9))
    assert lower.tolist() == [3, 2, 2, 0]  # below a second candidate expansion is not sure
    assert upper.tolist() == [3, 3, 3, 0]


def test_two_levels_verified_whole_are_a_static_tree():
    shape = DynamicShape(3, 2, 12)
    ranks = np.array([[a, b] for a in range(4) for b in range(4)], dtype=np.int16)
    lower, upper = depth_bounds(shape, ranks, np.full((16, 2), 0.01))
    whole = SglangShape(2, 3, 13).static_tree()
    assert lower.tolist() == upper.tolist() == accepted_depths(whole, ranks).tolist()


def test_a_sharp_draft_drops_unlikely_siblings():
    proposed = propose_nodes(2, 3, lambda path: [0.9, 0.1])
    assert rank_paths(proposed.selected(3)) == ((0,), (0, 0), (0, 0, 0))
    assert proposed.selected(3) == tree_from_paths([(0,), (0, 0), (0, 0, 0)])
    assert proposed.orders_along([1, 1, 1]).tolist()[0] == 3
    assert proposed.orders_along([2]).tolist() == [RANK_ABSENT]


@pytest.mark.parametrize("numbers", [(0, 1, 1), (2, 2, 7), (1, 3, 4)])
def test_more_nodes_than_are_proposed_are_refused(numbers):
    with pytest.raises(TreeError, match=r"propose|at least"):
        DynamicShape(*numbers)
