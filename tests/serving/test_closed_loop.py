"""A closed loop: so many clients, and each asks on whatever became of its question."""

import numpy as np
import pytest

from simcore import simulate, summarise
from simcore.serving.state import CANCELLED, FAILED, FINISHED, REJECTED
from tests.factories import make_scenario
from tests.invariants import check_result

THINK = {"mean_s": 0.5, "cv": 1.0}
SHORT = {"kind": "fixed", "prompt_tokens": 30, "output_tokens": 12}


def _run(stored, *, num_clients, think=THINK, **changes):
    arrivals = {"kind": "closed_loop", "num_clients": num_clients, "think": think}
    scenario = make_scenario(stored, **{"workload.arrivals": arrivals, **changes})
    result = simulate(scenario, stored=stored)
    check_result(result)
    return result


def _most_in_system(requests) -> int:
    """Most requests between arrival and end at once; who ends leaves before who comes."""
    times_s = np.concatenate([requests["finish_s"], requests["arrival_s"]])
    change = np.repeat([-1, 1], len(requests))
    ended_at_once = requests["finish_s"] == requests["arrival_s"]  # rejected: comes, then leaves
    order = np.lexsort((change, times_s))
    return int(np.cumsum(change[order]).max()) + int(ended_at_once.any())


def _chains(requests) -> list[list[int]]:
    """The questions of each client, in order."""
    followed = set(requests["follower"][requests["follower"] >= 0].tolist())
    chains = []
    for first in (index for index in range(len(requests)) if index not in followed):
        chain = [first]
        while requests["follower"][chain[-1]] >= 0:
            chain.append(int(requests["follower"][chain[-1]]))
        chains.append(chain)
    return chains


@pytest.mark.parametrize("num_clients", [1, 2, 5, 30])
@pytest.mark.parametrize("mean_s", [0.0, 0.5])
def test_there_are_never_more_requests_in_the_system_than_clients(
    recorded_profile, num_clients, mean_s
):
    requests = _run(
        recorded_profile, num_clients=num_clients, think={"mean_s": mean_s}
    ).request_records
    assert _most_in_system(requests) <= num_clients
    if mean_s == 0.0:
        assert _most_in_system(requests) == num_clients


def test_every_client_asks_on_its_think_time_after_its_answer(recorded_profile):
    requests = _run(
        recorded_profile, num_clients=6, **{"workload.num_requests": 90}
    ).request_records
    chains = _chains(requests)
    assert len(chains) == 6
    assert sorted(index for chain in chains for index in chain) == list(range(90))
    for chain in chains:
        assert len(set(requests["session"][chain])) == 1
        before, after = requests[chain[:-1]], requests[chain[1:]]
        assert np.array_equal(after["arrival_s"], before["finish_s"] + after["think_s"])


def test_the_clients_stay_until_the_last_requests(recorded_profile):
    # Whoever gets its answer asks the next request that is left: nobody has a quota of its own.
    requests = _run(
        recorded_profile, num_clients=5, think={}, **{"workload.num_requests": 200}
    ).request_records
    assert np.array_equal(np.argsort(requests["arrival_s"], kind="stable"), np.arange(200))
    last_s = requests["arrival_s"].max()
    assert (requests["finish_s"] > last_s).sum() == 5


def test_more_clients_than_requests_ask_once_each(recorded_profile):
    result = _run(recorded_profile, num_clients=1000, **{"workload.num_requests": 12})
    requests = result.request_records
    assert (requests["state"] == FINISHED).all()
    assert (requests["follower"] == -1).all()
    assert requests["session"].tolist() == list(range(12))
    assert np.all(np.diff(requests["arrival_s"]) >= 0.0)


# What becomes of some questions, and the reason kept.
TROUBLE = {
    "rejected": (REJECTED, "queue full", {"deployment.max_queue": 1, "deployment.max_num_seqs": 2}),
    "never fits": (REJECTED, "prompt can never fit", {"deployment.kv_cache_tokens": 48}),
    "gave up": (
        CANCELLED,
        "gave up",
        {"workload.patience_s": 0.5, "deployment.max_num_seqs": 2},
    ),
    "failed": (
        FAILED,
        "outgrew the memory",
        {
            "deployment.kv_cache_tokens": 64,
            "workload.lengths": {
                "kind": "lognormal",
                "prompt": {"mean_tokens": 20, "cv": 0.0, "max_tokens": 20},
                "output": {"mean_tokens": 30, "cv": 0.8, "max_tokens": 200},
            },
        },
    ),
}


@pytest.mark.parametrize("trouble", TROUBLE)
@pytest.mark.parametrize("mean_s", [0.0, 0.5])
def test_a_client_asks_on_whatever_became_of_its_question(recorded_profile, trouble, mean_s):
    state, reason, changes = TROUBLE[trouble]
    result = _run(
        recorded_profile,
        num_clients=8,
        think={"mean_s": mean_s},
        **{"workload.num_requests": 120, **changes},
    )
    requests = result.request_records
    chains = _chains(requests)
    assert len(chains) == 8
    assert sum(len(chain) for chain in chains) == 120
    assert "session ended" not in set(result.requests["reason"])
    gone = requests[(requests["state"] == state) & (requests["follower"] >= 0)]
    assert {"", reason} <= set(result.requests["reason"])
    assert len(gone) > 0
    after = requests[gone["follower"]]
    # Who fails does so while a step begins; whoever comes then comes after it.
    least_s = np.nextafter(gone["finish_s"], np.inf) if state == FAILED else gone["finish_s"]
    expected_s = np.maximum(gone["finish_s"] + after["think_s"], least_s)
    assert np.array_equal(after["arrival_s"], expected_s)


def test_every_question_of_a_loop_waits_its_own_patience(recorded_profile):
    requests = _run(recorded_profile, num_clients=9, **{"workload.patience_s": 0.7}).request_records
    assert np.array_equal(requests["gives_up_s"], requests["arrival_s"] + 0.7)
    assert (requests["state"] == CANCELLED).any()


def test_a_closed_loop_offers_no_rate_of_its_own(recorded_profile):
    summary = summarise(_run(recorded_profile, num_clients=4, **{"workload.lengths": SHORT}))
    assert summary.offered_rate_per_s is None
    assert summary.request_rate_per_s > 0.0


def test_the_questions_of_a_client_stay_on_its_replica_under_session_affinity(recorded_profile):
    changes = {"deployment.replicas": 3, "workload.num_requests": 120}
    loyal = _run(
        recorded_profile,
        num_clients=7,
        **{**changes, "deployment.routing": "session_affinity"},
    ).request_records
    spread = _run(recorded_profile, num_clients=7, **changes).request_records
    homes = [len(set(loyal["replica"][chain])) for chain in _chains(loyal)]
    assert homes == [1] * 7
    assert set(loyal["replica"]) == {0, 1, 2}
    assert max(len(set(spread["replica"][chain])) for chain in _chains(spread)) == 3
