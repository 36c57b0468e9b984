"""Where a replica's memory goes, by hand, and what speculation takes of it."""

import pytest

from simcore import simulate, summarise
from simcore.errors import InfeasibleError
from simcore.serving.memory import kv_budget
from tests.factories import make_scenario
from tests.invariants import check_result

# The invented profile: 1 GB of memory, 200 MB of weights, 4,096 bytes of KV a token, 1,000 words;
# its draft model 20 MB and 512 bytes a token.
USABLE_BYTES = 900_000_000
SEATS, GAMMA = 8, 4
LOGIT_BYTES = 4 * 1000
DRAFT = {
    "deployment.block_size": 16,
    "deployment.max_num_seqs": SEATS,
    "speculation.proposer": "draft_model",
    "speculation.num_speculative_tokens": GAMMA,
}


def _budget(stored, **changes):
    scenario = make_scenario(stored, **{**DRAFT, **changes})
    return kv_budget(stored.profile, scenario.deployment, scenario.speculation)


def test_memory_goes_to_weights_drafts_workspace_and_the_rest_to_blocks(recorded_profile):
    budget = _budget(recorded_profile)
    assert (budget.memory_bytes, budget.usable_bytes) == (1_000_000_000, USABLE_BYTES)
    assert (budget.target_weight_bytes, budget.draft_weight_bytes) == (200_000_000, 20_000_000)
    assert budget.workspace_bytes == SEATS * (1 + GAMMA) * LOGIT_BYTES == 160_000
    room_bytes = USABLE_BYTES - 200_000_000 - 20_000_000 - 160_000
    assert budget.bytes_per_token == 4096 + 512
    assert budget.total_blocks == room_bytes // (4608 * 16)


def test_what_speculation_took_is_the_difference_to_the_same_memory_without(recorded_profile):
    budget = _budget(recorded_profile)
    plain = _budget(recorded_profile, **{"speculation.num_speculative_tokens": 0})
    plain_room_bytes = USABLE_BYTES - 200_000_000 - SEATS * LOGIT_BYTES
    assert plain.total_tokens == plain_room_bytes // (4096 * 16) * 16
    assert plain.lost_tokens == plain.draft_weight_bytes == plain.draft_kv_bytes_per_token == 0
    assert budget.plain_tokens == plain.total_tokens
    assert budget.lost_tokens == plain.total_tokens - budget.total_tokens
    assert budget.lost_tokens > 20_000_000 // 4096  # weights alone, and draft KV on top


def test_a_proposer_without_weights_takes_the_wider_workspace_alone(recorded_profile):
    budget = _budget(recorded_profile, **{"speculation.proposer": "ngram"})
    more_logits = SEATS * GAMMA * LOGIT_BYTES
    assert budget.draft_weight_bytes == budget.draft_kv_bytes_per_token == 0
    assert 0 < budget.lost_tokens <= more_logits // 4096 + 16


@pytest.mark.parametrize("nodes", [3, 12])
def test_the_workspace_grows_with_the_candidates_that_are_scored(recorded_profile, nodes):
    tree = {"speculation.num_speculative_tokens": 1, "speculation.tree": [-1] * nodes}
    assert _budget(recorded_profile, **tree).workspace_bytes == SEATS * (1 + nodes) * LOGIT_BYTES
    # What is proposed and not verified has no logits of the target.
    more = {**tree, "speculation.num_proposed_tokens": 40}
    assert _budget(recorded_profile, **more).workspace_bytes == SEATS * (1 + nodes) * LOGIT_BYTES


def test_every_proposer_of_a_ladder_is_loaded(twin_profile):
    rung = {"below": 0.3, "num_speculative_tokens": 2, "proposer": "draft_model"}
    budget = _budget(
        twin_profile,
        **{
            "speculation.proposer": "ngram",
            "speculation.policy": {"kind": "memory_pressure", "ladder": [rung]},
        },
    )
    assert budget.draft_weight_bytes == 20_000_000
    assert budget.draft_kv_bytes_per_token == 512


def test_stated_room_has_weights_and_workspace_taken_off_already(recorded_profile):
    stated = {"deployment.kv_cache_tokens": 1600}
    budget = _budget(recorded_profile, **stated)
    assert budget.memory_bytes is budget.usable_bytes is None
    assert budget.target_weight_bytes == budget.draft_weight_bytes == 0
    assert budget.plain_tokens == 1600
    # 1600 · 4,096 bytes in tokens of 4,608: 1,422 in 88 blocks.
    assert budget.total_blocks == 88
    assert budget.lost_tokens == 1600 - 88 * 16
    off = _budget(recorded_profile, **stated, **{"speculation.num_speculative_tokens": 0})
    assert (off.total_tokens, off.lost_tokens) == (1600, 0)


def test_a_run_says_what_it_had_and_what_it_used(recorded_profile):
    result = simulate(
        make_scenario(
            recorded_profile,
            **{**DRAFT, "deployment.draft_pool": "own", "workload.arrivals": {"kind": "batch"}},
        ),
        stored=recorded_profile,
    )
    check_result(result)
    kv, steps = summarise(result).kv, result.step_records
    assert kv.workspace_bytes == 160_000
    scored = steps["query_tokens"] + (steps["prefill_tokens"] > 0) * (
        steps["num_running"] - steps["num_decoding"]
    )
    assert 0 < kv.peak_workspace_bytes <= scored.max() * LOGIT_BYTES
    assert kv.peak_workspace_bytes >= steps["query_tokens"].max() * LOGIT_BYTES
    assert kv.draft_pool_tokens == result.budget.draft_blocks * 16 == kv.total_tokens
    assert 0 < kv.draft_pool_peak_tokens <= kv.peak_used_tokens
    assert kv.lost_tokens == result.budget.lost_tokens > 0


@pytest.mark.parametrize(
    "changes",
    [
        {"deployment.memory_utilization": 0.2},  # weights alone take that much
        {"deployment.memory_utilization": 0.21},  # the draft's on top
        {"deployment.kv_cache_tokens": 15},
    ],
)
def test_a_service_without_room_for_a_block_is_refused_with_the_account(recorded_profile, changes):
    with pytest.raises(InfeasibleError, match=r"no room for KV: .* GB are left after"):
        _budget(recorded_profile, **changes)
