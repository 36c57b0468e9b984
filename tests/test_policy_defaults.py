"""A default policy of every kind drives the drafts that it was made for."""

import pytest

from simcore.acceptance.tree import wide_chains
from simcore.policy_defaults import (
    KINDS,
    TREE_KINDS,
    DraftShape,
    default_policy,
    fits,
    memory_ladder,
    offered_kinds,
)
from simcore.speculation import BatchSizeTable, DynamicTree, MemoryPressure, Speculation

TABLE = {0: ((1, 8, 0),), 1: ((1, 4, 1), (5, 8, 0)), 4: ((1, 4, 4), (5, 8, 0))}


def _speculation(shape: DraftShape, kind: str) -> Speculation:
    tree = None if shape.num_nodes is None else wide_chains(2, shape.depth).parents
    return Speculation(
        proposer="p",
        num_speculative_tokens=shape.depth,
        tree=tree,
        dynamic_tree=DynamicTree(topk=2, num_draft_tokens=4) if shape.is_dynamic else None,
        policy=default_policy(kind, shape, table=TABLE[shape.depth]),
    )


SHAPES = (
    DraftShape(1),
    DraftShape(4),
    DraftShape(1, num_nodes=2),
    DraftShape(4, num_nodes=8),
    DraftShape(4, is_dynamic=True),
)


@pytest.mark.parametrize("shape", SHAPES)
def test_every_kind_offered_is_accepted_and_fits(shape):
    for kind in offered_kinds(shape):
        made = _speculation(shape, kind)
        assert made.policy.kind == kind
        assert DraftShape.of(made) == shape
        assert fits(made.policy, shape)


def test_a_tree_is_offered_only_what_cannot_shorten_it():
    assert offered_kinds(DraftShape(3)) == KINDS
    assert offered_kinds(DraftShape(3, 6)) == TREE_KINDS
    assert not fits(default_policy("oracle", DraftShape(3)), DraftShape(3, 6))


def test_a_policy_that_asks_for_longer_drafts_does_not_fit():
    table = BatchSizeTable(kind="batch_size_table", table=((1, 8, 3),))
    assert fits(table, DraftShape(3))
    assert not fits(table, DraftShape(2))
    assert not fits(table, DraftShape(4, 8))
    ladder = MemoryPressure(kind="memory_pressure", ladder=memory_ladder(DraftShape(4, 8)))
    assert fits(ladder, DraftShape(4, 8))
    assert not fits(ladder, DraftShape(2, 3))


def test_a_ladder_whose_bounds_cross_only_turns_off():
    (rung,) = memory_ladder(DraftShape(4), mild=0.1, severe=0.3)
    assert (rung.below, rung.num_speculative_tokens) == (0.3, 0)


@pytest.mark.parametrize(
    ("wanted", "drafts"),
    [
        ({}, "γ = 0"),
        ({"num_speculative_tokens": 3}, "γ = 3"),
        (
            {"num_speculative_tokens": 2, "tree": (-1, -1, 0)},
            "tree of 3, 2 deep",
        ),
        (
            {"num_speculative_tokens": 3, "dynamic_tree": {"topk": 2, "num_draft_tokens": 5}},
            "dynamic tree of 5, 3 deep",
        ),
    ],
)
def test_what_drafts_is_named_by_its_shape(wanted, drafts):
    assert Speculation(proposer="ngram", **wanted).drafts == drafts
