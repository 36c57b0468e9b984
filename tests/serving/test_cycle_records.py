"""Single cycles on demand, and long runs without steps: the same run, told in other detail."""

import numpy as np
import pytest

from simcore import simulate, summarise
from simcore.errors import ScenarioError
from simcore.serving import service
from tests.factories import make_scenario

TREE = [-1, -1, 0, 0, 1, 2]
KINDS = {
    "chain": {"num_speculative_tokens": 4},
    "plain beside chain": {"num_speculative_tokens": 4, "plain_fraction": 0.5},
    "tree that proposes more": {
        "num_speculative_tokens": 3,
        "tree": TREE,
        "num_proposed_tokens": 9,
    },
    "adaptive verification": {
        "num_speculative_tokens": 6,
        "policy": {"kind": "adaptive_verification"},
    },
    "oracle": {"num_speculative_tokens": 6, "policy": {"kind": "oracle"}},
    "moving average": {
        "num_speculative_tokens": 6,
        "policy": {"kind": "adaptive_ema", "candidates": [0, 2, 6], "probe_interval": 5},
    },
    "off": {"num_speculative_tokens": 0},
}
BUSY = {
    "workload.arrivals": {"kind": "poisson", "rate_per_s": 6.0},
    "workload.num_requests": 60,
    "deployment.replicas": 2,
    "deployment.kv_cache_tokens": 400,
    "deployment.block_size": 4,
}


def _scenario(stored, kind, **changes):
    speculation = {"proposer": "draft_model", **KINDS[kind]}
    return make_scenario(stored, **{**BUSY, "speculation": speculation, **changes})


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("patience_s", [None, 1.5])
def test_the_cycles_of_a_request_sum_to_its_record(twin_profile, kind, patience_s):
    scenario = _scenario(twin_profile, kind, **{"workload.patience_s": patience_s})
    result = simulate(scenario, stored=twin_profile, record_cycles=True)
    requests, cycles = result.request_records, result.cycle_records
    number = len(requests)
    counts = np.bincount(cycles["request"], minlength=number)
    assert np.array_equal(counts, requests["num_cycles"])
    for name in ("planned_tokens", "proposed_tokens", "verified_tokens"):
        sums = np.bincount(cycles["request"], weights=cycles[name], minlength=number)
        assert np.array_equal(sums, requests[name]), name
    # Before the cut at the output's end every cycle emits one token more than it accepted.
    accepted = np.bincount(cycles["request"], weights=cycles["accepted_tokens"], minlength=number)
    cycled = requests["emitted_tokens"] - (requests["emitted_tokens"] > 0)
    assert np.array_equal(accepted + counts, cycled + requests["cut_tokens"])


@pytest.mark.parametrize("kind", KINDS)
def test_each_cycle_begins_where_the_one_before_ended(twin_profile, kind):
    result = simulate(_scenario(twin_profile, kind), stored=twin_profile, record_cycles=True)
    frame = result.cycles
    assert (frame["time_s"].diff().dropna() >= 0.0).all()
    for request, own in frame.groupby("request"):
        positions = own["position"].to_numpy()
        assert positions[0] == 1
        assert np.array_equal(np.diff(positions), own["accepted_tokens"].to_numpy()[:-1] + 1)
        assert positions[-1] < result.request_records["output_tokens"][request]


def test_cycles_of_a_step_sum_to_the_step(twin_profile):
    scenario = _scenario(twin_profile, "tree that proposes more")
    result = simulate(scenario, stored=twin_profile, record_cycles=True)
    by_step = result.cycles.groupby(["replica", "time_s"]).sum()
    steps = result.steps[result.steps["num_decoding"] > 0].set_index(["replica", "end_s"])
    for name in ("planned_tokens", "proposed_tokens", "verified_tokens", "accepted_tokens"):
        assert (by_step[name] == steps[name].reindex(by_step.index)).all(), name
    assert len(by_step) == len(steps)


def test_an_aborted_step_leaves_no_cycles(twin_profile):
    failures = {"outages": [{"replica": 0, "at_s": 3.0, "for_s": 1.0}]}
    scenario = _scenario(twin_profile, "chain", **{"deployment.failures": failures})
    result = simulate(scenario, stored=twin_profile, record_cycles=True)
    assert result.step_records["is_aborted"].sum() == 1
    assert 3.0 not in set(result.cycle_records["time_s"][result.cycle_records["replica"] == 0])
    counts = np.bincount(result.cycle_records["request"], minlength=60)
    assert np.array_equal(counts, result.request_records["num_cycles"])


def test_recording_cycles_changes_nothing_else(twin_profile):
    scenario = _scenario(twin_profile, "chain")
    with_cycles = simulate(scenario, stored=twin_profile, record_cycles=True)
    without = simulate(scenario, stored=twin_profile)
    assert np.array_equal(with_cycles.request_records, without.request_records)
    assert np.array_equal(with_cycles.step_records, without.step_records)
    with pytest.raises(ScenarioError, match="record_cycles=True"):
        _ = without.cycles


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("chunk", [7, 200_000])
def test_a_run_that_drops_its_steps_has_the_same_summary(twin_profile, kind, chunk, monkeypatch):
    failures = {"mean_time_between_s": 5.0, "mean_repair_s": 1.0}
    scenario = _scenario(twin_profile, kind, **{"deployment.failures": failures})
    kept = summarise(simulate(scenario, stored=twin_profile)).model_dump()
    monkeypatch.setattr(service, "STEPS_PER_CHUNK", chunk)
    result = simulate(scenario, stored=twin_profile, keep_steps=False)
    assert len(result.step_records) == 0
    dropped = summarise(result).model_dump()
    assert dropped.pop("origin") == kept.pop("origin")
    # Sums of seconds in another order: the last bits may differ.
    assert dict(_leaves(dropped)) == pytest.approx(dict(_leaves(kept)), rel=1e-9, abs=1e-12)
    assert kept["num_aborted_steps"] > 0


def _leaves(value, name=""):
    """Every number of a summary by its path."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _leaves(inner, f"{name}.{key}")
    elif isinstance(value, tuple):
        for place, inner in enumerate(value):
            yield f"{name}.{place}", inner
    elif value is not None:
        yield name, value
