"""Random failures against renewal theory: time up, time down, and the share of time down."""

import math

import numpy as np
import pytest

from simcore import simulate
from simcore.serving.engine import run_until
from simcore.serving.one_step import next_times_s
from simcore.serving.setup import new_state
from tests.factories import make_scenario
from tests.theory.service import SEEDS, agrees

MEAN_UP_S, MEAN_DOWN_S, REPLICAS, CYCLES = 20.0, 5.0, 6, 20


def _scenario(stored, seed, **changes):
    return make_scenario(
        stored,
        **{
            "workload.lengths": {"kind": "fixed", "prompt_tokens": 8, "output_tokens": 1},
            "workload.arrivals": {"kind": "poisson", "rate_per_s": 1.0},
            "workload.num_requests": 1500,
            "deployment.replicas": REPLICAS,
            "deployment.failures": {
                "mean_time_between_s": MEAN_UP_S,
                "mean_repair_s": MEAN_DOWN_S,
            },
            "speculation.num_speculative_tokens": 0,
            "seed": seed,
            **changes,
        },
    )


def _turns_s(stored, seed, **changes):
    """[replica, cycle, 2] seconds up and seconds down, the first cycles of every replica."""
    state = new_state(_scenario(stored, seed, **changes), stored).state
    moments = [[0.0] for _ in range(REPLICAS)]
    was_down = state.replicas["is_down"].copy()
    while min(map(len, moments)) <= 2 * CYCLES:
        fault_s = next_times_s(state)[2]
        run_until(state, fault_s)
        for index in np.flatnonzero(state.replicas["is_down"] != was_down):
            moments[index].append(fault_s)
        was_down = state.replicas["is_down"].copy()
    turns = [np.diff(own[: 2 * CYCLES + 1]).reshape(CYCLES, 2) for own in moments]
    return np.array(turns)


@pytest.fixture(scope="module")
def turns_s(recorded_profile):
    """Of every seed."""
    return [_turns_s(recorded_profile, seed) for seed in SEEDS]


def test_replicas_last_and_take_to_repair_as_long_as_said(turns_s):
    assert agrees([float(t[..., 0].mean()) for t in turns_s], MEAN_UP_S, detects=0.2)
    assert agrees([float(t[..., 1].mean()) for t in turns_s], MEAN_DOWN_S, detects=0.2)


def test_times_up_and_down_are_exponential_and_independent(turns_s):
    for place, mean_s in ((0, MEAN_UP_S), (1, MEAN_DOWN_S)):
        beyond = [float(np.mean(t[..., place] > mean_s * math.log(2.0))) for t in turns_s]
        assert agrees(beyond, 0.5, detects=0.2)
    pairs = [np.corrcoef(t[..., 0].ravel(), t[..., 1].ravel())[0, 1] for t in turns_s]
    assert agrees([1.0 + float(pair) for pair in pairs], 1.0, detects=0.2)
    between = [np.corrcoef(t[0, :, 0], t[1, :, 0])[0, 1] for t in turns_s]
    assert agrees([1.0 + float(pair) for pair in between], 1.0, detects=0.5)


def test_a_replica_is_down_for_its_share_of_the_time(turns_s):
    # Renewal reward: E[down] / (E[up] + E[down]).
    shares = [float(t[..., 1].sum() / t.sum()) for t in turns_s]
    assert agrees(shares, MEAN_DOWN_S / (MEAN_UP_S + MEAN_DOWN_S), detects=0.2)


def test_failures_do_not_know_the_load_nor_what_is_compared(recorded_profile):
    calm = _turns_s(recorded_profile, 5)
    for changes in (
        {"workload.arrivals": {"kind": "poisson", "rate_per_s": 1.3}},
        {"deployment.routing": "least_outstanding"},
        {"speculation.num_speculative_tokens": 4},
        {"workload.lengths": {"kind": "fixed", "prompt_tokens": 80, "output_tokens": 3}},
    ):
        assert np.array_equal(calm, _turns_s(recorded_profile, 5, **changes))
    assert not np.array_equal(calm, _turns_s(recorded_profile, 6))


def test_random_failures_are_the_same_in_both_modes(recorded_profile):
    scenario = _scenario(recorded_profile, 1, **{"workload.num_requests": 300})
    bulk = simulate(scenario, stored=recorded_profile)
    stepwise = simulate(scenario, stored=recorded_profile, stepwise=True)
    assert np.array_equal(bulk.step_records, stepwise.step_records)
    assert np.array_equal(bulk.request_records, stepwise.request_records)
    assert bulk.replica_records["num_faults"].sum() > 20
