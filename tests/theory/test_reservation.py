"""What the lookahead reservation costs, told apart from everything else that speculation does.

A proposer whose drafts are never accepted commits one token a cycle, exactly as plain decoding
does. In a closed batch, steps being counted and not timed, the two runs then differ in one thing
alone: the room that a cycle reserves beyond its root. A simulator that forgot the reservation
would give the plain run's batches and preemptions for both.
"""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from simcore import simulate
from simcore.matching import load_traces, matching_records
from tests.factories import MAX_GAMMA, make_scenario

PROMPT_TOKENS, OUTPUT_TOKENS, SEATS = 20, 60, 16
TIGHT_KV_TOKENS = 480  # six whole requests of 80 tokens; sixteen seats
AMPLE_KV_TOKENS = 100_000


@pytest.fixture(scope="module")
def nothing_accepted(recorded_profile):
    """The n-gram traces with every draft proposed and none accepted."""
    records = matching_records(recorded_profile, make_scenario(recorded_profile), "ngram")
    traces = load_traces(recorded_profile, records)
    assert traces is not None
    rejected = np.zeros_like(traces.accepted)
    # As a loaded profile's: the kernel would compile once more for an array that can be written.
    rejected.setflags(write=traces.accepted.flags.writeable)
    return replace(traces, accepted=rejected)


@pytest.fixture(scope="module")
def run_closed_batch(recorded_profile, nothing_accepted):
    """Forty alike requests at time 0, with γ drafts and this much KV, blocks of one token."""

    def run(gamma: int, kv_cache_tokens: int):
        scenario = make_scenario(
            recorded_profile,
            **{
                "workload.arrivals": {"kind": "batch"},
                "workload.lengths": {
                    "kind": "lognormal",
                    "prompt": {
                        "mean_tokens": PROMPT_TOKENS,
                        "cv": 0.0,
                        "max_tokens": PROMPT_TOKENS,
                    },
                    "output": {
                        "mean_tokens": OUTPUT_TOKENS,
                        "cv": 0.0,
                        "max_tokens": OUTPUT_TOKENS,
                    },
                },
                "workload.num_requests": 40,
                "deployment.max_num_seqs": SEATS,
                "deployment.max_num_batched_tokens": 10_000,
                "deployment.block_size": 1,
                "deployment.kv_cache_tokens": kv_cache_tokens,
                "speculation.num_speculative_tokens": gamma,
            },
        )
        result = simulate(scenario, traces=nothing_accepted)
        assert (result.requests["state"] == "finished").all()
        assert result.request_records["accepted_tokens"].sum() == 0
        return result

    return run


def test_with_ample_memory_rejected_drafts_change_no_batch(run_closed_batch):
    plain, wide = (run_closed_batch(gamma, AMPLE_KV_TOKENS) for gamma in (0, MAX_GAMMA))
    assert np.array_equal(plain.step_records["num_running"], wide.step_records["num_running"])
    assert plain.request_records["num_preemptions"].sum() == 0
    assert wide.request_records["num_preemptions"].sum() == 0


def test_in_tight_memory_the_reservation_alone_shrinks_batches_and_preempts_more(
    run_closed_batch,
):
    plain, *wider = (run_closed_batch(gamma, TIGHT_KV_TOKENS) for gamma in (0, 2, 4, MAX_GAMMA))
    batches = [float(run.step_records["num_running"].mean()) for run in (plain, *wider)]
    preemptions = [int(run.request_records["num_preemptions"].sum()) for run in (plain, *wider)]
    assert all(b < a for a, b in pairwise(batches))
    # What a simulator without the reservation would have said of γ = 8.
    assert preemptions[0] < preemptions[-1]
    assert len(plain.step_records) < len(wider[-1].step_records)


def test_every_step_holds_its_committed_tokens_and_the_whole_reservation(run_closed_batch):
    steps = run_closed_batch(MAX_GAMMA, TIGHT_KV_TOKENS).step_records
    committed_alone = steps["context_tokens"] + steps["prefill_tokens"] + steps["num_decoding"]
    lookahead = steps["used_blocks"] - committed_alone
    alone = steps["num_running"] == 1  # may give its drafts up rather than fail
    assert np.array_equal(lookahead[~alone], MAX_GAMMA * steps["num_decoding"][~alone])
    assert (steps["used_blocks"] <= TIGHT_KV_TOKENS).all()
