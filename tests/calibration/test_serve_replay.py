"""The simulator, given a real run's acceptance and step times, leaves the same records."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install .[calibration]")

from calibration.model.target import load_decoder
from calibration.serve.run import Ran, replay
from simcore.acceptance.trace import walk
from simcore.serving.service import Service as Clocked
from tests.calibration.serving import Pair, all_returned, asked, served

pytestmark = pytest.mark.torch

TIGHT = {"deployment.kv_cache_tokens": 115, "deployment.max_num_seqs": 4}
POLICIES = {
    "fixed": {},
    "table": {
        "speculation.policy": {
            "kind": "batch_size_table",
            "table": [[1, 2, 4], [3, 4, 2], [5, 8, 0]],
        }
    },
    "ema": {
        "speculation.policy": {
            "kind": "adaptive_ema",
            "candidates": [0, 1, 4],
            "update_interval": 2,
            "warmup_steps": 2,
            "down_hysteresis": 4.0,
            "probe_interval": 3,
        }
    },
    "gate": {
        "speculation.policy": {"kind": "acceptance_gate", "window_steps": 4, "threshold": 0.6}
    },
    "ladder under memory pressure": TIGHT | {"speculation.policy": {"kind": "memory_pressure"}},
    "impatient": {"workload.patience_s": 0.1},
    "short queue": {"deployment.max_num_seqs": 2, "deployment.max_queue": 1},
    "small chunks": {"deployment.max_num_batched_tokens": 30, "deployment.max_num_seqs": 4},
    "tight memory": TIGHT,
    "outage": {
        "deployment.failures": {
            "outages": [{"replica": 0, "at_s": 0.2, "for_s": 0.2}],
            "requests": "retry",
        }
    },
}


@pytest.fixture(scope="module")
def pair(tiny_pair):
    return Pair(*(load_decoder(p, "float64", "cpu") for p in (tiny_pair.target, tiny_pair.draft)))


def same(real: Ran, simulated: Ran) -> None:
    for name in ("requests", "steps", "changes", "cycles", "replicas"):
        own, other = getattr(real, name), getattr(simulated, name)
        assert len(own) == len(other), name
        for field in own.dtype.names:
            assert np.array_equal(own[field], other[field]), f"{name}.{field}"


@pytest.mark.parametrize(
    ("timed", "temperature"), [(False, 0.0), (True, 1.0)], ids=["by law, greedy", "timed, sampled"]
)
@pytest.mark.parametrize("changes", POLICIES.values(), ids=POLICIES)
def test_simulated_and_real_runs_of_one_workload_leave_the_same_records(
    pair, prompt_ids, changes, timed, temperature
):
    requests = asked([*prompt_ids, *prompt_ids], [20, 9, 30, 3, 14, 24, 1, 17], temperature, 0.02)
    service = pair.service("draft_model", requests, "chain 4", temperature, timed=timed, **changes)
    run, cache = served(service, "greedy" if temperature == 0.0 else "exact")
    same(run.records, replay(run))
    all_returned(run, cache)


@pytest.mark.parametrize(
    ("kind", "topology"),
    [
        ("ngram", "chain 4"),
        ("suffix", "chain 4"),
        ("layer_skip", "fixture"),
        ("draft_model", "3 chains"),
        ("draft_model", "dynamic"),
        ("none", "chain 4"),
    ],
)
def test_every_proposer_that_fills_its_topology_replays_alike(pair, prompt_ids, kind, topology):
    service = pair.service(kind, asked(prompt_ids, gap_s=0.03), topology, timed=True)
    run, _ = served(service)
    same(run.records, replay(run))


def test_the_bulk_kernel_replays_a_run_as_well(pair, prompt_ids):
    run, _ = served(pair.service("ngram", asked(prompt_ids, gap_s=0.03)))
    state = run.service.new_state(run.traces)
    state.requests["output_tokens"] = run.records.requests["output_tokens"]
    bulk = Clocked(state)
    bulk.run()
    for name in state.requests.dtype.names:
        assert np.array_equal(state.requests[name], run.records.requests[name]), name
    for name in bulk.steps.dtype.names:
        assert np.array_equal(bulk.steps[name], run.records.steps[name]), name


def test_the_traces_of_a_run_walk_as_its_requests_did(pair, prompt_ids):
    run, _ = served(pair.service("draft_model", asked(prompt_ids, 20)))
    lengths = run.records.requests["output_tokens"]
    cycles = run.records.cycles
    for request in range(len(prompt_ids)):
        own = cycles[cycles["request"] == request]
        found = walk(run.traces, 4, requests=np.array([request]))
        count = len(own)
        assert found.accepted[:count].tolist() == own["accepted_tokens"].tolist()
        assert own["position"][-1] < lengths[request]


def test_a_replay_of_other_acceptance_leaves_other_records(pair, prompt_ids):
    run, _ = served(pair.service("draft_model", asked(prompt_ids)))
    run.traces.accepted[:] = 0
    with pytest.raises(AssertionError):
        same(run.records, replay(run))


def test_the_policies_of_this_file_do_act(pair, prompt_ids):
    requests = asked([*prompt_ids, *prompt_ids], [20, 9, 30, 3, 14, 24, 1, 17], 1.0, 0.02)
    for kind in ("table", "ema", "gate", "ladder under memory pressure"):
        service = pair.service("draft_model", requests, "chain 4", 1.0, **POLICIES[kind])
        run, _ = served(service, "exact")
        assert len(run.records.changes) > 0, kind
    service = pair.service("draft_model", requests, "chain 4", 1.0, **POLICIES["outage"])
    run, _ = served(service, "exact")
    assert run.records.steps["is_aborted"].sum() == 1
    run, _ = served(pair.service("draft_model", requests, "chain 4", 1.0, **TIGHT), "exact")
    assert run.records.requests["num_preemptions"].sum() > 0
    service = pair.service("draft_model", requests, "chain 4", 1.0, **POLICIES["impatient"])
    run, _ = served(service, "exact")
    assert (run.records.requests["reason"] > 0).any()
