"""The parts of the closed form under load against theory that gives the answer."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcore.acceptance.model import positional_model, trace_model
from simcore.acceptance.trace import walk
from simcore.matching import load_traces, matching_records
from simcore.planner.load.batch import drained_batch
from simcore.planner.load.cycles import speculative_cycles
from simcore.planner.load.queue import Service, closed_queue, open_queue, peakedness
from simcore.workload.sampling import RequestBatch
from simcore.workload.turns import Turns
from tests.factories import make_scenario
from tests.theory.queues import erlang_c_wait_s, machine_repairman

SERVICE_S = 2.0


def _service(seats, *, per_request_s=0.0):
    """Lives of 2 s whatever the number, or in proportion to it."""
    levels = np.arange(1.0, seats + 1.0)
    life_s = per_request_s * levels if per_request_s else np.full(seats, SERVICE_S)
    return Service(levels, life_s, float(seats))


def _requests(output_tokens, trace=None, domain=None):
    output = np.asarray(output_tokens)
    none = np.zeros(len(output), dtype=np.int64)
    turns = Turns(len(output), none, none, np.zeros(len(output)))
    return RequestBatch(
        arrival_s=np.zeros(len(output)),
        prompt_tokens=none + 1,
        output_tokens=output,
        domain=none if domain is None else domain,
        trace=none if trace is None else trace,
        turns=turns,
        group=none,
        group_tokens=none[:0],
    )


@given(seats=st.integers(1, 40), load=st.floats(0.05, 0.97))
def test_steps_of_one_length_and_exponential_lives_wait_by_erlang_c(seats, load):
    rate = load * seats / SERVICE_S
    found = open_queue(_service(seats), rate, 1.0, 1.0, 1.0)
    assert found.mean_waiting / rate == pytest.approx(
        erlang_c_wait_s(seats, load, SERVICE_S), rel=1e-9
    )
    assert found.mean_running / rate == pytest.approx(SERVICE_S)


@given(load=st.floats(0.05, 0.9))
def test_steps_in_proportion_to_the_batch_are_processor_sharing(load):
    found = open_queue(_service(400, per_request_s=1.0), load, 1.0, 1.0, 0.3)
    assert found.mean_running + found.mean_waiting == pytest.approx(load / (1 - load), rel=1e-6)


@given(clients=st.integers(1, 30), think_s=st.floats(0.1, 50.0), service_s=st.floats(0.1, 5.0))
def test_a_closed_loop_is_the_machine_repairman_queue(clients, think_s, service_s):
    service = _service(clients, per_request_s=service_s)
    occupancy, rate = closed_queue(service, float(clients), think_s)
    expected_rate, expected_s = machine_repairman(clients, think_s, service_s)
    assert rate == pytest.approx(expected_rate, rel=1e-9)
    assert occupancy.mean_running / rate == pytest.approx(expected_s, rel=1e-6)


def test_clients_that_never_think_keep_every_seat_taken():
    occupancy, rate = closed_queue(_service(4), 6.0, 0.0)
    assert (occupancy.mean_running, occupancy.mean_waiting) == (4.0, 2.0)
    assert rate == pytest.approx(4 / SERVICE_S)


@given(load=st.floats(0.01, 500.0), same_life=st.floats(0.5, 1.0))
def test_poisson_arrivals_have_peakedness_one(load, same_life):
    assert peakedness(1.0, load, same_life) == pytest.approx(1.0, abs=1e-6)


@given(scv=st.floats(0.01, 9.0))
def test_peakedness_of_long_lives_is_the_mean_of_the_gaps_variation_and_one(scv):
    # Exponential lives: same_life 1/2; alike lives take over the variation of the gaps whole.
    assert peakedness(scv, 1e5, 0.5) == pytest.approx((1 + scv) / 2, rel=1e-3)
    assert peakedness(scv, 1e5, 1.0) == pytest.approx(scv, rel=1e-2, abs=0.05)


@given(load=st.floats(0.1, 0.9), room=st.floats(3.0, 30.0), spread=st.floats(0.01, 3.0))
def test_room_that_varies_never_runs_more_than_its_mean_and_waits_longer(load, room, spread):
    levels = np.arange(1.0, 61.0)
    life_s = np.full(60, SERVICE_S)
    soft = Service(levels, life_s, 60.0, room, spread)
    assert soft.most <= room + 1e-9
    rate = load * soft.max_rate_per_s
    found = open_queue(soft, rate, 1.0, 1.0, 1.0)
    hard = open_queue(Service(levels, life_s, soft.most), rate, 1.0, 1.0, 1.0)
    assert found.mean_waiting >= 0.999 * hard.mean_waiting - 0.02
    assert found.shares.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("gamma", [1, 3, 8])
def test_expected_cycles_of_recorded_requests_are_those_of_the_walk(recorded_profile, gamma):
    scenario = make_scenario(recorded_profile)
    traces = load_traces(
        recorded_profile, matching_records(recorded_profile, scenario, "draft_model")
    )
    everyone = np.arange(traces.num_requests)
    requests = _requests(traces.output_tokens, trace=everyone)
    law = speculative_cycles(trace_model(traces).tables, gamma, requests)
    cycles = walk(traces, gamma)
    counted = np.bincount(cycles.request, minlength=len(everyone))
    assert law.cycles == pytest.approx(counted)
    assert law.drafted_depth == pytest.approx(cycles.proposed.mean())


@given(rates=st.lists(st.floats(0.05, 0.95), min_size=1, max_size=6), tokens=st.integers(60, 300))
def test_cycles_by_position_are_those_of_the_renewal_equation(rates, tokens):
    model = positional_model({"all": np.array(rates)}, {"all": 1.0})
    law = speculative_cycles(model.tables, len(rates), _requests([tokens]))
    reach = np.concatenate([[1.0], np.cumprod(rates), [0.0]])
    emitted = reach[:-1] - reach[1:]
    starts = np.zeros(tokens + len(rates) + 1)
    starts[1] = 1.0
    for at in range(1, tokens):
        starts[at + 1 : at + len(rates) + 2] += starts[at] * emitted
    assert law.cycles[0] == pytest.approx(starts[1:tokens].sum(), rel=0.01)


def test_alike_requests_of_one_round_are_done_after_one_life():
    levels, life_s = np.arange(1.0, 9.0), np.full(8, 3.0)
    found = drained_batch(8.0, 8.0, levels, life_s, np.full(50, 20.0))
    assert found.makespan_s == pytest.approx(3.0, rel=0.02)
    assert found.mean_wait_s == 0.0


def test_a_long_batch_takes_its_requests_over_the_full_rate():
    levels, life_s = np.arange(1.0, 9.0), np.full(8, 3.0)
    found = drained_batch(8000.0, 8.0, levels, life_s, np.full(50, 20.0))
    assert found.makespan_s == pytest.approx(8000 / 8 * 3.0, rel=0.01)
