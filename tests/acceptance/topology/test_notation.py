"""One tree, many spellings: parents, paths, W x D, vLLM, Medusa, SGLang; and its drawing."""

import ast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcore.acceptance.topology.layout import depth_first, layout
from simcore.acceptance.topology.notation import (
    chains_side_by_side,
    choices,
    parse_tree,
    vllm_token_tree,
)
from simcore.acceptance.topology.paths import canonical, rank_paths, tree_from_paths
from simcore.acceptance.topology.sglang_shape import SglangShape, sglang_shape
from simcore.acceptance.tree import DraftTree, chain, wide_chains
from simcore.errors import SpecplanError, TreeError
from tests.acceptance.topology.strategies import TREES


@given(TREES)
def test_paths_and_back_give_the_tree_level_by_level(tree):
    again = tree_from_paths(rank_paths(tree))
    assert set(rank_paths(again)) == set(rank_paths(tree))
    assert again == canonical(tree) == canonical(again)
    assert list(again.depths) == sorted(tree.depths)


@given(TREES)
def test_every_spelling_is_read_back(tree):
    expected = canonical(tree)
    assert parse_tree(str(choices(tree))) == expected
    assert parse_tree(vllm_token_tree(tree)) == expected
    assert parse_tree(",".join(map(str, tree.parents))) == tree
    assert parse_tree(str(list(tree.parents))) == tree


def test_vllm_reads_tuples_level_by_level():
    tree = DraftTree((-1, 0, -1, 2, 0))
    assert vllm_token_tree(tree) == "[(0,), (1,), (0, 0), (0, 1), (1, 0)]"
    assert ast.literal_eval(vllm_token_tree(chain(2))) == [(0,), (0, 0)]


@given(st.integers(1, 6), st.integers(1, 6))
def test_chains_side_by_side_are_read_and_recognised(width, depth):
    tree = parse_tree(f"{width}x{depth}")
    assert chains_side_by_side(tree) == chains_side_by_side(canonical(tree)) == (width, depth)
    assert tree == (chain(depth) if width == 1 else wide_chains(width, depth))


@given(TREES)
def test_a_tree_said_to_be_chains_is_those_chains(tree):
    found = chains_side_by_side(tree)
    if found is not None:
        assert canonical(parse_tree("{}x{}".format(*found))) == canonical(tree)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "cannot read"),
        ("tree", "cannot read"),
        ("0x4", "chains"),
        ("9999x9999", "4096"),
        ("99999x1", "cannot read"),
        ("[]", "no 1 to"),
        ("{}", "no 1 to"),
        ("'0'", "no 1 to"),
        ("0,0", "candidate 0"),
        ("-1,5", "candidate 1"),
        ("[[0],[2]]", "better sibling"),
        ("[[0],[0]]", "repeat"),
        ("[[0],[1,0]]", "lacks its parent"),
        ("[[]]", "at least one rank"),
        ("[[-1]]", "at least one rank"),
        ("[0.5]", "mixes"),
        ("[True]", "mixes"),
        ("[-1,[0]]", "mixes"),
        ("[" * 3000, "cannot read"),
        ("__import__('os')", "cannot read"),
    ],
)
def test_text_that_is_no_tree_is_refused_in_one_sentence(text, message):
    with pytest.raises(TreeError, match=message) as caught:
        parse_tree(text)
    assert len(str(caught.value)) < 250


@given(st.one_of(st.text(), st.text(alphabet="0123456789-[](), x", max_size=30)))
def test_any_text_is_a_tree_or_a_clear_refusal(text):
    message, num_nodes = "", 1
    try:
        num_nodes = parse_tree(text).num_nodes
    except SpecplanError as error:
        message = str(error)
    assert "\n" not in message
    assert 1 <= num_nodes <= 4096


@given(st.integers(1, 9))
def test_sglang_chains_and_stars_round_trip(size):
    straight = chain(size)
    assert sglang_shape(straight) == SglangShape(size, 1, size + 1)
    assert sglang_shape(straight).static_tree() == straight
    star = DraftTree((-1,) * size)
    assert sglang_shape(star).static_tree() == star


@given(st.integers(2, 5))
def test_sglang_with_every_node_of_two_levels_is_static(topk):
    shape = SglangShape(2, topk, 1 + topk + topk**2)
    tree = shape.static_tree()
    assert sglang_shape(tree) == shape
    assert shape.can_choose(tree)


@given(TREES)
def test_the_sglang_envelope_of_a_tree_can_choose_it(tree):
    assert sglang_shape(tree).can_choose(tree)


def test_sglang_defaults_have_no_static_tree():
    assert SglangShape(3, 1, 4).static_tree() == chain(3)
    with pytest.raises(TreeError, match="confidence chooses 7 of 68"):
        SglangShape(5, 4, 8).static_tree()


@pytest.mark.parametrize("numbers", [(3, 1, 5), (0, 2, 3), (1, 2, 4), (2, 0, 3), (2, 2, 1)])
def test_numbers_that_sglang_cannot_run_are_refused(numbers):
    with pytest.raises(TreeError, match=r"expected at least|num_steps|propose"):
        SglangShape(*numbers)


@given(TREES)
def test_a_drawing_keeps_levels_order_and_middles(tree):
    probabilities = np.linspace(1.0, 0.1, tree.num_nodes)
    places = layout(tree, probabilities)
    assert [place.depth for place in places] == list(tree.depths)
    assert [place.probability for place in places] == probabilities.tolist()
    for place in places:
        below = [each.x for each in places if each.parent == place.node]
        if below:
            assert below == sorted(below)
            assert place.x == pytest.approx(np.mean(below))
    for level in range(1, tree.depth + 1):
        across = sorted(place.x for place in places if place.depth == level)
        assert (np.diff(across) > 0.49).all()


@given(TREES)
def test_reading_order_puts_every_node_after_its_parent(tree):
    order = depth_first(tree)
    assert sorted(order) == list(range(tree.num_nodes))
    for node, parent in enumerate(tree.parents):
        if parent >= 0:
            assert order.index(parent) < order.index(node)


def test_a_drawing_needs_one_probability_a_node():
    with pytest.raises(ValueError, match="shorter"):
        layout(chain(2), [0.5])
