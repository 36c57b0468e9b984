"""Trees on a profile's recordings: replay, the programme's choice, its price, what is refused."""

import numpy as np
import pytest

from simcore.acceptance.survival import iid_mean_emitted_tokens
from simcore.acceptance.topology.dynamic_tree import DynamicShape
from simcore.acceptance.topology.notation import parse_tree
from simcore.acceptance.topology.sibling_rules import SiblingRule
from simcore.acceptance.tree import chain
from simcore.errors import ScenarioError, TreeError
from simcore.planner.speedup import trace_survival
from simcore.planner.tree_choice import TreeLimits, choose_tree
from simcore.planner.tree_dynamic import view_dynamic
from simcore.planner.tree_recording import tree_recording
from simcore.planner.tree_view import view_tree
from simcore.profile.store import load_profile, write_profile
from tests.factories import MAX_GAMMA, Recording, make_profile

SHAPE = DynamicShape(2, 3, 6)


@pytest.fixture(scope="module")
def recording(recorded_profile):
    return tree_recording(recorded_profile, "draft_model")


@pytest.fixture(scope="module")
def with_columns(recorded_profile, tmp_path_factory):
    """The same profile with the optional columns: children as ranked, places as depths."""
    frame = recorded_profile.traces.to_pandas()
    frame["specinfer_child"] = frame["sequoia_child"] = frame["rank"]
    frame["dynamic_order"] = [
        [depth if rank == 0 else 32767 for depth, rank in enumerate(ranks)]
        for ranks in frame["rank"]
    ]
    profile = recorded_profile.profile
    draft = profile.proposers["draft_model"].model_copy(
        update={"settings": {"tree_topk": SHAPE.topk, "tree_depth": SHAPE.depth}}
    )
    profile = profile.model_copy(
        update={"proposers": {**profile.proposers, "draft_model": draft}, "tables": {}}
    )
    cost = recorded_profile.cost_samples.to_pandas()
    folder = tmp_path_factory.mktemp("columns") / "recorded"
    return write_profile(profile, folder, cost=cost, traces=frame)


@pytest.mark.parametrize("gamma", [1, 4, MAX_GAMMA])
def test_a_chain_shown_as_a_tree_says_what_the_chain_says(recording, gamma):
    view = view_tree(recording, chain(gamma))
    expected = trace_survival(recording.traces, gamma)
    assert view.mean_emitted_tokens.value == pytest.approx(expected.mean_emitted_tokens)
    assert [each.value for each in view.survival] == pytest.approx(expected.survival)
    # Nothing is assumed along a chain: its rates by depth are conditional on all before.
    assert view.positional_tokens == pytest.approx(view.mean_emitted_tokens.value)


def test_a_view_agrees_with_itself(recording):
    view = view_tree(recording, parse_tree("-1,-1,0,0,2"))
    replayed = view.mean_emitted_tokens
    assert replayed.value == pytest.approx(1 + sum(node.probability for node in view.nodes))
    assert replayed.value == pytest.approx(1 + sum(level.value for level in view.survival))
    assert view.positional_tokens == pytest.approx(
        1 + sum(node.positional_probability for node in view.nodes)
    )
    assert replayed.interval[0] < replayed.value < replayed.interval[1]
    levels = [level.value for level in view.survival]
    assert levels == sorted(levels, reverse=True)
    assert view.sglang == {"num_steps": 3, "eagle_topk": 2, "num_draft_tokens": 6}


def test_one_vector_on_a_chain_is_one_acceptance_rate(recording):
    view = view_tree(recording, chain(6))
    alpha = trace_survival(recording.traces, 6).acceptance_rate
    assert view.one_vector_tokens == pytest.approx(iid_mean_emitted_tokens(alpha, 6))
    assert view.one_vector_tokens != pytest.approx(view.mean_emitted_tokens.value, abs=0.01)


@pytest.mark.parametrize(("num_nodes", "depth"), [(1, 1), (6, 3), (24, 8)])
def test_the_chosen_tree_keeps_its_limits_and_beats_the_chain(recording, num_nodes, depth):
    found = choose_tree(recording, TreeLimits(num_nodes, depth))
    assert found.tree.num_nodes <= num_nodes
    assert found.tree.depth <= depth
    by_method = {each.method: each for each in found.candidates}
    assert set(by_method) == {"sequoia", "frequent", "chain"}
    chosen = by_method["sequoia"].mean_emitted_tokens.value
    assert found.tree.mean_emitted_tokens.value == pytest.approx(chosen)
    assert chosen >= by_method["chain"].mean_emitted_tokens.value - 1e-12


def test_the_tree_keeps_what_an_invented_recording_needs(recording):
    # Every missed token stands at rank 1, so that two children a node accept everything.
    found = choose_tree(recording, TreeLimits(6, 2))
    assert found.tree.mean_emitted_tokens.value == pytest.approx(3.0)
    assert found.tree.choices == [[0], [1], [0, 0], [0, 1], [1, 0], [1, 1]]


def test_the_priced_tree_emits_faster_than_every_other_size_and_than_plain(recording):
    found = choose_tree(recording, TreeLimits(24, 6), batch_size=1)
    price = found.price
    chosen = next(s for s in price.sizes if s.num_nodes == price.chosen_num_nodes)
    assert chosen.tokens_per_s >= max(size.tokens_per_s for size in price.sizes) - 1e-9
    assert chosen.speedup > 1.0
    assert chosen.speedup == pytest.approx(chosen.tokens_per_s * price.plain_step_s)
    assert found.tree.num_nodes == price.chosen_num_nodes
    assert [size.is_extrapolated for size in price.sizes] == [
        1 + size.num_nodes > 1 + MAX_GAMMA for size in price.sizes
    ]


def test_larger_batches_want_no_larger_trees(recording):
    sizes = [
        choose_tree(recording, TreeLimits(24, 6), batch_size=batch).price.chosen_num_nodes
        for batch in (1, 4, 16)
    ]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] > sizes[-1]


def test_a_proposer_that_takes_too_long_leaves_plain_decoding(tmp_path):
    stored = make_profile(tmp_path / "slow", Recording(propose_scale=1000.0))
    found = choose_tree(tree_recording(stored, "draft_model"), TreeLimits(8, 4), batch_size=1)
    assert found.tree is None
    assert found.candidates == ()
    assert found.price.chosen_num_nodes == 0
    assert all(size.speedup < 1.0 for size in found.price.sizes)


def test_drawn_children_replay_as_their_column_says(with_columns, recorded_profile):
    tree = parse_tree("-1,-1,0,1")
    sampled = tree_recording(with_columns, "draft_model", temperature=1.0)
    expected = view_tree(sampled, tree, SiblingRule.TOP_K)
    for rule in (SiblingRule.SPECINFER, SiblingRule.SEQUOIA):
        found = view_tree(sampled, tree, rule)
        assert found.mean_emitted_tokens == expected.mean_emitted_tokens
        with pytest.raises(TreeError, match="8 tries"):
            view_tree(sampled, parse_tree("9x1"), rule)
        without = tree_recording(recorded_profile, "draft_model", temperature=1.0)
        with pytest.raises(TreeError, match=f"{rule}_child"):
            view_tree(without, tree, rule)


def test_recorded_places_make_a_dynamic_tree_exact(with_columns):
    recording = tree_recording(with_columns, "draft_model")
    view = view_dynamic(recording, SHAPE)
    assert view.is_exact
    # The invented places hold the top chain and nothing else.
    expected = view_tree(recording, chain(SHAPE.depth)).num_cycles
    tokens = (recording.traces.output_tokens - 1).sum()
    assert view.lower_tokens == view.upper_tokens == pytest.approx(tokens / expected)
    assert not view_dynamic(recording, DynamicShape(2, 2, 6)).is_exact


def test_without_places_a_dynamic_tree_lies_between_its_bounds(recording):
    view = view_dynamic(recording, SHAPE)
    assert not view.is_exact
    assert 1.0 <= view.lower_tokens < view.upper_tokens <= 1 + SHAPE.depth
    whole = view_dynamic(recording, DynamicShape(2, 2, 6))
    assert whole.lower_tokens == whole.upper_tokens == pytest.approx(whole.static_tokens)


def test_optional_columns_are_written_and_read_back(with_columns):
    again = load_profile(with_columns.folder)
    assert again.traces.column_names[-3:] == ["specinfer_child", "sequoia_child", "dynamic_order"]
    assert again.traces.column("sequoia_child").to_pylist() == (
        again.traces.column("rank").to_pylist()
    )


def test_domains_are_counted_apart(recorded_profile):
    parts = [
        view_tree(tree_recording(recorded_profile, "draft_model", domains=(name,)), chain(3))
        for name in ("chat", "code")
    ]
    whole = view_tree(tree_recording(recorded_profile, "draft_model"), chain(3))
    assert sum(part.num_cycles for part in parts) == whole.num_cycles
    weights = [part.num_cycles / whole.num_cycles for part in parts]
    mixed = np.dot(weights, [part.mean_emitted_tokens.value for part in parts])
    assert mixed == pytest.approx(whole.mean_emitted_tokens.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"proposer": "medusa"}, "no proposer 'medusa'"),
        ({"temperature": 0.3}, r"at temperature 0\.3"),
        ({"domains": ("poetry",)}, "poetry"),
    ],
)
def test_recordings_that_are_not_there_are_refused(recorded_profile, changes, message):
    asked = {"proposer": "draft_model", **changes}
    with pytest.raises(ScenarioError, match=message):
        tree_recording(recorded_profile, asked.pop("proposer"), **asked)


def test_published_rates_decide_no_tree():
    with pytest.raises(ScenarioError, match="no traces"):
        tree_recording(load_profile("llama31_8b_h100"), "eagle")


@pytest.mark.parametrize("limits", [(0, 1), (4, 0), (513, 2), (4, MAX_GAMMA + 1)])
def test_limits_outside_what_can_be_solved_or_was_recorded_are_refused(recording, limits):
    with pytest.raises(TreeError):
        choose_tree(recording, TreeLimits(*limits))
    with pytest.raises(TreeError, match="ends at depth"):
        view_tree(recording, chain(MAX_GAMMA + 1))
