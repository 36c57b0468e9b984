"""Sessions: the next turn comes after the answer, holds all that was said, or never comes."""

import numpy as np
import pytest

from simcore import simulate, summarise
from simcore.serving.setup import new_state
from simcore.serving.state import CANCELLED, FINISHED, NONE
from tests.factories import make_scenario
from tests.invariants import check_every_mode, check_result, check_while_running

SESSIONS = {"mean_turns": 4.0, "max_turns": 8, "think": {"mean_s": 1.5, "cv": 1.0}}
LENGTHS = {
    "kind": "lognormal",
    "prompt": {"mean_tokens": 25, "cv": 0.6, "max_tokens": 80},
    "output": {"mean_tokens": 20, "cv": 0.6, "max_tokens": 60},
}
BASE = {
    "workload.arrivals": {"kind": "poisson", "rate_per_s": 3.0},
    "workload.sessions": SESSIONS,
    "workload.lengths": LENGTHS,
    "workload.num_requests": 150,
}
CROWDED = {
    "gave up": {"workload.patience_s": 1.0, "deployment.max_num_seqs": 2},
    "queue full": {"deployment.max_queue": 2, "deployment.max_num_seqs": 2},
    "prompt can never fit": {"deployment.kv_cache_tokens": 160},
}


def _run(stored, **changes):
    result = simulate(make_scenario(stored, **{**BASE, **changes}), stored=stored)
    check_result(result)
    return result


def _followed(requests):
    """(turns that have a next one, those next ones)."""
    before = requests[requests["follower"] != NONE]
    return before, requests[before["follower"]]


def test_the_next_turn_comes_exactly_its_think_time_after_the_last_token(recorded_profile):
    requests = _run(recorded_profile).request_records
    before, after = _followed(requests)
    assert (requests["state"] == FINISHED).all()
    assert len(before) > 90
    assert np.array_equal(after["arrival_s"], before["finish_s"] + after["think_s"])
    assert np.array_equal(after["session"], before["session"])


def test_who_does_not_think_asks_on_in_the_very_next_step(recorded_profile):
    requests = _run(
        recorded_profile,
        **{"workload.sessions": {**SESSIONS, "think": {}}, "deployment.max_num_seqs": 150},
        **{"deployment.max_num_batched_tokens": 10_000},
    ).request_records
    before, after = _followed(requests)
    assert np.array_equal(after["arrival_s"], before["finish_s"])
    assert np.array_equal(after["scheduled_s"], before["finish_s"])


def test_a_prompt_holds_everything_said_before_in_its_session(recorded_profile):
    requests = _run(recorded_profile).request_records
    before, after = _followed(requests)
    own = after["prompt_tokens"] - before["prompt_tokens"] - before["output_tokens"]
    assert own.min() >= 1
    assert own.max() <= LENGTHS["prompt"]["max_tokens"]


def test_without_history_a_prompt_is_one_question_long(recorded_profile):
    result = _run(recorded_profile, **{"workload.sessions": {**SESSIONS, "keeps_history": False}})
    assert result.request_records["prompt_tokens"].max() <= LENGTHS["prompt"]["max_tokens"]
    assert result.request_records["cached_tokens"].sum() == 0
    assert summarise(result).kv.prefix_hit_fraction is None


@pytest.mark.parametrize("reason", CROWDED)
def test_a_session_ends_when_a_turn_does_not_finish(recorded_profile, reason):
    result = _run(recorded_profile, **CROWDED[reason])
    requests, reasons = result.request_records, result.requests["reason"].to_numpy()
    ended = reasons == "session ended"
    assert {"", reason, "session ended"} <= set(reasons)
    # Law 1: the turns that nobody asked are cancelled, the moment that the one before ended.
    before, after = _followed(requests)
    broken = before["state"] != FINISHED
    places = before["follower"]
    assert ended.sum() == broken.sum() > 5
    assert ended[places[broken]].all()
    assert not ended[places[~broken]].any()
    assert np.array_equal(after["finish_s"][broken], before["finish_s"][broken])
    never_came = requests[ended]
    assert (never_came["state"] == CANCELLED).all()
    assert (never_came["scheduled_s"] < 0.0).all()
    assert (never_came["emitted_tokens"] == 0).all()
    assert (never_came["is_counted"] == 0).all()
    assert sum(summarise(result).num_requests.values()) == 150


def test_turns_that_never_came_are_in_no_share(recorded_profile):
    result = _run(recorded_profile, **CROWDED["gave up"], **{"warmup_fraction": 0.0})
    summary = summarise(result)
    reasons = result.requests["reason"]
    came = int((reasons != "session ended").sum())
    assert came < 150
    assert summary.cancelled_fraction == pytest.approx((reasons == "gave up").sum() / came)
    assert summary.served_fraction == pytest.approx(summary.num_requests["finished"] / came)


def test_the_warm_up_counts_by_order_of_arrival(recorded_profile):
    requests = _run(recorded_profile, **{"warmup_fraction": 0.4}).request_records
    order = np.argsort(requests["arrival_s"], kind="stable")
    assert requests["is_counted"][order].tolist() == [0] * 60 + [1] * 90
    # Some late first turns come after early second ones: the order of the records is another.
    assert requests["is_counted"].tolist() != [0] * 60 + [1] * 90


def test_session_affinity_keeps_a_session_on_one_replica(recorded_profile):
    changes = {"deployment.replicas": 3}
    loyal = _run(
        recorded_profile, **changes, **{"deployment.routing": "session_affinity"}
    ).request_records
    before, after = _followed(loyal)
    assert np.array_equal(before["replica"], after["replica"])
    assert set(loyal["replica"]) == {0, 1, 2}
    before, after = _followed(_run(recorded_profile, **changes).request_records)
    assert (before["replica"] != after["replica"]).any()


def test_session_affinity_finds_more_in_the_cache_than_round_robin(recorded_profile):
    def hits(routing):
        result = _run(recorded_profile, **{"deployment.replicas": 3, "deployment.routing": routing})
        return summarise(result).kv.prefix_hit_fraction

    assert hits("session_affinity") > 1.5 * hits("round_robin")


def test_a_session_whose_replica_is_down_goes_to_another_and_stays_there(recorded_profile):
    outage = {"replica": 0, "at_s": 10.0, "for_s": 15.0}
    scenario = make_scenario(
        recorded_profile,
        **{
            **BASE,
            "deployment.replicas": 2,
            "deployment.routing": "session_affinity",
            "deployment.failures": {"outages": [outage]},
        },
    )
    check_while_running(new_state(scenario, recorded_profile).state)
    requests = simulate(scenario, stored=recorded_profile).request_records
    assert (requests["state"] == FINISHED).all()
    down = (requests["arrival_s"] >= 10.0) & (requests["arrival_s"] < 25.0)
    assert down.sum() > 10
    assert (requests["replica"][down] == 1).all()
    before, after = _followed(requests)
    moved = (before["replica"] == 0) & (after["replica"] == 1)
    assert moved.any()
    came_down = (after["arrival_s"] >= 10.0) & (after["arrival_s"] < 25.0)
    assert came_down[moved].all()
    # Back up, replica 0 gets no session that moved away.
    assert not ((before["replica"] == 1) & (after["replica"] == 0)).any()


@pytest.mark.parametrize("turns", ["geometric", "fixed"])
def test_every_mode_agrees_on_sessions(recorded_profile, turns):
    sessions = {**SESSIONS, "turns": turns}
    check_every_mode(
        make_scenario(recorded_profile, **{**BASE, "workload.sessions": sessions}),
        recorded_profile,
    )
