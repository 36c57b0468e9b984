"""Survival of the scenario's tree, and chains as trees."""

import pytest

from simcore.acceptance.tree import wide_chains
from simcore.errors import TreeError
from simcore.planner.estimate import estimate_survival
from simcore.planner.tree_choice import TreeLimits, choose_tree, fastest_tree
from simcore.planner.tree_recording import scenario_recording
from simcore.planner.tree_survival import chain_nodes, tree_survival
from simcore.planner.tree_view import view_tree


@pytest.fixture(scope="module")
def case(load_bundled) -> tuple:
    scenario, stored = load_bundled("cpu_chat")
    changes = {
        "speculation.proposer": "draft_model",
        "speculation.num_speculative_tokens": 3,
        "workload.domains": {"code": 1.0},
    }
    return scenario.with_(**changes), stored


def test_a_tree_survives_as_its_view_says(case):
    scenario, stored = case
    tree = wide_chains(2, 3)
    found = tree_survival(stored, scenario.with_(**{"speculation.tree": tree.parents}))
    recording = scenario_recording(stored, scenario)
    view = view_tree(recording, tree)
    assert found.mean_emitted_tokens == pytest.approx(view.mean_emitted_tokens.value)
    assert found.survival == pytest.approx([each.value for each in view.survival])
    assert (found.gamma, found.num_draft_tokens, found.max_verified_tokens) == (3, 6, 6)
    assert found.mean_proposed_tokens == 6.0  # a draft model always proposes


def test_a_chain_written_as_a_tree_survives_as_the_chain(case):
    """Of n-gram lookup; a draft model's rank 0 may be a tie that its chain lost."""
    scenario, stored = case[0].with_(**{"speculation.proposer": "ngram"}), case[1]
    tree = tree_survival(stored, scenario.with_(**{"speculation.tree": [-1, 0, 1]}))
    chain = estimate_survival(stored, scenario, "ngram")[3]
    assert tree.survival == pytest.approx(chain.survival)
    assert (tree.lower, tree.upper) == (chain.lower, chain.upper)


def test_a_second_chain_never_emits_less(case):
    scenario, stored = case
    chain = estimate_survival(stored, scenario, "draft_model")[3]
    wide = scenario.with_(**{"speculation.tree": wide_chains(2, 3).parents})
    assert tree_survival(stored, wide).mean_emitted_tokens > chain.mean_emitted_tokens


def test_a_chain_is_drawn_with_its_survival(case):
    scenario, stored = case
    survival = estimate_survival(stored, scenario, "draft_model")[3]
    nodes = chain_nodes(survival)
    assert [node.probability for node in nodes] == list(survival.survival)
    assert [node.parent for node in nodes] == [-1, 0, 1]
    assert nodes[2].positional_probability == pytest.approx(survival.acceptance_rate**3)


def test_a_dynamic_tree_without_recorded_order_says_why(case):
    scenario, stored = case
    dynamic = scenario.with_(**{"speculation.dynamic_tree": {"topk": 2, "num_draft_tokens": 4}})
    with pytest.raises(TreeError, match="dynamic_order"):
        tree_survival(stored, dynamic)


def test_a_profile_without_traces_has_no_recording(load_bundled):
    scenario, stored = load_bundled("h100_chat")
    assert scenario_recording(stored, scenario) is None


def test_the_fastest_tree_is_the_one_that_choose_tree_chooses(case):
    recording = scenario_recording(case[1], case[0])
    limits = TreeLimits(8, 4)
    found = fastest_tree(recording, limits, batch_size=1, context_tokens=100)
    chosen = choose_tree(recording, limits, batch_size=1, context_tokens=100)
    assert (found is None) == (chosen.tree is None)
    assert found is None or found.parents == chosen.tree.parents
