"""Engines' own rules: reservations worked out by hand, and what each does under pressure."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from simcore import simulate, summarise
from simcore.engines import RULES, sglang_step_slots
from simcore.errors import InfeasibleError
from simcore.serving.engine import run_until
from simcore.serving.setup import new_state
from simcore.serving.state import DECODING
from tests.factories import make_scenario
from tests.invariants import check_every_mode, check_result

PRESETS = sorted(RULES)
LENGTHS = {
    "kind": "lognormal",
    "prompt": {"mean_tokens": 40, "cv": 0.8, "max_tokens": 120},
    "output": {"mean_tokens": 40, "cv": 0.8, "max_tokens": 120},
}


def _one_request(stored, preset, **changes):
    lengths = {
        "kind": "lognormal",
        "prompt": {"mean_tokens": 64, "cv": 0, "max_tokens": 64},
        "output": {"mean_tokens": 40, "cv": 0, "max_tokens": 40},
    }
    result = simulate(
        make_scenario(
            stored,
            **{
                "deployment.preset": preset,
                "deployment.block_size": 1,
                "workload.lengths": lengths,
                "workload.num_requests": 1,
                "speculation.proposer": "draft_model",
                "speculation.num_speculative_tokens": 5,
                **changes,
            },
        )
    )
    check_result(result)
    return result.step_records[1:]  # the first is the prefill


def _crowd(stored, preset, **changes):
    result = simulate(
        make_scenario(
            stored,
            **{
                "deployment.preset": preset,
                "deployment.kv_cache_tokens": 640,
                "deployment.max_num_seqs": 12,
                "workload.arrivals": {"kind": "batch"},
                "workload.num_requests": 50,
                "workload.lengths": LENGTHS,
                **changes,
            },
        ),
        stored=stored,
    )
    check_result(result)
    return result


def test_vllm_asks_for_two_k_plus_one_slots_with_a_draft_model(recorded_profile):
    steps = _one_request(recorded_profile, "vllm")
    beyond = steps["used_blocks"] - steps["context_tokens"]
    assert (beyond == 2 * 5 + 1).all()


def test_vllm_asks_for_one_plus_k_slots_with_ngram(recorded_profile):
    steps = _one_request(recorded_profile, "vllm", **{"speculation.proposer": "ngram"})
    assert (steps["used_blocks"] - steps["context_tokens"] == 1 + 5).all()


def test_vllm_keeps_the_blocks_of_rejected_drafts(recorded_profile):
    # γ = 5 with 16-token blocks: blocks taken for drafts stay, whatever was accepted.
    steps = _one_request(recorded_profile, "vllm", **{"deployment.block_size": 16})
    assert (np.diff(steps["used_blocks"]) >= 0).all()


@pytest.mark.parametrize("proposer", ["draft_model", "ngram"])
def test_llama_cpps_last_drafts_leave_room_for_the_token_of_every_cycle(recorded_profile, proposer):
    steps = _one_request(recorded_profile, "llama_cpp", **{"speculation.proposer": proposer})
    left = 40 - 1 - (np.cumsum(steps["emitted_tokens"]) - steps["emitted_tokens"])
    assert (steps["gamma"] == np.minimum(5, left - 1)).all()
    assert (steps["proposed_tokens"] <= left - 1).all()
    assert steps["gamma"].min() < 5


def test_vllm_drafts_in_full_to_the_end(recorded_profile):
    assert (_one_request(recorded_profile, "vllm")["gamma"] == 5).all()


def test_sglang_slots_follow_the_worked_example():
    assert sglang_step_slots(5, 4, 8, page_size=64) == 512
    assert sglang_step_slots(5, 4, 8, page_size=1) == 20
    assert sglang_step_slots(3, 1, 4, page_size=64) == 4


def test_sglang_slots_hold_all_that_a_bushy_tree_has_scored():
    assert sglang_step_slots(2, 2, 500, page_size=16) == 500


def test_a_bushy_tree_has_blocks_for_every_candidate_under_sglang(recorded_profile):
    bushy = {
        "workload.arrivals": {"kind": "batch"},
        "speculation.tree": [-1, -1, *[0] * 160],
        "speculation.num_speculative_tokens": 2,
        "deployment.preset": "sglang",
        "deployment.max_num_batched_tokens": 2048,
        "deployment.kv_cache_tokens": 4000,
    }
    check_every_mode(make_scenario(recorded_profile, **bushy), recorded_profile)


@pytest.mark.parametrize(("page_size", "beyond"), [(64, 1024), (1, 40)])
def test_sglang_holds_twice_the_slots_of_a_step(recorded_profile, page_size, beyond):
    # Steps 5, topk 4: four branches below the root, the first five deep.
    steps = _one_request(
        recorded_profile,
        "sglang",
        **{
            "speculation.tree": [-1, -1, -1, -1, 0, 4, 5, 6],
            "deployment.block_size": page_size,
        },
    )
    held = -(-(steps["context_tokens"] + beyond) // page_size)
    assert steps["used_blocks"].tolist() == held.tolist()


def test_sglang_never_mixes_prefill_and_decode(recorded_profile):
    steps = _crowd(recorded_profile, "sglang").step_records
    assert not ((steps["prefill_tokens"] > 0) & (steps["num_decoding"] > 0)).any()
    mixed = _crowd(recorded_profile, "vllm").step_records
    assert ((mixed["prefill_tokens"] > 0) & (mixed["num_decoding"] > 0)).any()


def test_sglang_retracts_the_requests_that_have_generated_least(recorded_profile):
    scenario = make_scenario(
        recorded_profile,
        **{
            "deployment.preset": "sglang",
            "deployment.kv_cache_tokens": 640,
            "deployment.max_num_seqs": 12,
            "workload.arrivals": {"kind": "batch"},
            "workload.num_requests": 50,
            "workload.lengths": LENGTHS,
        },
    )
    state = new_state(scenario, recorded_profile).state
    num_retractions = 0
    while np.isfinite(state.replicas["step_end_s"][0]) or state.cursor[0].next_arrival == 0:
        before = state.requests["num_preemptions"].copy()
        run_until(state, float(np.nan_to_num(state.replicas["step_end_s"][0], posinf=0.0)))
        retracted = state.requests[state.requests["num_preemptions"] > before]
        running = state.requests[state.requests["state"] == DECODING]
        if len(retracted) and len(running):
            num_retractions += len(retracted)
            assert retracted["emitted_tokens"].max() <= running["emitted_tokens"].min()
    assert num_retractions > 5


def test_tensorrt_llm_admits_whole_lives_and_never_preempts(recorded_profile):
    whole = summarise(_crowd(recorded_profile, "tensorrt_llm"))
    plain = summarise(_crowd(recorded_profile, "plain"))
    assert whole.num_preemptions == 0 < plain.num_preemptions
    assert whole.mean_batch_size < plain.mean_batch_size


def test_llama_cpp_gives_every_seat_its_own_share(recorded_profile):
    result = _crowd(
        recorded_profile,
        "llama_cpp",
        **{"deployment.max_num_seqs": 4, "deployment.kv_cache_tokens": 1024},
    )
    steps = result.step_records
    slot_blocks = result.budget.total_blocks // 4
    assert (steps["used_blocks"] == steps["num_running"] * slot_blocks).all()
    assert summarise(result).num_preemptions == 0


def test_a_request_longer_than_its_slot_is_rejected_or_fails_with_the_reason(recorded_profile):
    result = _crowd(
        recorded_profile,
        "llama_cpp",
        **{"deployment.max_num_seqs": 8, "deployment.kv_cache_tokens": 640},
    )
    reasons = set(result.requests.loc[result.requests["state"] != "finished", "reason"])
    assert reasons == {"prompt can never fit", "outgrew the memory"}


def test_a_prefill_in_several_chunks_keeps_its_seat(recorded_profile):
    lengths = {
        "kind": "lognormal",
        "prompt": {"mean_tokens": 150, "cv": 0, "max_tokens": 150},
        "output": {"mean_tokens": 20, "cv": 0, "max_tokens": 20},
    }
    result = _crowd(
        recorded_profile,
        "llama_cpp",
        **{
            "deployment.max_num_seqs": 3,
            "deployment.kv_cache_tokens": 800,
            "deployment.max_num_batched_tokens": 64,
            "workload.lengths": lengths,
        },
    )
    assert (result.requests["state"] == "finished").all()


def test_fewer_blocks_than_seats_cannot_be_shared_out(recorded_profile):
    with pytest.raises(InfeasibleError, match="seats of their own"):
        _crowd(recorded_profile, "llama_cpp", **{"deployment.kv_cache_tokens": 160})


def test_nobody_waits_for_a_replica_whose_last_request_failed(recorded_profile):
    lengths = {
        "kind": "lognormal",
        "prompt": {"mean_tokens": 200, "cv": 0, "max_tokens": 200},
        "output": {"mean_tokens": 200, "cv": 0, "max_tokens": 200},
    }
    for preset in PRESETS:
        result = _crowd(
            recorded_profile,
            preset,
            **{
                "deployment.max_num_seqs": 2,
                "deployment.kv_cache_tokens": 320,
                "workload.lengths": lengths,
                "workload.num_requests": 3,
            },
        )
        assert set(result.requests["state"]) <= {"failed", "rejected", "finished"}


@pytest.mark.parametrize("preset", PRESETS)
def test_no_preset_knows_how_long_an_output_will_be(recorded_profile, preset):
    def steps_with(output_tokens: int):
        lengths = {
            "kind": "lognormal",
            "prompt": {"mean_tokens": 30, "cv": 0, "max_tokens": 30},
            "output": {"mean_tokens": output_tokens, "cv": 0, "max_tokens": 100},
        }
        result = _crowd(
            recorded_profile,
            preset,
            **{"workload.lengths": lengths, "deployment.max_num_seqs": 4},
        )
        return result.step_records, float(result.request_records["finish_s"].min())

    short, first_finish_s = steps_with(40)
    long, _ = steps_with(90)
    count = int(np.sum(short["end_s"] < first_finish_s))
    assert count > 3
    assert np.array_equal(short[:count], long[:count])


def test_a_full_queue_rejects_with_the_reason(recorded_profile):
    result = _crowd(recorded_profile, "plain", **{"deployment.max_queue": 10})
    rejected = result.requests[result.requests["state"] == "rejected"]
    assert set(rejected["reason"]) == {"queue full"}
    # All fifty arrive before the first step: ten wait, nobody runs yet.
    assert len(rejected) == 40


def test_every_preset_names_the_version_that_it_follows():
    for rules in RULES.values():
        assert rules.engine
        assert rules.version


@given(
    preset=st.sampled_from(PRESETS),
    kv_cache_tokens=st.sampled_from([400, 1500, 100_000]),
    block_size=st.sampled_from([1, 16, 64]),
    gamma=st.integers(0, 8),
    proposer=st.sampled_from(["ngram", "draft_model"]),
    max_num_batched_tokens=st.sampled_from([109, 300]),
    seed=st.integers(0, 2**30),
)
def test_every_law_holds_under_every_preset(recorded_profile, preset, seed, **values):
    scenario = make_scenario(
        recorded_profile,
        **{
            "deployment.preset": preset,
            "deployment.max_num_seqs": 12,
            "workload.arrivals": {"kind": "poisson", "rate_per_s": 30.0},
            "workload.num_requests": 40,
            "workload.lengths": LENGTHS,
            "deployment.kv_cache_tokens": values["kv_cache_tokens"],
            "deployment.block_size": values["block_size"],
            "deployment.max_num_batched_tokens": values["max_num_batched_tokens"],
            "speculation.proposer": values["proposer"],
            "speculation.num_speculative_tokens": values["gamma"],
            "seed": seed,
        },
    )
    seats_fit = values["kv_cache_tokens"] // values["block_size"] // 2 >= 12  # drafts take some
    assume(preset != "llama_cpp" or seats_fit)
    check_every_mode(scenario, recorded_profile)
