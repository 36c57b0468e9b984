"""docs/background/trees.md shows what the program finds on the bundled profile."""

import re
from pathlib import Path

import pytest

from simcore.acceptance.topology.notation import parse_tree
from simcore.acceptance.topology.sglang_shape import SglangShape
from simcore.acceptance.topology.sibling_rules import SiblingRule
from simcore.acceptance.tree import chain
from simcore.planner.tree_choice import TreeLimits, choose_tree
from simcore.planner.tree_dynamic import view_dynamic
from simcore.planner.tree_recording import tree_recording
from simcore.planner.tree_view import view_tree
from simcore.profile.store import load_profile

PAGE = (Path(__file__).parents[2] / "docs/background/trees.md").read_text(encoding="utf-8")
ROWS = [
    [float(number) for number in re.findall(r"\d+\.?\d*", line)]
    for line in PAGE.splitlines()
    if re.match(r"\| \d+ \|", line)
]
SIZES = [row for row in ROWS if len(row) == 10]
BATCHES = [row for row in ROWS if len(row) == 5]
# Intervals and near ties may fall differently in another numpy.
TOLERANCE = 0.003


@pytest.fixture(scope="module")
def bundled():
    stored = load_profile("smollm2_135m_cpu")
    return {at: tree_recording(stored, "draft_model", temperature=at) for at in (0.0, 1.0)}


def test_the_page_holds_both_tables():
    assert [row[0] for row in SIZES] == [4, 8, 16, 32, 64]
    assert [row[0] for row in BATCHES] == [1, 2, 4, 8, 16]


@pytest.mark.parametrize("row", SIZES, ids=lambda row: f"{row[0]:.0f} nodes")
def test_a_row_of_sizes_is_what_best_prints(bundled, row):
    found = choose_tree(bundled[0.0], TreeLimits(int(row[0]), 8))
    by_method = {each.method: each for each in found.candidates}
    tree = found.tree
    expected = (
        by_method["chain"].mean_emitted_tokens.value,
        tree.mean_emitted_tokens.value,
        *tree.mean_emitted_tokens.interval,
        tree.depth,
        by_method["sequoia"].held_out_tokens,
        by_method["frequent"].held_out_tokens,
        tree.positional_tokens,
        tree.one_vector_tokens,
    )
    assert row[1:] == pytest.approx(expected, abs=TOLERANCE)


@pytest.mark.parametrize("row", BATCHES, ids=lambda row: f"batch {row[0]:.0f}")
def test_a_row_of_batches_is_what_best_prints(bundled, row):
    price = choose_tree(bundled[0.0], TreeLimits(32, 8), batch_size=int(row[0])).price
    by_size = {size.num_nodes: size for size in price.sizes}
    chosen = by_size[price.chosen_num_nodes]
    expected = (chosen.num_nodes, chosen.depth, chosen.speedup, by_size[1].speedup)
    assert row[1:] == pytest.approx(expected, abs=TOLERANCE)


def test_the_figures_in_the_text_are_the_program_s(bundled):
    view = view_dynamic(bundled[0.0], SglangShape(5, 4, 8).dynamic)
    quoted = f"{view.lower_tokens:.3f} to {view.upper_tokens:.3f} tokens"
    assert quoted in PAGE
    assert f"of that size {view.static_tokens:.3f}" in PAGE
    for rule in (SiblingRule.SPECINFER, SiblingRule.TOP_K):
        replayed = view_tree(bundled[1.0], chain(4), rule).mean_emitted_tokens.value
        assert f"{replayed:.3f}" in PAGE


def test_the_spellings_of_the_page_are_one_tree_each():
    spellings = re.findall(r"^\| .*? \| `([^`]+)` \|", PAGE, flags=re.MULTILINE)
    assert [parse_tree(text).num_nodes for text in spellings] == [8, 3, 3, 3]
