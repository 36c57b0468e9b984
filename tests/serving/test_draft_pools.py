"""Draft KV in a pool of its own: what a cycle reserves there, what it keeps, and shortage."""

import numpy as np
import pytest

from simcore import simulate, summarise
from simcore.errors import InfeasibleError, ScenarioError
from simcore.serving.memory import kv_budget
from simcore.serving.one_step import arrive, begin, commit
from simcore.serving.setup import new_state
from simcore.serving.state import DECODING
from tests.factories import Recording, make_profile, make_scenario
from tests.invariants import check_every_mode, check_result

GAMMA, PROMPT_TOKENS, OUTPUT_TOKENS = 4, 10, 40
OWN_POOL = {
    "workload.arrivals": {"kind": "batch"},
    "workload.lengths": {
        "kind": "fixed",
        "prompt_tokens": PROMPT_TOKENS,
        "output_tokens": OUTPUT_TOKENS,
    },
    "deployment.draft_pool": "own",
    "deployment.block_size": 1,
    "deployment.draft_block_size": 1,
    "deployment.kv_cache_tokens": 1000,
    "speculation.proposer": "draft_model",
    "speculation.num_speculative_tokens": GAMMA,
}


def _budget(stored, **changes):
    scenario = make_scenario(stored, **{**OWN_POOL, **changes})
    return kv_budget(stored.profile, scenario.deployment, scenario.speculation)


def _run(stored, **changes):
    result = simulate(make_scenario(stored, **{**OWN_POOL, **changes}), stored=stored)
    check_result(result)
    return result


def _cycles(stored, **changes):
    """(lag before, accepted, draft tokens held inside and after, record) of a request's cycles."""
    scenario = make_scenario(stored, **{**OWN_POOL, "workload.num_requests": 1, **changes})
    state = new_state(scenario, stored).state
    arrive(state)
    now_s = 0.0
    row = state.requests[0]
    while state.cursor[0].num_ended == 0:
        lag = int(row["committed_tokens"] - row["draft_committed_tokens"])
        decodes = row["state"] == DECODING
        begin(state, 0, now_s)
        inside = int(row["draft_held_blocks"])
        accepted = int(row["step_accepted"])
        now_s = float(state.replicas["step_end_s"][0])
        commit(state, 0)
        if decodes and state.cursor[0].num_ended == 0:
            yield lag, accepted, inside, int(row["draft_held_blocks"]), row.copy()


def test_a_cycle_reserves_gamma_and_the_lag_and_keeps_what_the_draft_has_read(recorded_profile):
    kept_before, lags = PROMPT_TOKENS, set()
    for lag, accepted, inside, kept, row in _cycles(recorded_profile):
        assert inside == kept_before + GAMMA + lag
        assert kept == kept_before + lag + 1 + min(accepted, GAMMA - 1)
        assert row["draft_committed_tokens"] == kept
        after = int(row["committed_tokens"]) - kept
        assert after == int(accepted == GAMMA)  # full acceptance leaves the draft one behind
        kept_before = kept
        lags.add(lag)
    assert lags == {0, 1}


@pytest.mark.parametrize(("acceptance", "lag"), [(1.0, 1), (0.0, 0)])
def test_full_acceptance_leaves_a_lag_of_one_and_none_leaves_none(tmp_path, acceptance, lag):
    stored = make_profile(tmp_path / "profile", Recording(acceptance=acceptance))
    cycles = list(_cycles(stored))
    assert len(cycles) > 3
    assert {int(row["committed_tokens"]) - kept for *_, kept, row in cycles} == {lag}
    assert cycles[0][2] == PROMPT_TOKENS + GAMMA
    if lag:  # 10 + 1 + 3 read of the first cycle; the second reads the lag too
        assert cycles[0][3] == 14
        assert cycles[1][2] == 14 + GAMMA + 1
        assert cycles[1][3] == 14 + 1 + 1 + 3


def test_drafts_that_are_off_leave_their_pool_alone_and_catch_up_later(recorded_profile):
    # Off for a batch of two, γ alone: the survivor's draft has fallen behind by what it emitted.
    scenario = make_scenario(
        recorded_profile,
        **{
            **OWN_POOL,
            "workload.num_requests": 2,
            "speculation.policy": {
                "kind": "batch_size_table",
                "table": [[1, 1, GAMMA], [2, 2, 0]],
            },
        },
    )
    state = new_state(scenario, recorded_profile).state
    state.requests["output_tokens"][0] = 15
    arrive(state)
    arrive(state)
    row, now_s, plain, caught_up = state.requests[1], 0.0, 0, False
    while state.cursor[0].num_ended < 2:
        begin(state, 0, now_s)
        if row["state"] == DECODING and state.replicas["mode"][0] == 0:
            plain += 1
            behind = row["committed_tokens"] - row["draft_committed_tokens"]
            assert row["draft_held_blocks"] == row["draft_committed_tokens"]
        elif row["state"] == DECODING and plain and not caught_up:
            caught_up = True
            behind = row["committed_tokens"] - row["draft_committed_tokens"]
            assert behind > 5
            assert row["draft_held_blocks"] == row["committed_tokens"] + GAMMA
        now_s = float(state.replicas["step_end_s"][0])
        commit(state, 0)
    assert plain > 5
    assert caught_up


def test_with_room_for_few_drafts_others_are_admitted_later_or_preempted(recorded_profile):
    many = {"workload.num_requests": 20, "deployment.max_num_seqs": 8}
    # A draft's token takes 512 bytes, the target's 4,096. Of 4,096,000 bytes 61,440 are 120 draft
    # tokens: two requests of 50; the target holds 985.
    narrow = _run(recorded_profile, **many, **{"deployment.draft_kv_fraction": 0.015})
    ample = _run(recorded_profile, **many, **{"deployment.draft_kv_fraction": 0.3})
    assert narrow.budget.draft_blocks == 120
    assert narrow.budget.total_blocks == 985
    small, large = summarise(narrow), summarise(ample)
    assert small.mean_batch_size < 0.6 * large.mean_batch_size
    assert large.num_preemptions == 0 < small.num_preemptions
    assert narrow.replica_records["draft_peak_used_blocks"][0] <= 120
    assert (narrow.requests["state"] == "finished").all()
    # The target's pool was never short: only the draft's can have stopped anybody.
    assert narrow.replica_records["peak_used_blocks"][0] < 0.4 * 985


def test_neither_pool_is_touched_where_one_lacks_blocks(recorded_profile):
    # What a request that was not admitted, or was preempted, holds is nothing, in both pools:
    # asserted after every event.
    for fraction in (0.012, 0.015, 0.9):
        check_every_mode(
            make_scenario(
                recorded_profile,
                **{
                    **OWN_POOL,
                    "workload.num_requests": 20,
                    "deployment.draft_kv_fraction": fraction,
                },
            ),
            recorded_profile,
        )


def test_alone_in_a_pool_too_small_for_its_drafts_a_request_goes_on_without(recorded_profile):
    # 24 draft tokens: the prompt of 10 and some cycles, not the 40 tokens of output.
    result = _run(
        recorded_profile,
        **{"workload.num_requests": 1, "deployment.draft_kv_fraction": 0.003},
    )
    assert result.budget.draft_blocks == 24
    steps = result.step_records[1:]
    assert steps["planned_tokens"][0] == GAMMA
    assert steps["planned_tokens"][-1] == 0
    assert (result.requests["state"] == "finished").all()


def test_who_went_on_without_drafts_and_is_lost_fails_rather_than_wait_for_ever(recorded_profile):
    small = {"workload.num_requests": 1, "deployment.draft_kv_fraction": 0.003}
    last_s = float(_run(recorded_profile, **small).step_records["begin_s"][-1])
    outage = {"replica": 0, "at_s": last_s + 1e-3, "for_s": 0.1}
    result = _run(recorded_profile, **small, **{"deployment.failures": {"outages": [outage]}})
    request = result.requests.iloc[0]
    assert request["emitted_tokens"] + PROMPT_TOKENS > 24
    assert (request["state"], request["reason"]) == ("failed", "outgrew the memory")


def test_a_prompt_larger_than_the_draft_pool_is_rejected_with_the_reason(recorded_profile):
    result = _run(
        recorded_profile,
        **{"workload.num_requests": 1, "deployment.draft_kv_fraction": 0.001},
    )
    assert result.budget.draft_blocks == 8
    assert result.requests["reason"].tolist() == ["prompt can never fit"]


def test_tensorrt_llm_has_as_many_draft_blocks_as_target_blocks(recorded_profile):
    auto = {
        "deployment.preset": "tensorrt_llm",
        "deployment.draft_pool": "auto",
        "deployment.draft_block_size": None,
        "deployment.block_size": 16,
    }
    budget = _budget(recorded_profile, **auto)
    # 1000 · 4096 bytes, shared by 4096 + 512 a token: 888.9 tokens in either.
    assert budget.total_blocks == budget.draft_blocks == 55
    assert budget.pools_are_alike
    assert budget.bytes_per_token == 4096
    shared = _budget(recorded_profile, **{**auto, "deployment.draft_pool": "shared"})
    assert (shared.total_blocks, shared.draft_blocks) == (55, 0)
    assert shared.bytes_per_token == 4096 + 512
    # A proposer without KV needs no pool.
    no_kv = _budget(recorded_profile, **{**auto, "speculation.proposer": "ngram"})
    assert no_kv.draft_blocks == 0


@pytest.mark.parametrize("preset", ["plain", "vllm", "sglang"])
def test_other_presets_keep_draft_kv_in_the_targets_blocks(recorded_profile, preset):
    changes = {
        "deployment.preset": preset,
        "deployment.draft_pool": "auto",
        "deployment.draft_block_size": None,
    }
    assert _budget(recorded_profile, **changes).draft_blocks == 0


def test_a_pool_of_other_blocks_holds_as_many_tokens(recorded_profile):
    budget = _budget(
        recorded_profile, **{"deployment.block_size": 16, "deployment.draft_block_size": 4}
    )
    assert budget.draft_blocks * 4 == pytest.approx(budget.total_blocks * 16, abs=16)
    assert not budget.pools_are_alike


def test_a_split_that_leaves_no_block_is_refused(recorded_profile):
    with pytest.raises(InfeasibleError, match="no room for KV"):
        _budget(
            recorded_profile,
            **{"deployment.draft_kv_fraction": 1e-6, "deployment.draft_block_size": 16},
        )


def test_a_prefix_cache_needs_pools_that_are_alike(recorded_profile):
    shared = {
        "workload.domains": {"chat": {"shared_prefix_tokens": 8}, "code": {"weight": 1.0}},
        "workload.num_requests": 10,
    }
    _run(recorded_profile, **shared)  # alike
    for unlike in (
        {"deployment.draft_kv_fraction": 0.3},
        {"deployment.draft_block_size": 4},
    ):
        with pytest.raises(ScenarioError, match="found again only in both pools"):
            _run(recorded_profile, **shared, **unlike)
        _run(recorded_profile, **shared, **unlike, **{"deployment.prefix_caching": False})


def test_a_hit_is_what_both_pools_hold(recorded_profile):
    # Turn two asks with turn one's text before it; turn one ran plain to its end, so that its draft
    # pool holds the prompt alone: only the prompt is found again.
    changes = {
        "workload.num_requests": 2,
        "workload.sessions": {"mean_turns": 2, "turns": "fixed", "think": {"mean_s": 1.0}},
    }
    plain = _run(recorded_profile, **changes, **{"speculation.plain_fraction": 1.0})
    assert plain.request_records["cached_tokens"].tolist() == [0, PROMPT_TOKENS]
    drafted = _run(recorded_profile, **changes).request_records
    assert drafted["cached_tokens"][1] > PROMPT_TOKENS + OUTPUT_TOKENS - GAMMA - 2


@pytest.mark.parametrize(
    "limit", [{"deployment.draft_kv_fraction": 0.2}, {"deployment.draft_block_size": 8}]
)
def test_limits_of_a_second_pool_are_refused_where_there_is_none(recorded_profile, limit):
    make_scenario(recorded_profile, **limit, **{"deployment.preset": "tensorrt_llm"})
    for pool in ("auto", "shared"):
        with pytest.raises(ScenarioError, match="draft KV lies in the target's blocks"):
            make_scenario(recorded_profile, **limit, **{"deployment.draft_pool": pool})


def test_seats_of_their_own_have_no_second_pool(recorded_profile):
    with pytest.raises(ScenarioError, match="every seat an equal share"):
        make_scenario(recorded_profile, **{**OWN_POOL, "deployment.preset": "llama_cpp"})


def test_a_pool_of_its_own_with_room_changes_no_time(recorded_profile):
    # Both with ample memory: which pool the draft's KV lies in is seen in no latency.
    ample = {"deployment.kv_cache_tokens": 100_000, "workload.num_requests": 30}
    own = _run(recorded_profile, **ample)
    shared = _run(
        recorded_profile,
        **ample,
        **{"deployment.draft_pool": "shared", "deployment.draft_block_size": None},
    )
    for column in ("first_token_s", "finish_s", "num_cycles"):
        assert np.array_equal(own.request_records[column], shared.request_records[column])


@pytest.mark.parametrize("fraction", [None, 0.02, 0.5])
@pytest.mark.parametrize("draft_block_size", [None, 4, 64])
def test_whole_lives_fit_into_both_pools_so_that_nobody_is_preempted(
    twin_profile, fraction, draft_block_size
):
    # A proposer that makes more than it verifies needs more of its own pool than of the target's.
    result = simulate(
        make_scenario(
            twin_profile,
            **{
                "workload.arrivals": {"kind": "batch"},
                "workload.num_requests": 60,
                "deployment.preset": "tensorrt_llm",
                "deployment.kv_cache_tokens": 2400,
                "deployment.draft_kv_fraction": fraction,
                "deployment.draft_block_size": draft_block_size,
                "speculation": {
                    "proposer": "draft_model",
                    "num_speculative_tokens": 2,
                    "tree": [-1, -1, 0, 1],
                    "num_proposed_tokens": 30,
                },
            },
        ),
        stored=twin_profile,
    )
    check_result(result)
    assert result.request_records["num_preemptions"].sum() == 0
    assert set(result.requests["state"]) <= {"finished", "rejected"}
    assert (result.requests["state"] == "finished").sum() > 20
    assert (result.step_records["num_decoding"] > 1).any()
