"""Where everything is accepted or nothing, where outputs end on a cycle's edge, where memory is
short and drafts are poor."""

import numpy as np
import pytest

from simcore import simulate, summarise
from simcore.acceptance.trace import RANK_ABSENT
from simcore.profile.store import write_profile
from tests.factories import Recording, make_profile, make_scenario
from tests.invariants import check_every_mode, check_result

WIDE_TREE = [-1] * 8 + [0] * 4 + [8, 9]  # fourteen candidates, three deep
RUNGS = [
    {"below": 0.5, "num_draft_tokens": 4},
    {"below": 0.3, "num_draft_tokens": 1},
    {"below": 0.15, "num_speculative_tokens": 0},
]
LADDER = {"kind": "memory_pressure", "ladder": RUNGS, "hysteresis": 0.05}


@pytest.fixture(scope="module", params=[0.0, 1.0], ids=["nothing accepted", "all accepted"])
def forced(request, tmp_path_factory):
    """(the acceptance, a profile in which every draft meets it)."""
    folder = tmp_path_factory.mktemp("forced")
    stored = make_profile(folder / "profile", Recording(acceptance=request.param))
    return request.param, _with_misses_in_no_tree(stored, folder / "without")


def _with_misses_in_no_tree(stored, folder):
    """The same recording; a token that was not the first candidate was none at all."""
    rows = stored.traces.to_pandas()
    rows["rank"] = [[0 if r == 0 else RANK_ABSENT for r in ranks] for ranks in rows["rank"]]
    return write_profile(stored.profile, folder, cost=stored.cost_samples.to_pandas(), traces=rows)


@pytest.fixture(scope="module")
def all_accepted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("all_accepted") / "profile"
    return make_profile(folder, Recording(acceptance=1.0))


@pytest.fixture(scope="module")
def poor(tmp_path_factory):
    folder = tmp_path_factory.mktemp("poor") / "profile"
    return make_profile(folder, Recording(acceptance=0.1))


def _fixed(prompt_tokens, output_tokens):
    return {"kind": "fixed", "prompt_tokens": prompt_tokens, "output_tokens": output_tokens}


@pytest.mark.parametrize(
    "speculation",
    [
        {"num_speculative_tokens": 5},
        {"num_speculative_tokens": 3, "tree": WIDE_TREE},
        {"num_speculative_tokens": 3, "tree": WIDE_TREE, "num_proposed_tokens": 20},
        {"num_speculative_tokens": 3, "tree": WIDE_TREE, "policy": LADDER},
        {"num_speculative_tokens": 4, "policy": {"kind": "memory_pressure"}},
        {"num_speculative_tokens": 4, "policy": {"kind": "adaptive_verification"}},
    ],
    ids=["chain", "wide tree", "proposes more", "narrowed", "shortened", "adaptive"],
)
@pytest.mark.parametrize("kv_cache_tokens", [300, 100_000])
def test_laws_hold_whether_all_is_accepted_or_nothing(forced, speculation, kv_cache_tokens):
    acceptance, stored = forced
    scenario = make_scenario(
        stored,
        **{
            "workload.arrivals": {"kind": "poisson", "rate_per_s": 10.0},
            "workload.num_requests": 30,
            "deployment.kv_cache_tokens": kv_cache_tokens,
            "deployment.block_size": 4,
            "speculation": {"proposer": "draft_model", "plain_fraction": 0.2, **speculation},
        },
    )
    check_every_mode(scenario, stored)
    requests = simulate(scenario, stored=stored).request_records
    drafted = requests[requests["can_speculate"] == 1]
    plain = requests[requests["can_speculate"] == 0]
    assert (plain["planned_tokens"] == 0).all()
    assert (plain["num_cycles"] == plain["output_tokens"] - 1).all()
    if acceptance == 0.0:
        assert drafted["accepted_tokens"].sum() == 0
        assert (drafted["num_cycles"] == drafted["output_tokens"] - 1).all()
    else:
        assert requests["corrected_tokens"].sum() == 0
        assert drafted["accepted_tokens"].sum() > 0


@pytest.mark.parametrize("gamma", [1, 3, 5])
@pytest.mark.parametrize("over", [0, 1, 2])
def test_an_output_that_ends_on_a_cycles_edge_is_cut_there(all_accepted, gamma, over):
    # The first token comes from prefill; each cycle emits γ + 1. `over` tokens past the third edge.
    output_tokens = 1 + 3 * (gamma + 1) + over
    result = simulate(
        make_scenario(
            all_accepted,
            **{
                "workload.lengths": _fixed(9, output_tokens),
                "workload.num_requests": 5,
                "deployment.block_size": 1,
                "speculation.num_speculative_tokens": gamma,
            },
        ),
        stored=all_accepted,
    )
    check_result(result)
    for row in result.request_records:
        last = min(over, gamma + 1)
        assert row["num_cycles"] == 3 + (over > 0)
        assert row["bonus_tokens"] == 3 + (last == gamma + 1)
        assert row["cut_tokens"] == (gamma + 1 - last if over else 0)
        assert row["accepted_tokens"] == output_tokens - 1 - row["bonus_tokens"]


def test_an_output_of_one_token_has_no_cycle(all_accepted):
    result = simulate(
        make_scenario(all_accepted, **{"workload.lengths": _fixed(9, 1)}), stored=all_accepted
    )
    check_result(result)
    assert (result.request_records["num_cycles"] == 0).all()
    assert (result.request_records["first_token_s"] == result.request_records["finish_s"]).all()


def test_a_wide_tree_that_is_rejected_holds_its_blocks_for_one_step_only(tmp_path):
    stored = make_profile(tmp_path / "profile", Recording(acceptance=0.0))
    result = simulate(
        make_scenario(
            stored,
            **{
                "workload.lengths": _fixed(9, 30),
                "workload.num_requests": 1,
                "deployment.block_size": 1,
                "speculation": {
                    "proposer": "draft_model",
                    "num_speculative_tokens": 1,
                    "tree": [-1] * 14,  # ranks are 0 or 1, and 1 is the second candidate: accepted
                },
            },
        ),
        stored=stored,
    )
    check_result(result)
    steps = result.step_records[1:]
    assert (steps["used_blocks"] == steps["context_tokens"] + 15).all()
    # Here every token has rank 1: the second sibling is accepted in every cycle, thirteen rejected.
    assert (steps["accepted_tokens"][:-1] == 1).all()
    assert (np.diff(steps["context_tokens"]) == 2).all()


def test_poor_drafts_in_little_memory_give_way_to_plain_decoding_and_come_back(poor):
    # A burst into a bounded queue, and then a trickle.
    scenario = make_scenario(
        poor,
        **{
            "workload.arrivals": {
                "kind": "ramp",
                "from_rate_per_s": 30.0,
                "to_rate_per_s": 0.3,
                "duration_s": 8.0,
            },
            "workload.num_requests": 150,
            "workload.lengths": _fixed(30, 40),
            "deployment.max_num_seqs": 12,
            "deployment.max_queue": 10,
            "deployment.kv_cache_tokens": 600,
            "deployment.block_size": 4,
            "speculation": {
                "proposer": "draft_model",
                "num_speculative_tokens": 4,
                "policy": {"kind": "memory_pressure"},
            },
        },
    )
    check_every_mode(scenario, poor)
    result = simulate(scenario, stored=poor)
    frame, steps = result.requests, result.step_records
    assert 10 <= steps["num_waiting"].max() <= 10 + 12  # the preempted come on top
    assert set(frame["state"]) == {"finished", "rejected"}
    assert set(frame.loc[frame["state"] == "rejected", "reason"]) == {"queue full"}
    changes = result.policy_changes
    assert {0, 2, 4} == set(changes["to_tokens"])
    assert set(changes["reason"]) == {"blocks running out", "blocks free again"}
    last = steps[steps["num_decoding"] > 0][-5:]
    assert (last["gamma"] == 4).all()  # the trickle is drafted in full again
    assert (last["planned_tokens"] == 4 * last["num_decoding"]).all()
    fixed = simulate(scenario.with_(**{"speculation.policy": {"kind": "fixed"}}), stored=poor)
    waste = [summarise(run).num_preemptions for run in (result, fixed)]
    assert waste[0] < waste[1]


def test_a_cancelled_cycle_gives_its_blocks_back_before_they_are_offered_again(all_accepted):
    scenario = make_scenario(
        all_accepted,
        **{
            "workload.arrivals": {"kind": "poisson", "rate_per_s": 20.0},
            "workload.num_requests": 80,
            "workload.patience_s": 0.35,
            "deployment.kv_cache_tokens": 300,
            "deployment.block_size": 2,
            "deployment.draft_pool": "own",
            "speculation": {
                "proposer": "draft_model",
                "num_speculative_tokens": 3,
                "tree": WIDE_TREE,
                "num_proposed_tokens": 18,
            },
        },
    )
    check_every_mode(scenario, all_accepted)
    frame = simulate(scenario, stored=all_accepted).requests
    inside = (frame["state"] == "cancelled") & frame["scheduled_s"].notna()
    assert inside.sum() > 5


def test_the_next_is_served_after_one_that_filled_memory_and_every_token_of_a_step(
    recorded_profile,
):
    scenario = make_scenario(
        recorded_profile,
        **{
            "workload.arrivals": {"kind": "batch"},
            "workload.num_requests": 3,
            "workload.lengths": {"kind": "fixed", "prompt_tokens": 20, "output_tokens": 200},
            "deployment.max_num_seqs": 1,
            "deployment.max_num_batched_tokens": 5,  # one decode with its drafts
            "deployment.kv_cache_tokens": 64,
        },
    )
    check_every_mode(scenario, recorded_profile)
    requests = simulate(scenario, stored=recorded_profile).requests
    assert (requests["reason"] == "outgrew the memory").all()
    assert (requests["emitted_tokens"] > 1).all()
