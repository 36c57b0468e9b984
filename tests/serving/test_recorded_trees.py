"""Trees that a recording decides by a column of its own: dynamic ones, and sampled siblings."""

import numpy as np
import pytest

from simcore import ScenarioError, SpecplanError, simulate
from simcore.acceptance.trace import RANK_ABSENT
from simcore.profile.store import StoredProfile, write_profile
from tests.factories import Recording, make_profile, make_scenario, sampled
from tests.invariants import check_every_mode

DYNAMIC = {"topk": 2, "num_draft_tokens": 5}
SHAPE = {
    "speculation.proposer": "draft_model",
    "speculation.num_speculative_tokens": 3,
    "speculation.dynamic_tree": DYNAMIC,
    "deployment.max_num_seqs": 4,
}


def with_columns(tmp_path, settings, **columns) -> StoredProfile:
    """An invented recording whose optional columns hold these lists, the same in every row."""
    stored = make_profile(tmp_path / "plain", Recording())
    profile = stored.profile
    draft = profile.proposers["draft_model"].model_copy(update={"settings": settings})
    profile = profile.model_copy(update={"proposers": profile.proposers | {"draft_model": draft}})
    traces = stored.traces.to_pandas()
    for name, values in columns.items():
        traces[name] = [values] * len(traces)
    return write_profile(
        profile, tmp_path / "more", cost=stored.cost_samples.to_pandas(), traces=traces
    )


@pytest.fixture
def dynamic(tmp_path):
    """Every realised token stands second, fourth, then ninth in the order of proposal."""
    return with_columns(
        tmp_path, {"tree_topk": 2, "tree_depth": 3}, dynamic_order=[1, 3, 8, RANK_ABSENT]
    )


def test_a_dynamic_tree_accepts_as_deep_as_its_best_nodes_reach(dynamic):
    scenario = make_scenario(dynamic, **SHAPE)
    result = simulate(scenario)
    found = result.request_records
    drafting = result.accepted_histogram.sum(axis=0)
    assert drafting[2] > 0  # places 1 and 3 are among the best five, 8 is not
    assert drafting[1] == drafting[3] == 0
    wide = scenario.with_(**{"speculation.dynamic_tree.num_draft_tokens": 9})
    assert simulate(wide).accepted_histogram.sum(axis=0)[3] > 0
    assert (found["planned_tokens"] == found["num_cycles"] * (2 + 2 * 4)).all()
    assert (found["verified_tokens"] <= found["proposed_tokens"] // 2).all()
    check_every_mode(scenario, dynamic)


def test_a_dynamic_tree_of_another_shape_than_recorded_is_refused(dynamic):
    other = make_scenario(dynamic, **SHAPE).with_(**{"speculation.dynamic_tree.topk": 3})
    with pytest.raises(SpecplanError, match="dynamic_order"):
        simulate(other)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"speculation.dynamic_tree.num_draft_tokens": 11}, "of 10 proposed"),
        ({"speculation.num_speculative_tokens": 0}, "stands alone"),
        ({"speculation.tree": [-1, 0, 1]}, "stands alone"),
        ({"speculation.policy": {"kind": "goodput"}}, "static tree cannot"),
    ],
)
def test_a_dynamic_tree_that_contradicts_itself_is_refused(dynamic, changes, message):
    with pytest.raises(ScenarioError, match=message):
        make_scenario(dynamic, **SHAPE).with_(**changes)


def test_sampled_siblings_follow_the_column_of_their_rule(tmp_path):
    stored = with_columns(
        tmp_path, {}, specinfer_child=[1, 0, RANK_ABSENT], sequoia_child=[0, 0, 0]
    )
    scenario = make_scenario(
        stored,
        **sampled(
            {
                "speculation.proposer": "draft_model",
                "speculation.num_speculative_tokens": 2,
                "speculation.tree": [-1, -1, 1],  # the second child has one of its own
                "deployment.max_num_seqs": 4,
            }
        ),
    )
    by_rule = {
        rule: simulate(scenario.with_(**{"speculation.tree_rule": rule})).accepted_histogram
        for rule in ("specinfer", "sequoia")
    }
    drafted = {rule: histogram.sum(axis=0) for rule, histogram in by_rule.items()}
    assert drafted["specinfer"][2] > 0
    assert drafted["specinfer"][1] == 0
    assert drafted["sequoia"][1] > 0
    assert drafted["sequoia"][2] == 0


def test_a_rule_that_was_not_recorded_is_refused(tmp_path):
    stored = make_profile(tmp_path / "plain", Recording())
    scenario = make_scenario(
        stored,
        **sampled(
            {
                "speculation.proposer": "draft_model",
                "speculation.num_speculative_tokens": 1,
                "speculation.tree": [-1, -1],
                "speculation.tree_rule": "specinfer",
            }
        ),
    )
    with pytest.raises(SpecplanError, match="specinfer_child"):
        simulate(scenario)


def test_zero_rows_propose_no_tree(dynamic):
    result = simulate(make_scenario(dynamic, **SHAPE), record_cycles=True)
    cycles = result.cycles
    assert set(np.unique(cycles["proposed_tokens"])) <= {0, 10}
    silent = cycles[cycles["proposed_tokens"] == 0]
    assert (silent["accepted_tokens"] == 0).all()
