"""Urgent classes go first; inside a class nothing changes."""

from itertools import pairwise

import numpy as np

from simcore import simulate
from simcore.serving.engine import run_until
from simcore.serving.setup import new_state
from simcore.serving.state import DECODING, PREFILLING
from tests.factories import make_scenario
from tests.invariants import check_every_mode, check_result

CROWD = {
    "workload.arrivals": {"kind": "poisson", "rate_per_s": 20.0},
    "workload.lengths": {"kind": "recorded"},
    "workload.num_requests": 120,
    "workload.domains": {"chat": {"priority": 7}, "code": {"priority": -3}},
    "deployment.scheduling": "priority",
    "deployment.max_num_seqs": 6,
}
TIGHT = {"deployment.kv_cache_tokens": 400, "deployment.block_size": 4}


def _run(stored, **changes):
    result = simulate(make_scenario(stored, **{**CROWD, **changes}), stored=stored)
    check_result(result)
    return result


def _wait_s(result):
    frame = result.requests
    return (frame["scheduled_s"] - frame["arrival_s"]).groupby(frame["domain"]).mean()


def test_the_urgent_wait_less_and_the_others_pay_for_it(recorded_profile):
    by_class = _wait_s(_run(recorded_profile))
    alike = _wait_s(_run(recorded_profile, **{"deployment.scheduling": "fcfs"}))
    assert by_class["code"] < 0.5 * alike["code"]
    assert by_class["chat"] > alike["chat"]


def test_inside_a_class_the_first_to_come_is_the_first_served(recorded_profile):
    requests = _run(recorded_profile).request_records
    overtaken = 0
    for level in (0, 1):
        own = requests[requests["level"] == level]
        assert (np.diff(own["scheduled_s"]) >= 0.0).all()
    for earlier, later in pairwise(requests):
        overtaken += int(later["scheduled_s"] < earlier["scheduled_s"])
    assert overtaken > 5  # between classes


def test_nobody_urgent_waits_while_another_is_admitted(recorded_profile):
    requests = _run(recorded_profile).request_records
    urgent, other = (requests[requests["level"] == level] for level in (0, 1))
    for row in other:
        waiting = (urgent["arrival_s"] < row["scheduled_s"]) & (
            urgent["scheduled_s"] > row["scheduled_s"]
        )
        assert not waiting.any()


def test_short_of_blocks_the_last_of_the_least_urgent_is_preempted(recorded_profile):
    scenario = make_scenario(recorded_profile, **{**CROWD, **TIGHT})
    state = new_state(scenario, recorded_profile).state
    victims = classes = 0
    while state.cursor[0].num_ended < len(state.requests):
        before = state.requests.copy()
        moment_s = min(
            float(state.replicas["step_end_s"][0]),
            float(state.requests["arrival_s"][min(state.cursor[0].next_arrival, 119)])
            if state.cursor[0].next_arrival < 120
            else np.inf,
        )
        run_until(state, moment_s)
        lost = np.flatnonzero(state.requests["num_preemptions"] > before["num_preemptions"])
        stay = state.requests[np.isin(state.requests["state"], [PREFILLING, DECODING])]
        stay = stay[stay["scheduled_s"] < moment_s]
        for request in lost:
            row = state.requests[request]
            assert row["level"] >= stay["level"].max()
            alike = stay[stay["level"] == row["level"]]
            assert (alike["arrival_s"] <= row["arrival_s"]).all()
            victims += 1
            classes += int(row["level"] > stay["level"].min())
    assert victims > 10
    assert classes >= 3


def test_equal_priorities_are_first_come_first_served_record_for_record(recorded_profile):
    alike = {"chat": {"priority": 5}, "code": {"priority": 5}}
    for extra in ({}, TIGHT, {"deployment.preset": "sglang"}):
        changes = {"workload.domains": alike, **extra}
        by_class = _run(recorded_profile, **changes)
        fcfs = _run(recorded_profile, **changes, **{"deployment.scheduling": "fcfs"})
        assert np.array_equal(by_class.request_records, fcfs.request_records)
        assert np.array_equal(by_class.step_records, fcfs.step_records)


def test_priorities_mean_nothing_first_come_first_served(recorded_profile):
    changes = {"deployment.scheduling": "fcfs"}
    with_ones = _run(recorded_profile, **changes)
    without = _run(recorded_profile, **changes, **{"workload.domains": {"chat": 1.0, "code": 1.0}})
    assert np.array_equal(with_ones.request_records, without.request_records)


def test_every_law_holds_with_classes_in_tight_memory(recorded_profile):
    check_every_mode(make_scenario(recorded_profile, **{**CROWD, **TIGHT}), recorded_profile)
