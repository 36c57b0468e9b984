"""Draft trees: shape, accepted depth by rank, and what the service pays for them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcore import simulate, summarise
from simcore.acceptance.tree import DraftTree, accepted_depth, chain, wide_chains
from simcore.errors import ScenarioError
from tests.factories import make_scenario
from tests.invariants import check_result

# Context with children A1, B1; A1 -> A2; B1 -> B2, B3.
FORK = DraftTree((-1, -1, 0, 1, 1))
PARENTS = st.integers(1, 20).flatmap(
    lambda count: st.tuples(*(st.integers(-1, node - 1) for node in range(count)))
)


def test_a_tree_knows_its_depths_and_children():
    assert FORK.depths == (1, 1, 2, 2, 2)
    assert FORK.depth == 2
    assert FORK.children().tolist() == [[1, 2], [3, -1], [4, 5], [-1, -1], [-1, -1], [-1, -1]]


@pytest.mark.parametrize(
    ("ranks", "depth"),
    [((0, 0), 2), ((0, 1), 1), ((1, 0), 2), ((1, 1), 2), ((1, 2), 1), ((2, 0), 0)],
)
def test_realised_ranks_lead_down_the_fork(ranks, depth):
    assert accepted_depth(FORK.children(), np.array(ranks, dtype=np.int16)) == depth


def test_an_absent_token_ends_every_path():
    absent = np.array([32767, 0], dtype=np.int16)
    assert accepted_depth(FORK.children(), absent) == 0


def test_a_chain_accepts_the_run_of_first_ranks():
    ranks = np.array([0, 0, 1, 0], dtype=np.int16)
    assert accepted_depth(chain(4).children(), ranks) == 2


def test_parallel_chains_have_width_times_depth_candidates():
    tree = wide_chains(4, 3)
    assert tree.num_nodes == 12
    assert tree.depth == 3
    assert tree.depths.count(1) == tree.depths.count(3) == 4


@given(parents=PARENTS, ranks=st.lists(st.integers(0, 4), min_size=20, max_size=20))
def test_one_more_candidate_never_shortens_the_accepted_path(parents, ranks):
    realised = np.array(ranks, dtype=np.int16)
    before = accepted_depth(DraftTree(parents).children(), realised)
    for parent in range(-1, len(parents)):
        grown = DraftTree((*parents, parent))
        assert accepted_depth(grown.children(), realised) >= before


@pytest.mark.parametrize("parents", [(), (0,), (-2,), (-1, 1)])
def test_parents_that_form_no_tree_are_refused(parents):
    with pytest.raises(ValueError, match=r"tree|parent"):
        DraftTree(parents)


def _tree_scenario(stored, tree, **changes):
    return make_scenario(
        stored,
        **{
            "speculation.proposer": "draft_model",
            "speculation.num_speculative_tokens": tree.depth,
            "speculation.tree": list(tree.parents),
            **changes,
        },
    )


def test_a_chain_written_as_a_tree_gives_the_same_records(recorded_profile):
    plain = make_scenario(recorded_profile, **{"speculation.proposer": "draft_model"})
    as_tree = _tree_scenario(recorded_profile, chain(4))
    first, second = simulate(plain), simulate(as_tree)
    assert np.array_equal(first.request_records, second.request_records)
    assert np.array_equal(first.step_records, second.step_records)


def test_every_node_is_reserved_and_paid_and_rejected_branches_return(recorded_profile):
    tree = wide_chains(5, 3)
    result = simulate(
        _tree_scenario(
            recorded_profile,
            tree,
            **{"deployment.block_size": 1, "workload.num_requests": 1},
        )
    )
    check_result(result)
    steps = result.step_records[1:]
    assert (steps["query_tokens"] == 1 + 15).all()
    assert np.allclose(steps["propose_s"], 1e-4 + 3 * 1.5e-3 + 15 * 2e-5)
    assert (steps["used_blocks"] == steps["context_tokens"] + 16).all()
    assert (np.diff(steps["context_tokens"]) == 1 + steps["accepted_tokens"][:-1]).all()
    assert steps["accepted_tokens"].max() <= 3


def test_a_wider_tree_accepts_more_tokens_a_cycle(recorded_profile):
    # The invented recording puts every missed token at rank 1.
    narrow = summarise(simulate(_tree_scenario(recorded_profile, chain(3))))
    wide = summarise(simulate(_tree_scenario(recorded_profile, DraftTree((-1, -1, 0, 0, 2, 2)))))
    assert wide.tokens.mean_acceptance_length > narrow.tokens.mean_acceptance_length


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"speculation.num_speculative_tokens": 4}, "deep"),
        ({"speculation.tree": [0, 1]}, "parent"),
        ({"speculation.policy": {"kind": "goodput"}}, "static tree cannot"),
        ({"deployment.max_num_seqs": 60}, "max_num_batched_tokens"),
        ({"speculation.acceptance": "positional"}, "ranks"),
    ],
)
def test_a_tree_that_does_not_fit_is_refused(recorded_profile, changes, message):
    with pytest.raises(ScenarioError, match=message):
        simulate(_tree_scenario(recorded_profile, wide_chains(2, 3), **changes))


def test_a_tree_on_published_rates_is_refused(load_bundled):
    scenario, stored = load_bundled("h100_chat")
    asked = scenario.with_(
        **{
            "speculation.proposer": "eagle",
            "speculation.num_speculative_tokens": 3,
            "speculation.tree": [-1, 0, 1, -1],
        }
    )
    with pytest.raises(ScenarioError, match="ranks"):
        simulate(asked, stored=stored)
