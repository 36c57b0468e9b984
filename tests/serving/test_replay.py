"""Trace replay inside the service equals a direct walk over the same traces, exactly."""

import numpy as np
import pytest

from simcore import simulate, summarise
from simcore.acceptance.model import draw_cycle as inner_draw_cycle
from simcore.acceptance.model import trace_model
from simcore.acceptance.trace import walk
from simcore.matching import load_traces, matching_records
from tests.factories import make_scenario, sampled
from tests.from_python import from_python
from tests.invariants import check_result

draw_cycle = from_python(inner_draw_cycle)

DEPLOYMENTS = {
    "one request at a time": {"deployment.max_num_seqs": 1},
    "a batch": {"deployment.max_num_seqs": 8, "workload.arrivals": {"kind": "batch"}},
    "tight memory": {
        "deployment.max_num_seqs": 8,
        "deployment.kv_cache_tokens": 192,
        "workload.arrivals": {"kind": "batch"},
    },
    "two replicas": {
        "deployment.replicas": 2,
        "workload.arrivals": {"kind": "poisson", "rate_per_s": 20.0},
    },
    "small chunks": {"deployment.max_num_batched_tokens": 40, "deployment.max_num_seqs": 4},
}


@pytest.mark.parametrize("gamma", [1, 3, 8])
@pytest.mark.parametrize("changes", DEPLOYMENTS.values(), ids=DEPLOYMENTS)
def test_replayed_tokens_a_cycle_equal_the_direct_walk(recorded_profile, gamma, changes):
    scenario = make_scenario(
        recorded_profile, **{"speculation.num_speculative_tokens": gamma, **changes}
    )
    result = simulate(scenario)
    check_result(result)
    traces = result.model.traces
    expected = walk(traces, gamma, requests=result.request_records["trace"])
    requests = result.request_records
    assert requests["num_cycles"].sum() == len(expected.emitted)
    assert (requests["emitted_tokens"] - 1).sum() == expected.emitted.sum()
    per_request = np.bincount(expected.request, minlength=len(requests))
    assert requests["num_cycles"].tolist() == per_request.tolist()
    account = summarise(result).tokens
    assert account.mean_acceptance_length == expected.emitted.sum() / len(expected.emitted)


def test_tight_memory_did_preempt(recorded_profile):
    result = simulate(make_scenario(recorded_profile, **DEPLOYMENTS["tight memory"]))
    assert summarise(result).num_preemptions > 0


def test_sampled_replay_equals_a_walk_under_the_same_luck(recorded_profile):
    scenario = make_scenario(recorded_profile, **sampled({"speculation.proposer": "draft_model"}))
    result = simulate(scenario)
    check_result(result)
    records = matching_records(recorded_profile, scenario, "draft_model")
    tables = trace_model(load_traces(recorded_profile, records)).tables
    for request, row in enumerate(result.request_records):
        position, cycles = 1, 0
        while position < row["output_tokens"]:
            first = int(tables.offset[row["trace"]])
            _, accepted = draw_cycle(
                tables, np.uint64(scenario.seed), request, 0, position, first + position, 0, 4
            )
            position += accepted + 1
            cycles += 1
        assert cycles == row["num_cycles"]


def test_longer_outputs_continue_with_other_requests_and_say_so(recorded_profile):
    lengths = {
        "kind": "lognormal",
        "prompt": {"mean_tokens": 20, "cv": 0, "max_tokens": 20},
        "output": {"mean_tokens": 200, "cv": 0, "max_tokens": 200},
    }
    result = simulate(make_scenario(recorded_profile, **{"workload.lengths": lengths}))
    check_result(result)
    requests = result.request_records
    first = result.model.traces.output_tokens[requests["trace"]]
    assert summarise(result).tokens.stitched_tokens > 0
    # 60 tokens is the longest recording: at least 140 of 200 come from a second one or later.
    assert (requests["stitched_tokens"] >= 200 - 60 - 8).all()
    assert len(first) == len(requests)


def test_luck_does_not_depend_on_batch_replicas_or_order(recorded_profile):
    base = sampled({"speculation.proposer": "draft_model"})
    alone = simulate(make_scenario(recorded_profile, **base, **{"deployment.max_num_seqs": 1}))
    crowd = simulate(
        make_scenario(
            recorded_profile,
            **base,
            **{"deployment.replicas": 3, "workload.arrivals": {"kind": "batch"}},
        )
    )
    for column in ("num_cycles", "accepted_tokens", "bonus_tokens", "cut_tokens"):
        assert (alone.request_records[column] == crowd.request_records[column]).all()
