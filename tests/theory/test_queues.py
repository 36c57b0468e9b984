"""The engine against queueing theory: Markov queues, batches in steps, replicas, sharing.

Every comparison is over independent seeds, in standard errors, with the smallest relative error
that it would still find (`detects`).
"""

import numpy as np
import pytest

from tests.theory.queues import erlang_arrivals_wait_s, erlang_c_wait_s, stepped_queue
from tests.theory.service import SEEDS, agrees, exponential, geometric, run, target_law

TOKEN_S = 1e-5
MEAN_PROMPT_TOKENS = 10_000  # one prefill step of exponential length, rounded to 1e-4 of its mean
SERVICE_S = TOKEN_S * MEAN_PROMPT_TOKENS
LONGEST = 120  # requests present; the theory asserts that more do not matter


@pytest.fixture(scope="module")
def exponential_steps(recorded_profile):
    """One request is one step, whose length follows the prompt's."""
    return target_law(recorded_profile, per_token_s=TOKEN_S)


@pytest.fixture(scope="module")
def m_m_1(exponential_steps):
    """One seat, 70 % busy: runs over all seeds."""
    return [
        run(
            exponential_steps,
            seed=seed,
            num_requests=60_000,
            rate_per_s=0.7 / SERVICE_S,
            seats=1,
            draw_prompt=exponential(MEAN_PROMPT_TOKENS),
        )
        for seed in SEEDS
    ]


def test_with_one_seat_as_many_requests_find_it_free_as_it_idles(m_m_1):
    free = [float(np.mean(r.settled["scheduled_s"] == r.settled["arrival_s"])) for r in m_m_1]
    assert agrees(free, 0.3, detects=0.03)


@pytest.mark.parametrize("tail", [0.5, 0.1, 0.01])
def test_with_one_seat_the_time_in_the_system_is_exponential(m_m_1, tail):
    mean_s = SERVICE_S / (1 - 0.7)
    limit_s = -mean_s * np.log(tail)
    beyond = [
        float(np.mean(run.settled["finish_s"] - run.settled["arrival_s"] > limit_s))
        for run in m_m_1
    ]
    assert agrees(beyond, tail, detects={0.5: 0.05, 0.1: 0.15, 0.01: 0.5}[tail])


def test_departures_of_one_exponential_seat_are_as_random_as_its_arrivals(m_m_1):
    # Burke: gaps between departures are independent and exponential with the arrivals' rate.
    gaps = [np.diff(run.settled["finish_s"]) for run in m_m_1]
    assert agrees([float(g.mean()) for g in gaps], SERVICE_S / 0.7, detects=0.02)
    assert agrees([float(g.std() / g.mean()) for g in gaps], 1.0, detects=0.02)
    # Shifted by one, so that `detects` has something to be relative to.
    assert agrees([1 + float(np.corrcoef(g[:-1], g[1:])[0, 1]) for g in gaps], 1.0, detects=0.02)


@pytest.mark.parametrize("replicas", [2, 4])
def test_round_robin_gives_each_replica_arrivals_as_regular_as_erlangs(exponential_steps, replicas):
    # Every k-th arrival of a Poisson stream: E_k/M/1 at each replica, a shorter wait than M/M/1.
    waits = []
    for seed in SEEDS:
        result = run(
            exponential_steps,
            seed=seed,
            num_requests=40_000,
            rate_per_s=replicas * 0.7 / SERVICE_S,
            seats=1,
            draw_prompt=exponential(MEAN_PROMPT_TOKENS),
            replicas=replicas,
        )
        waits.append(float(np.mean(result.settled["scheduled_s"] - result.settled["arrival_s"])))
    assert agrees(waits, erlang_arrivals_wait_s(replicas, 0.7, SERVICE_S), detects=0.1)
    random_split_s = erlang_arrivals_wait_s(1, 0.7, SERVICE_S)
    assert np.max(waits) < random_split_s


@pytest.mark.parametrize("seats", [2, 4])
@pytest.mark.parametrize("utilisation", [0.5, 0.7])
def test_seats_with_steps_of_one_length_wait_as_erlang_c(recorded_profile, seats, utilisation):
    # Geometric outputs of 20 steps against the exact chain; the chain for ever finer steps
    # (Richardson's limit, its error falls with the square of the step) against Erlang C.
    tokens, step_s = 20, 0.05
    stored = target_law(recorded_profile, base_s=step_s)
    rate_per_s = seats * utilisation / (tokens * step_s)
    waits = []
    for seed in SEEDS:
        result = run(
            stored,
            seed=seed,
            num_requests=10_000,
            rate_per_s=rate_per_s,
            seats=seats,
            draw_output=geometric(tokens),
        )
        waits.append(float(np.mean(result.settled["scheduled_s"] - result.settled["arrival_s"])))

    def chain_wait_s(finer: int) -> float:
        length_s = step_s / finer
        return stepped_queue(rate_per_s, tokens * finer, seats, lambda _: length_s, LONGEST)[0]

    assert agrees(waits, chain_wait_s(1), detects=0.3)
    limit_s = 2 * chain_wait_s(40) - chain_wait_s(20)
    standard_error = np.std(waits, ddof=1) / np.sqrt(len(waits))
    assert abs(limit_s - erlang_c_wait_s(seats, utilisation, 1.0)) < 0.01 * standard_error


def test_a_batch_whose_steps_grow_with_it_takes_the_time_of_its_exact_chain(recorded_profile):
    # The case of a real engine: weights read once a step, and something for every request.
    base_s, per_request_s, tokens, seats, rate_per_s = 0.010, 0.002, 30, 8, 7.0
    stored = target_law(recorded_profile, base_s=base_s, per_request_s=per_request_s)
    wait_s, in_system_s = stepped_queue(
        rate_per_s, tokens, seats, lambda n: base_s + per_request_s * n, LONGEST
    )
    waits, times = [], []
    for seed in SEEDS:
        settled = run(
            stored,
            seed=seed,
            num_requests=16_000,
            rate_per_s=rate_per_s,
            seats=seats,
            draw_output=geometric(tokens),
        ).settled
        waits.append(float(np.mean(settled["scheduled_s"] - settled["arrival_s"])))
        times.append(float(np.mean(settled["finish_s"] - settled["arrival_s"])))
    assert agrees(waits, wait_s, detects=0.5)
    assert agrees(times, in_system_s, detects=0.15)


@pytest.mark.parametrize("batch_size", [2, 3, 8])
def test_identical_requests_that_share_the_step_take_as_often_as_long(recorded_profile, batch_size):
    stored = target_law(recorded_profile, per_request_s=0.003)

    def finish_s(count: int):
        return run(
            stored,
            seed=0,
            num_requests=count,
            rate_per_s=None,
            seats=count,
            draw_output=lambda _, size: np.full(size, 25),
        ).requests["finish_s"]

    assert np.allclose(finish_s(batch_size), batch_size * finish_s(1)[0], rtol=1e-12)


LENGTH_LAWS = {
    "constant": lambda _, count: np.full(count, 20),
    "geometric": geometric(20),
    "one in ten long": lambda rng, count: np.where(rng.random(count) < 0.1, 110, 10),
}


@pytest.mark.parametrize("law", LENGTH_LAWS)
def test_a_shared_step_slows_every_request_alike_whatever_the_law_of_lengths(recorded_profile, law):
    # Processor sharing: mean time in the system = own length / (1 - ρ), insensitive to the law.
    step_s, tokens, utilisation = 0.01, 20, 0.6
    stored = target_law(recorded_profile, per_request_s=step_s)
    slowdowns = []
    for seed in SEEDS:
        settled = run(
            stored,
            seed=seed,
            num_requests=5_000,
            rate_per_s=utilisation / (tokens * step_s),
            seats=LONGEST,
            draw_output=LENGTH_LAWS[law],
        ).settled
        time_s = settled["finish_s"] - settled["arrival_s"]
        slowdowns.append(float(np.mean(time_s) / (tokens * step_s)))
    assert agrees(slowdowns, 1 / (1 - utilisation), detects=0.15)
