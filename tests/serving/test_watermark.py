"""The share of blocks that admission leaves free."""

import math

import numpy as np
import pytest

from simcore import simulate, summarise
from tests.factories import make_scenario
from tests.invariants import check_every_mode, check_result

CROWD = {
    "workload.arrivals": {"kind": "batch"},
    "workload.lengths": {"kind": "fixed", "prompt_tokens": 24, "output_tokens": 40},
    "workload.num_requests": 40,
    "deployment.max_num_seqs": 16,
    "deployment.max_num_batched_tokens": 2048,
    "deployment.block_size": 4,
    "deployment.kv_cache_tokens": 640,
    "speculation.num_speculative_tokens": 3,
}


def _run(stored, watermark, **changes):
    scenario = make_scenario(stored, **{**CROWD, "deployment.watermark": watermark, **changes})
    result = simulate(scenario, stored=stored)
    check_result(result)
    return result


@pytest.mark.parametrize("watermark", [0.1, 0.3, 0.6])
def test_admission_leaves_that_share_free(recorded_profile, watermark):
    # Prompts of 24 tokens fit a step: every step with prefill admitted somebody.
    result = _run(recorded_profile, watermark)
    steps, total = result.step_records, result.budget.total_blocks
    admitting = steps[(steps["prefill_tokens"] > 0) & (steps["num_running"] > 1)]
    assert len(admitting) > 3
    free = total - admitting["used_blocks"]
    assert free.min() >= math.ceil(watermark * total)
    # Running requests may use it: it is room to grow.
    others = steps[steps["prefill_tokens"] == 0]
    assert (total - others["used_blocks"]).min() < math.ceil(watermark * total)


def test_a_watermark_trades_batch_size_for_preemptions(recorded_profile):
    none, some = (summarise(_run(recorded_profile, w)) for w in (0.0, 0.4))
    assert some.num_preemptions < none.num_preemptions
    assert some.mean_batch_size < none.mean_batch_size


@pytest.mark.parametrize("watermark", [0.5, 0.99])
def test_nobody_waits_for_ever_below_the_watermark(recorded_profile, watermark):
    # Above the mark there is no room for a second prompt of 240 tokens in 640.
    result = _run(
        recorded_profile,
        watermark,
        **{
            "workload.lengths": {"kind": "fixed", "prompt_tokens": 240, "output_tokens": 20},
            "workload.num_requests": 8,
        },
    )
    assert (result.requests["state"] == "finished").all()
    assert result.step_records["num_running"].max() == 1


def test_in_ample_memory_a_watermark_changes_nothing(recorded_profile):
    ample = {"deployment.kv_cache_tokens": 1_000_000}
    none, some = (_run(recorded_profile, w, **ample) for w in (0.0, 0.2))
    assert np.array_equal(none.request_records, some.request_records)
    assert np.array_equal(none.step_records, some.step_records)


def test_the_smallest_watermark_keeps_one_block(recorded_profile):
    one = _run(recorded_profile, 1e-9).step_records
    admitting = one[(one["prefill_tokens"] > 0) & (one["num_running"] > 1)]
    total = 640 // 4
    assert admitting["used_blocks"].max() <= total - 1


@pytest.mark.parametrize("preset", ["plain", "vllm", "sglang"])
def test_every_law_holds_above_a_watermark(recorded_profile, preset):
    scenario = make_scenario(
        recorded_profile,
        **{**CROWD, "deployment.watermark": 0.3, "deployment.preset": preset},
    )
    check_every_mode(scenario, recorded_profile)
