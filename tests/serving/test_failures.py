"""Replicas fail in the middle of a step, come back, and lose nobody but whom they should."""

import numpy as np
import pytest

from simcore import simulate, summarise
from simcore.errors import ScenarioError
from simcore.serving.engine import run_until
from simcore.serving.setup import new_state
from tests.factories import Recording, make_profile, make_scenario
from tests.invariants import check_every_mode, check_result
from tests.theory.service import target_law

STEP_S = 0.05
LOST_AT_S = 0.12  # in the third step: 0.10 to 0.15
PROMPT_TOKENS, OUTPUT_TOKENS = 8, 10
LENGTHS = {"kind": "fixed", "prompt_tokens": PROMPT_TOKENS, "output_tokens": OUTPUT_TOKENS}


@pytest.fixture(scope="module")
def even_steps(recorded_profile):
    """Every step takes 50 ms."""
    return target_law(recorded_profile, base_s=STEP_S)


def _scenario(stored, outages, **changes):
    return make_scenario(
        stored,
        **{
            "workload.arrivals": {"kind": "batch"},
            "workload.lengths": LENGTHS,
            "workload.num_requests": 1,
            "deployment.replicas": 2,
            "speculation.num_speculative_tokens": 0,
            "deployment.failures": {"outages": outages},
            **changes,
        },
    )


def _run(stored, outages, **changes):
    result = simulate(_scenario(stored, outages, **changes), stored=stored)
    check_result(result)
    return result


def _outage(replica=0, at_s=LOST_AT_S, for_s=1.0):
    return {"replica": replica, "at_s": at_s, "for_s": for_s}


def test_a_step_ends_with_its_replica_and_emits_nothing(recorded_profile):
    # A real cost law, so that every phase takes time.
    changes = {"speculation.proposer": "draft_model", "speculation.num_speculative_tokens": 4}
    whole = _run(recorded_profile, [], **changes).step_records[2]
    lost_at_s = 0.3 * whole["begin_s"] + 0.7 * whole["end_s"]
    steps = _run(recorded_profile, [_outage(at_s=lost_at_s)], **changes).step_records
    assert np.flatnonzero(steps["is_aborted"]).tolist() == [2]
    broken = steps[2]
    assert broken["end_s"] == lost_at_s
    assert broken["emitted_tokens"] == broken["accepted_tokens"] == 0
    for phase in ("propose_s", "target_s", "reconcile_s", "overhead_s"):
        assert broken[phase] == pytest.approx(0.7 * whole[phase], rel=1e-9)


def test_a_lost_request_keeps_its_tokens_and_recomputes_elsewhere(even_steps):
    # Two tokens by 0.10 s; replica 1 prefills 8 + 1 tokens from 0.12 s, then eight cycles.
    result = _run(even_steps, [_outage()])
    steps, request = result.step_records, result.request_records[0]
    assert np.allclose(steps["begin_s"][:4], [0.0, 0.05, 0.10, LOST_AT_S])
    assert steps["replica"].tolist() == [0] * 3 + [1] * 9
    assert steps["prefill_tokens"].tolist() == [8, 0, 0, 9] + [0] * 8
    assert steps["emitted_tokens"].tolist() == [1, 1, 0, 0] + [1] * 8
    assert request["finish_s"] == pytest.approx(LOST_AT_S + 9 * STEP_S)
    assert request["max_gap_s"] == pytest.approx(LOST_AT_S + 2 * STEP_S - 2 * STEP_S)
    assert request["num_restarts"] == 1
    assert request["first_token_s"] == pytest.approx(STEP_S)
    summary = summarise(result)
    assert (summary.num_restarts, summary.num_aborted_steps) == (1, 1)


def test_all_blocks_are_back_the_moment_that_a_replica_fails(recorded_profile):
    scenario = _scenario(
        recorded_profile,
        [_outage(for_s=9.0)],
        **{
            "workload.num_requests": 12,
            "deployment.draft_pool": "own",
            "speculation.proposer": "draft_model",
            "speculation.num_speculative_tokens": 4,
        },
    )
    state = new_state(scenario, recorded_profile).state
    run_until(state, float(np.nextafter(LOST_AT_S, 0.0)))
    lost = state.replicas[0]
    assert lost["is_busy"] == 1
    assert lost["free_blocks"] < lost["total_blocks"]
    assert lost["draft_free_blocks"] < lost["draft_total_blocks"]
    run_until(state, LOST_AT_S)
    assert lost["is_busy"] == lost["num_running"] == lost["outstanding_tokens"] == 0
    assert lost["free_blocks"] == lost["total_blocks"]
    assert lost["draft_free_blocks"] == lost["draft_total_blocks"]
    assert (state.requests["replica"] == 1).all()


def test_requests_that_may_fail_do_and_those_that_wait_go_elsewhere(even_steps):
    # Four requests, one seat: on each replica one runs and one waits.
    result = _run(
        even_steps,
        [_outage()],
        **{
            "workload.num_requests": 4,
            "deployment.max_num_seqs": 1,
            "deployment.failures.requests": "fail",
        },
    )
    frame = result.requests
    lost = frame[frame["state"] == "failed"]
    assert lost["reason"].tolist() == ["replica failed"]
    assert lost["finish_s"].tolist() == [LOST_AT_S]
    assert lost["emitted_tokens"].tolist() == [2]
    assert frame["state"].value_counts()["finished"] == 3
    assert (frame.loc[frame["state"] == "finished", "replica"] == 1).all()
    assert (frame["num_restarts"] == 0).all()


def test_who_waited_comes_behind_those_who_were_lost_and_all_in_order(even_steps):
    result = _run(
        even_steps,
        [_outage(for_s=100.0)],
        **{"workload.num_requests": 6, "deployment.max_num_seqs": 1},
    )
    requests = result.request_records
    # Replica 0 had requests 0 (running), 2 and 4; replica 1 had 1 (running), 3 and 5.
    assert np.argsort(requests["finish_s"]).tolist() == [1, 3, 5, 0, 2, 4]
    assert requests["num_restarts"].tolist() == [1, 0, 0, 0, 0, 0]


def test_with_every_replica_down_all_wait_for_the_first_to_come_back(even_steps):
    # Replica 1 fails last and comes back first; then replica 0 works again long after.
    outages = [_outage(0, at_s=0.12, for_s=50.0), _outage(1, at_s=0.32, for_s=2.0)]
    result = _run(even_steps, outages, **{"workload.num_requests": 6, "deployment.max_num_seqs": 1})
    steps = result.step_records
    later = steps[steps["begin_s"] > 0.32]
    assert later["begin_s"][0] == 2.32
    assert (later["replica"] == 1).all()
    assert (result.requests["state"] == "finished").all()
    # And the other way round: those who wait at the one that failed last do not stay there.
    outages = [_outage(0, at_s=0.12, for_s=1.0), _outage(1, at_s=0.32, for_s=50.0)]
    result = _run(even_steps, outages, **{"workload.num_requests": 6, "deployment.max_num_seqs": 1})
    assert (result.request_records["replica"] == 0).all()
    assert result.request_records["finish_s"].max() < 10.0


def test_requests_that_arrive_while_nothing_runs_wait_for_the_first_back(even_steps):
    result = _run(
        even_steps,
        [_outage(0, at_s=0.0, for_s=3.0), _outage(1, at_s=0.0, for_s=2.0)],
        **{"workload.num_requests": 3},
    )
    assert (result.request_records["replica"] == 1).all()
    assert (result.request_records["scheduled_s"] == 2.0).all()


def test_alone_a_replica_takes_its_requests_up_again(even_steps):
    result = _run(even_steps, [_outage(for_s=1.0)], **{"deployment.replicas": 1})
    steps = result.step_records
    assert steps["begin_s"][3] == LOST_AT_S + 1.0
    assert steps["prefill_tokens"][3] == PROMPT_TOKENS + 1


def test_who_gave_up_inside_a_lost_step_is_cancelled_not_sent_again(even_steps):
    result = _run(even_steps, [_outage()], **{"workload.patience_s": 0.11})
    request = result.requests.iloc[0]
    assert (request["state"], request["reason"]) == ("cancelled", "gave up")
    assert request["finish_s"] == LOST_AT_S
    assert request["num_restarts"] == 0
    # Without the failure the same step would have ended it, later.
    assert _run(even_steps, [], **{"workload.patience_s": 0.11}).requests["finish_s"].iloc[
        0
    ] == pytest.approx(0.15)


def test_a_request_that_is_lost_again_and_again_fails_in_the_end(even_steps):
    # Without a bound a replica that dies faster than a prompt is read would never end the run.
    outages = [_outage(at_s=0.2 * n + 0.01, for_s=0.1) for n in range(50)]
    result = _run(
        even_steps,
        outages,
        **{"deployment.replicas": 1, "deployment.failures.max_restarts": 3},
    )
    request = result.requests.iloc[0]
    assert (request["state"], request["reason"]) == ("failed", "replica failed")
    assert request["num_restarts"] == 3
    assert request["finish_s"] == pytest.approx(0.61)


def test_a_full_queue_elsewhere_fails_those_who_are_sent_there(even_steps):
    result = _run(
        even_steps,
        [_outage(for_s=100.0)],
        **{
            "workload.num_requests": 6,
            "deployment.max_num_seqs": 1,
            "deployment.max_queue": 3,
        },
    )
    # Replica 1 has two waiting: the lost request finds the last place, the others none.
    frame = result.requests
    assert frame["state"].value_counts().to_dict() == {"finished": 4, "failed": 2}
    assert frame.loc[frame["state"] == "failed", "request"].tolist() == [2, 4]
    assert set(frame.loc[frame["state"] == "failed", "reason"]) == {"replica failed"}


def test_a_replica_that_is_back_begins_amid_the_steps_of_others(even_steps):
    changes = {
        "workload.arrivals": {"kind": "poisson", "rate_per_s": 10.0},
        "workload.num_requests": 80,
        "deployment.max_num_seqs": 4,
    }
    scenario = _scenario(even_steps, [_outage(at_s=1.013, for_s=1.01)], **changes)
    check_every_mode(scenario, even_steps)
    steps = simulate(scenario, stored=even_steps).step_records
    own, others = (steps[steps["replica"] == index] for index in (0, 1))
    assert not ((own["begin_s"] > 1.013) & (own["begin_s"] < 2.023)).any()
    first_s = own["begin_s"][own["begin_s"] >= 2.023][0]
    around = (others["begin_s"] < first_s) & (others["end_s"] > first_s)
    assert around.sum() == 1
    assert not others["is_aborted"].any()


def test_a_policy_begins_again_with_its_replica_and_says_so(recorded_profile):
    result = _run(
        recorded_profile,
        [_outage(at_s=0.5, for_s=0.5)],
        **{
            "workload.num_requests": 40,
            "workload.lengths": {"kind": "recorded"},
            "deployment.replicas": 1,
            "speculation.num_speculative_tokens": 4,
            "speculation.policy": {
                "kind": "batch_size_table",
                "table": [[1, 4, 4], [5, 64, 1]],
            },
        },
    )
    changes = result.policy_changes
    restarted = changes[changes["reason"] == "restarted after a failure"]
    assert restarted["time_s"].tolist() == [0.5]
    assert restarted["from_tokens"].tolist() == [1]
    assert restarted["to_tokens"].tolist() == [4]
    # The size of the step before is forgotten too: the first step back changes nothing.
    again = changes[changes["time_s"] > 0.5].iloc[0]
    first_back_s = result.step_records["begin_s"][result.step_records["begin_s"] >= 1.0][0]
    assert again["reason"] == "batch size"
    assert again["time_s"] > first_back_s


def test_a_gate_that_closed_for_good_opens_with_a_new_process(tmp_path):
    poor = make_profile(tmp_path / "poor", Recording(acceptance=0.1))
    result = _run(
        poor,
        [_outage(at_s=4.0, for_s=0.5)],
        **{
            "workload.num_requests": 200,
            "deployment.replicas": 1,
            "speculation.num_speculative_tokens": 4,
            "speculation.policy": {
                "kind": "acceptance_gate",
                "window_steps": 20,
                "threshold": 0.5,
            },
        },
    )
    reasons = result.policy_changes["reason"].tolist()
    closed = "acceptance below the gate: off for good"
    assert reasons == [closed, "restarted after a failure", closed]


def test_a_policy_in_python_hears_nothing_of_the_step_before_a_failure(recorded_profile):
    seen = []

    def watch(view):
        seen.append((view.now_s, view.last_proposed_tokens, view.num_running))
        return view.longest

    scenario = _scenario(
        recorded_profile,
        [_outage(at_s=0.5, for_s=0.5)],
        **{
            "workload.num_requests": 10,
            "workload.lengths": {"kind": "recorded"},
            "deployment.replicas": 1,
            "speculation.num_speculative_tokens": 4,
        },
    )
    check_result(simulate(scenario, stored=recorded_profile, policy=watch))
    first_back = next(view for view in seen if view[0] >= 1.0)
    assert first_back == (1.0, 0, 0)
    assert [view for view in seen if view[0] < 0.5][-1][1] > 0


def test_outages_move_no_arrival_and_no_luck(recorded_profile):
    changes = {
        "workload.num_requests": 60,
        "workload.arrivals": {"kind": "poisson", "rate_per_s": 5.0},
        "workload.lengths": {"kind": "recorded"},
        "speculation.num_speculative_tokens": 4,
    }
    calm = _run(recorded_profile, [], **changes).request_records
    stormy = _run(recorded_profile, [_outage(at_s=t, for_s=0.5) for t in (1, 3, 5)], **changes)
    assert stormy.request_records["num_restarts"].sum() > 0
    for column in ("arrival_s", "num_cycles", "accepted_tokens", "bonus_tokens", "cut_tokens"):
        assert np.array_equal(calm[column], stormy.request_records[column])


def test_a_replica_that_is_down_gets_no_arrival(even_steps):
    result = _run(
        even_steps,
        [_outage(0, at_s=1.0, for_s=2.0)],
        **{
            "workload.arrivals": {"kind": "poisson", "rate_per_s": 8.0},
            "workload.num_requests": 60,
            "deployment.replicas": 3,
        },
    )
    requests = result.request_records
    meanwhile = (requests["arrival_s"] > 1.0) & (requests["arrival_s"] < 3.0)
    assert meanwhile.sum() > 5
    assert set(requests["replica"][meanwhile]) == {1, 2}
    assert set(requests["replica"][requests["arrival_s"] > 3.0]) == {0, 1, 2}


def test_a_session_goes_on_elsewhere_when_its_replica_is_lost(recorded_profile):
    result = _run(
        recorded_profile,
        [_outage(at_s=3.0, for_s=1000.0)],
        **{
            "workload.arrivals": {"kind": "poisson", "rate_per_s": 1.0},
            "workload.num_requests": 40,
            "workload.sessions": {
                "mean_turns": 4,
                "turns": "fixed",
                "think": {"mean_s": 1.0},
            },
            "deployment.routing": "session_affinity",
        },
    )
    frame = result.requests
    assert (frame["state"] == "finished").all()
    after = frame["arrival_s"] > 3.0
    assert (frame.loc[after, "replica"] == 1).all()
    assert (frame.loc[~after, "replica"] == 0).any()


@pytest.mark.parametrize(
    ("failures", "message"),
    [
        ({"outages": [_outage(0, 1.0, 2.0), _outage(0, 2.5, 1.0)]}, "replica 0 overlap"),
        ({"outages": [_outage(0, 1.0, 2.0), _outage(0, 3.0, 1.0)]}, "overlap or touch"),
        ({"outages": [_outage(2), _outage(5)]}, r"name replicas \[2, 5\]; there are 2"),
        ({"outages": [_outage()], "mean_time_between_s": 5.0}, "exclude each other"),
        ({"outages": [_outage(for_s=0.0)]}, "for_s"),
        ({"outages": [_outage(0, 1.0, 1e-17)]}, "the very moment"),
        ({"mean_time_between_s": 0.5}, "mean_time_between_s"),
        ({"mean_time_between_s": 5.0, "mean_repair_s": 0.0}, "mean_repair_s"),
        ({"requests": "forget"}, "requests"),
    ],
)
def test_failures_that_cannot_be_are_refused(recorded_profile, failures, message):
    with pytest.raises(ScenarioError, match=message):
        make_scenario(
            recorded_profile,
            **{"deployment.replicas": 2, "deployment.failures": failures},
        )
