"""Clients that give up, queues that overflow, and where arrivals are routed."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcore import simulate, summarise
from simcore.engines import RULES
from simcore.errors import ScenarioError
from tests.factories import make_scenario
from tests.invariants import check_every_mode, check_result

BUSY = {
    "workload.arrivals": {"kind": "poisson", "rate_per_s": 20.0},
    "workload.num_requests": 80,
    "deployment.max_num_seqs": 4,
}


def _run(stored, **changes):
    result = simulate(make_scenario(stored, **{**BUSY, **changes}), stored=stored)
    check_result(result)
    return result


def test_clients_without_patience_leave_and_the_others_are_served_sooner(recorded_profile):
    patient = _run(recorded_profile)
    hurried = _run(recorded_profile, **{"workload.patience_s": 2.0})
    states = hurried.requests["state"].value_counts()
    assert states["cancelled"] > 10
    assert states["finished"] > 10
    assert set(hurried.requests.loc[hurried.requests["state"] == "cancelled", "reason"]) == {
        "gave up"
    }
    assert summarise(hurried).e2e.p95_s < summarise(patient).e2e.p95_s


def test_a_waiting_client_leaves_at_its_deadline_and_a_running_one_at_the_commit(recorded_profile):
    everyone_at_once = {"workload.arrivals": {"kind": "batch"}, "workload.patience_s": 2.0}
    result = _run(recorded_profile, **everyone_at_once)
    gone = result.request_records[result.requests["state"] == "cancelled"]
    waited = gone["scheduled_s"] < 0
    assert waited.any()
    assert not waited.all()
    assert np.allclose(gone["finish_s"][waited], gone["gives_up_s"][waited])
    ends = set(result.step_records["end_s"].tolist())
    for row in gone[~waited & (gone["num_preemptions"] == 0)]:
        assert row["finish_s"] in ends
        assert row["finish_s"] >= row["gives_up_s"]


def test_a_client_that_gives_up_gets_nothing_of_the_step_under_way(recorded_profile):
    result = _run(recorded_profile, **{"workload.patience_s": 2.0})
    gone = result.request_records[result.requests["state"] == "cancelled"]
    assert (gone["last_emission_s"] <= gone["gives_up_s"]).all()


def test_endless_patience_changes_nothing(recorded_profile):
    plain = _run(recorded_profile)
    endless = _run(recorded_profile, **{"workload.patience_s": 1e9})
    for column in ("finish_s", "emitted_tokens", "num_cycles"):
        assert np.array_equal(plain.request_records[column], endless.request_records[column])
    assert np.array_equal(plain.step_records, endless.step_records)


def test_no_patience_at_all_is_refused(recorded_profile):
    with pytest.raises(ScenarioError, match="patience_s"):
        make_scenario(recorded_profile, **{"workload.patience_s": 0.0})


def test_routing_by_load_shortens_the_tail_of_uneven_requests(recorded_profile):
    uneven = {
        "workload.lengths": {
            "kind": "lognormal",
            "prompt": {"mean_tokens": 30, "cv": 0.2, "max_tokens": 60},
            "output": {"mean_tokens": 60, "cv": 3.0, "max_tokens": 1000},
        },
        "workload.num_requests": 600,
        "workload.arrivals": {"kind": "poisson", "rate_per_s": 6.0},
        "deployment.replicas": 4,
    }
    in_turn = summarise(_run(recorded_profile, **uneven))
    by_load = summarise(
        _run(recorded_profile, **uneven, **{"deployment.routing": "least_outstanding"})
    )
    assert by_load.queue.mean_s < in_turn.queue.mean_s


def test_the_load_of_a_replica_is_zero_once_everyone_has_left(recorded_profile):
    result = _run(
        recorded_profile,
        **{
            "deployment.routing": "least_outstanding",
            "deployment.replicas": 3,
            "deployment.kv_cache_tokens": 200,
            "workload.patience_s": 3.0,
        },
    )
    assert (result.replica_records["outstanding_tokens"] == 0).all()


@given(
    preset=st.sampled_from(sorted(RULES)),
    routing=st.sampled_from(["round_robin", "least_outstanding"]),
    patience_s=st.sampled_from([0.05, 0.5, 3.0]),
    max_queue=st.sampled_from([None, 0, 5]),
    kv_cache_tokens=st.sampled_from([400, 100_000]),
    replicas=st.integers(1, 3),
    seed=st.integers(0, 2**30),
)
def test_every_law_holds_whoever_gives_up(recorded_profile, seed, **values):
    scenario = make_scenario(
        recorded_profile,
        **{
            **BUSY,
            "deployment.preset": values["preset"],
            "deployment.routing": values["routing"],
            "deployment.max_queue": values["max_queue"],
            "deployment.kv_cache_tokens": values["kv_cache_tokens"],
            "deployment.replicas": values["replicas"],
            "workload.patience_s": values["patience_s"],
            "seed": seed,
        },
    )
    check_every_mode(scenario, recorded_profile)


def test_who_gives_up_between_two_steps_leaves_before_anyone_is_preempted(recorded_profile):
    changes = {
        "workload.arrivals": {"kind": "batch"},
        "workload.num_requests": 6,
        "workload.lengths": {"kind": "fixed", "prompt_tokens": 30, "output_tokens": 40},
        "deployment.max_num_seqs": 4,
        "deployment.kv_cache_tokens": 160,
        "speculation.proposer": None,
        "speculation.num_speculative_tokens": 0,
    }
    patient = _run(recorded_profile, **changes).step_records
    first = patient[patient["num_preemptions"] > 0][0]
    changes["workload.patience_s"] = float(first["begin_s"])  # the step before ends then
    scenario = make_scenario(recorded_profile, **{**BUSY, **changes})
    check_every_mode(scenario, recorded_profile)
    requests = simulate(scenario, stored=recorded_profile).requests
    assert (requests["state"] == "cancelled").all()
    assert (requests["finish_s"] == requests["gives_up_s"]).all()
    assert not requests["num_preemptions"].any()


@pytest.mark.parametrize(
    "limit",
    ["max_num_batched_tokens", "max_num_seqs", "max_queue", "block_size", "kv_cache_tokens"],
)
def test_limits_that_no_number_of_the_kernel_holds_are_refused(recorded_profile, limit):
    with pytest.raises(ScenarioError, match=limit):
        make_scenario(recorded_profile, **{f"deployment.{limit}": 10**30})
