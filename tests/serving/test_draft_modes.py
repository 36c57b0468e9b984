"""Narrower trees, another proposer, more proposed than verified: what each reserves and accepts."""

import numpy as np
import pytest

from simcore import simulate
from simcore.cost.law import ProposerRun, TokenLaw
from simcore.errors import ScenarioError
from simcore.matching import load_traces, matching_records
from tests.factories import make_scenario
from tests.invariants import check_every_mode, check_result

#        0   1  2  3  4  5   children of the root, then of 0, 0, 1, 2
TREE = [-1, -1, 0, 0, 1, 2]
PATHS = {(): -1, (0,): 0, (1,): 1, (0, 0): 2, (0, 1): 3, (1, 0): 4, (0, 0, 0): 5}
LONG = {"kind": "fixed", "prompt_tokens": 40, "output_tokens": 120}
OFF = {"below": 0.2, "num_speculative_tokens": 0}


def _ladder(*rungs, hysteresis=0.05):
    return {"kind": "memory_pressure", "ladder": list(rungs), "hysteresis": hysteresis}


def _alone(stored, *rungs, **changes):
    """One request that slowly fills the memory, blocks of one token."""
    result = simulate(
        make_scenario(
            stored,
            **{
                "workload.lengths": LONG,
                "workload.num_requests": 1,
                "deployment.block_size": 1,
                "deployment.kv_cache_tokens": 220,
                "speculation": {
                    "proposer": "draft_model",
                    "num_speculative_tokens": 3,
                    "tree": TREE,
                    "policy": _ladder(*rungs) if rungs else {"kind": "fixed"},
                },
                **changes,
            },
        ),
        stored=stored,
        record_cycles=True,
    )
    check_result(result)
    return result


def _tokens_held_beyond(result):
    """What each cycle held beyond the committed tokens."""
    steps = result.step_records[result.step_records["num_decoding"] > 0]
    return steps, steps["used_blocks"] - steps["context_tokens"]


def _trace_row(result, cycle):
    request = result.request_records[cycle["request"]]
    return result.model.traces.offset[request["trace"]] + cycle["position"]


def _walked_depth(ranks, num_nodes):
    """How deep a realised path leads down the first nodes of TREE."""
    path: tuple[int, ...] = ()
    for rank in ranks[:3]:
        node = PATHS.get((*path, int(rank)))
        if node is None or node >= num_nodes:
            break
        path = (*path, int(rank))
    return len(path)


def test_a_narrower_tree_is_reserved_instead_of_the_wide_one(twin_profile):
    rungs = ({"below": 0.6, "num_draft_tokens": 4}, {"below": 0.4, "num_draft_tokens": 2}, OFF)
    result = _alone(twin_profile, *rungs)
    steps, beyond = _tokens_held_beyond(result)
    assert np.array_equal(beyond, 1 + steps["planned_tokens"])
    assert list(dict.fromkeys(steps["planned_tokens"].tolist())) == [6, 4, 2, 0]
    assert list(dict.fromkeys(steps["gamma"].tolist())) == [3, 2, 1, 0]
    total = result.budget.total_blocks
    free = (total - steps["context_tokens"]) / total
    expected = np.select([free >= 0.6, free >= 0.4, free >= 0.2], [6, 4, 2], 0)
    assert np.array_equal(steps["planned_tokens"], expected)


def test_the_log_names_tokens_proposers_and_reason(twin_profile):
    rungs = (
        {"below": 0.6, "num_draft_tokens": 4},
        {"below": 0.4, "num_speculative_tokens": 5, "proposer": "ngram"},
        OFF,
    )
    changes = _alone(twin_profile, *rungs).policy_changes
    assert changes["from_tokens"].tolist() == [6, 4, 5]
    assert changes["to_tokens"].tolist() == [4, 5, 0]
    assert changes["from_proposer"].tolist() == ["draft_model", "draft_model", "ngram"]
    assert changes["to_proposer"].tolist() == ["draft_model", "ngram", "draft_model"]
    assert set(changes["reason"]) == {"blocks running out"}
    shares = changes["free_blocks"] / 195  # 220 tokens shared by 4,096 + 512 bytes a token
    assert (shares < [0.6, 0.4, 0.2]).all()
    assert (shares > [0.55, 0.35, 0.15]).all()


@pytest.mark.parametrize("num_proposed", [None, 11])
def test_a_tree_accepts_what_its_recorded_ranks_say_at_every_width(twin_profile, num_proposed):
    result = simulate(
        make_scenario(
            twin_profile,
            **{
                "workload.arrivals": {"kind": "batch"},
                "workload.num_requests": 30,
                "deployment.kv_cache_tokens": 500,
                "deployment.block_size": 2,
                "speculation": {
                    "proposer": "draft_model",
                    "num_speculative_tokens": 3,
                    "tree": TREE,
                    "num_proposed_tokens": num_proposed,
                    "policy": _ladder(
                        {"below": 0.5, "num_draft_tokens": 4},
                        {"below": 0.3, "num_draft_tokens": 1},
                        {"below": 0.1, "num_speculative_tokens": 0},
                    ),
                },
            },
        ),
        stored=twin_profile,
        record_cycles=True,
    )
    check_result(result)
    widths = {6: 6, 11: 6, 4: 4, 1: 1, 0: 0}
    seen = set()
    for cycle in result.cycle_records:
        width = widths[int(cycle["planned_tokens"])]
        ranks = result.model.traces.rank[_trace_row(result, cycle)]
        assert cycle["accepted_tokens"] == _walked_depth(ranks, width)
        assert cycle["verified_tokens"] == width
        seen.add(width)
    assert seen == {0, 1, 4, 6}


def test_another_proposer_is_replayed_from_its_own_recording(twin_profile):
    rung = {"below": 0.5, "num_speculative_tokens": 4, "proposer": "ngram"}
    scenario = make_scenario(
        twin_profile,
        **{
            "workload.arrivals": {"kind": "batch"},
            "workload.num_requests": 30,
            "deployment.kv_cache_tokens": 500,
            "deployment.block_size": 2,
            "speculation": {
                "proposer": "draft_model",
                "num_speculative_tokens": 6,
                "policy": _ladder(rung),
            },
        },
    )
    result = simulate(scenario, stored=twin_profile, record_cycles=True)
    check_result(result)
    own = result.model.traces
    other = load_traces(twin_profile, matching_records(twin_profile, scenario, "ngram"))
    planned = result.cycle_records["planned_tokens"]
    for cycle in result.cycle_records:
        row = _trace_row(result, cycle)
        recorded = other.accepted[row] if cycle["planned_tokens"] == 4 else own.accepted[row]
        assert cycle["accepted_tokens"] == min(recorded, cycle["planned_tokens"])
    assert {4, 6} <= set(planned.tolist())
    assert not np.array_equal(own.accepted, other.accepted)


def test_another_proposer_costs_what_it_costs(twin_profile):
    rung = {"below": 0.5, "num_speculative_tokens": 5, "proposer": "ngram"}
    steps = _alone(twin_profile, rung).step_records[1:]
    by_ngram = steps["planned_tokens"] == 5
    assert by_ngram.any()
    assert not by_ngram.all()
    law = twin_profile.profile.cost.propose
    ngram, draft = law["ngram"], law["draft_model"]
    assert np.allclose(steps["propose_s"][by_ngram], ngram.base_s + ngram.per_request_s)
    assert np.allclose(
        steps["propose_s"][~by_ngram],
        draft.base_s + 3 * draft.per_pass_s + 6 * draft.per_draft_token_s,
    )


def test_proposing_costs_by_what_is_proposed_and_verifying_by_what_is_verified(twin_profile):
    def account(num_proposed):
        result = _alone(twin_profile, **{"speculation.num_proposed_tokens": num_proposed})
        return result, result.step_records[1:]

    (_, lean), (result, rich) = account(None), account(20)
    request = result.request_records[0]
    cycles = request["num_cycles"]
    assert request["planned_tokens"] == request["proposed_tokens"] == 20 * cycles
    assert request["verified_tokens"] == 6 * cycles
    assert 0 < request["accepted_tokens"] < request["verified_tokens"]
    draft = twin_profile.profile.cost.propose["draft_model"]
    assert np.allclose(rich["propose_s"] - lean["propose_s"], 14 * draft.per_draft_token_s)
    for name in ("target_s", "reconcile_s", "query_tokens", "used_blocks", "accepted_tokens"):
        assert np.array_equal(rich[name], lean[name])
    assert (rich["query_tokens"] == 7).all()


def test_the_ladder_is_climbed_again_as_blocks_come_back(twin_profile):
    result = simulate(
        make_scenario(
            twin_profile,
            **{
                "workload.arrivals": {"kind": "batch"},
                "workload.num_requests": 30,
                "deployment.kv_cache_tokens": 600,
                "deployment.block_size": 2,
                "speculation": {
                    "proposer": "draft_model",
                    "num_speculative_tokens": 3,
                    "tree": TREE,
                    "policy": _ladder(
                        {"below": 0.5, "num_draft_tokens": 4},
                        {"below": 0.3, "num_speculative_tokens": 3, "proposer": "ngram"},
                        OFF,
                        hysteresis=0.1,
                    ),
                },
            },
        ),
        stored=twin_profile,
    )
    changes, total = result.policy_changes, result.budget.total_blocks
    assert set(changes["reason"]) == {"blocks running out", "blocks free again"}
    assert changes["to_tokens"].iloc[-1] == 6  # back to the full draft once few are left
    bounds = {4: 0.5, 3: 0.3, 0: 0.2}
    for change in changes[changes["reason"] == "blocks free again"].itertuples():
        assert change.free_blocks / total >= bounds[change.from_tokens] + 0.1


def test_after_another_proposer_the_own_one_catches_up(twin_profile):
    # The draft model has no KV of what was emitted while another drafted: it pays to come back.
    law = twin_profile.profile.cost
    with_tax = law.model_copy(
        update={
            "proposer_runs": {
                "draft_model": ProposerRun(switch_on=TokenLaw(base_s=0.5, per_token_s=0.0))
            }
        }
    )
    stored = type(twin_profile)(
        twin_profile.profile.model_copy(update={"cost": with_tax}), twin_profile.folder
    )
    changes = {
        "workload.arrivals": {"kind": "batch"},
        "workload.num_requests": 30,
        "deployment.kv_cache_tokens": 600,
        "deployment.block_size": 2,
        "speculation": {
            "proposer": "draft_model",
            "num_speculative_tokens": 4,
            "policy": _ladder({"below": 0.5, "num_speculative_tokens": 4, "proposer": "ngram"}),
        },
    }
    result = simulate(make_scenario(stored, **changes), stored=stored)
    back = result.policy_changes[result.policy_changes["to_proposer"] == "draft_model"]
    steps = result.step_records
    taxed = set(steps["begin_s"][steps["propose_s"] > 0.5].tolist())
    assert len(back) > 0
    assert set(back["time_s"]) & taxed


def test_two_proposers_of_different_texts_cannot_share_a_ladder(recorded_profile):
    rung = {"below": 0.5, "num_speculative_tokens": 2, "proposer": "ngram"}
    with pytest.raises(ScenarioError, match="measured on the same outputs"):
        simulate(
            make_scenario(
                recorded_profile,
                **{
                    "speculation.proposer": "draft_model",
                    "speculation.policy": _ladder(rung),
                },
            ),
            stored=recorded_profile,
        )


@pytest.mark.parametrize(
    ("speculation", "message"),
    [
        ({"num_proposed_tokens": 5, "tree": TREE}, "more than it verifies only for a tree"),
        ({"num_proposed_tokens": 9}, "more than it verifies only for a tree"),
        ({"policy": _ladder({"below": 0.5, "num_draft_tokens": 2})}, "expected a tree"),
        (
            {"tree": TREE, "policy": _ladder({"below": 0.5, "num_draft_tokens": 7})},
            "expected a tree with at least",
        ),
        ({"policy": _ladder({"below": 0.5})}, "and not both"),
        (
            {"policy": _ladder({"below": 0.5, "num_draft_tokens": 2, "num_speculative_tokens": 1})},
            "and not both",
        ),
        (
            {"policy": _ladder({"below": 0.5, "num_speculative_tokens": 0, "proposer": "ngram"})},
            "above 0",
        ),
        (
            {"policy": _ladder({"below": 0.5, "num_speculative_tokens": 4, "proposer": "ngram"})},
            "a ladder goes down",
        ),
        ({"tree": TREE, "policy": {"kind": "memory_pressure"}}, "static tree cannot"),
        ({"tree": TREE, "policy": {"kind": "adaptive_verification"}}, "static tree cannot"),
        (
            {"tree": TREE, "policy": {"kind": "goodput", "candidates": [0, 3]}},
            "static tree cannot",
        ),
    ],
)
def test_modes_that_contradict_themselves_are_refused(twin_profile, speculation, message):
    with pytest.raises(ScenarioError, match=message):
        make_scenario(
            twin_profile,
            **{
                "speculation": {
                    "proposer": "draft_model",
                    "num_speculative_tokens": 3,
                    **speculation,
                }
            },
        )


def test_a_proposer_that_the_profile_lacks_is_named(twin_profile):
    rung = {"below": 0.5, "num_speculative_tokens": 2, "proposer": "eagle"}
    with pytest.raises(ScenarioError, match="no proposer 'eagle'"):
        simulate(
            make_scenario(twin_profile, **{"speculation.policy": _ladder(rung)}),
            stored=twin_profile,
        )


@pytest.mark.parametrize("preset", ["plain", "vllm", "sglang", "tensorrt_llm"])
def test_every_law_holds_down_a_whole_ladder(twin_profile, preset):
    rungs = (
        {"below": 0.6, "num_draft_tokens": 3},
        {"below": 0.4, "num_speculative_tokens": 4, "proposer": "ngram"},
        OFF,
    )
    scenario = make_scenario(
        twin_profile,
        **{
            "workload.arrivals": {"kind": "poisson", "rate_per_s": 8.0},
            "workload.num_requests": 40,
            "deployment.preset": preset,
            "deployment.kv_cache_tokens": 500,
            "deployment.block_size": 4,
            "speculation": {
                "proposer": "draft_model",
                "num_speculative_tokens": 3,
                "tree": TREE,
                "num_proposed_tokens": 8,
                "plain_fraction": 0.2,
                "policy": _ladder(*rungs),
            },
        },
    )
    check_every_mode(scenario, twin_profile)
