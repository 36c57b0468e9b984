"""Clients who think and ask against the machine-repairman model and the interactive law."""

import numpy as np
import pytest

from tests.theory.queues import machine_repairman
from tests.theory.service import SEEDS, agrees, exponential, geometric, run, target_law

TOKEN_S = 1e-5
MEAN_PROMPT_TOKENS = 10_000  # one prefill step of exponential length, rounded to 1e-4 of its mean
SERVICE_S = TOKEN_S * MEAN_PROMPT_TOKENS


def closed_loop(num_clients, mean_s, cv=1.0):
    return {
        "kind": "closed_loop",
        "num_clients": num_clients,
        "think": {"mean_s": mean_s, "cv": cv},
    }


def throughput_per_s(requests, warmup_fraction=0.1):
    """Ends a second, from the end of the warm-up to the last question."""
    ends_s = np.sort(requests["finish_s"])
    begin_s = ends_s[int(warmup_fraction * len(ends_s))]
    last_s = requests["arrival_s"].max()
    return float(np.sum((ends_s > begin_s) & (ends_s <= last_s)) / (last_s - begin_s))


def response_s(requests):
    """Mean time in the system of those who came after the warm-up."""
    counted = requests[requests["is_counted"] == 1]
    return float(np.mean(counted["finish_s"] - counted["arrival_s"]))


@pytest.fixture(scope="module")
def exponential_steps(recorded_profile):
    """One request is one step, whose length follows the prompt's."""
    return target_law(recorded_profile, per_token_s=TOKEN_S)


@pytest.mark.parametrize(
    ("num_clients", "think_s", "cv"),
    [(4, 0.3, 1.0), (4, 0.3, 0.0), (4, 0.3, 3.0), (10, 0.9, 1.0), (10, 0.2, 1.0)],
)
def test_one_seat_and_thinking_clients_are_the_machine_repairman(
    exponential_steps, num_clients, think_s, cv
):
    runs = [
        run(
            exponential_steps,
            seed=seed,
            num_requests=12_000,
            rate_per_s=None,
            arrivals=closed_loop(num_clients, think_s, cv),
            seats=1,
            draw_prompt=exponential(MEAN_PROMPT_TOKENS),
        ).requests
        for seed in SEEDS
    ]
    rate_per_s, time_s = machine_repairman(num_clients, think_s, SERVICE_S)
    assert agrees([throughput_per_s(requests) for requests in runs], rate_per_s, detects=0.05)
    assert agrees([response_s(requests) for requests in runs], time_s, detects=0.1)


@pytest.mark.parametrize("law", ["constant", "geometric"])
def test_a_shared_seat_answers_alike_whatever_the_law_of_lengths(recorded_profile, law):
    tokens, step_s, num_clients, think_s = 50, 0.002, 5, 0.3
    lengths = {"constant": lambda _, count: np.full(count, tokens), "geometric": geometric(tokens)}
    stored = target_law(recorded_profile, per_request_s=step_s)
    runs = [
        run(
            stored,
            seed=seed,
            num_requests=2_000,
            rate_per_s=None,
            arrivals=closed_loop(num_clients, think_s),
            seats=num_clients,
            draw_output=lengths[law],
        ).requests
        for seed in SEEDS
    ]
    rate_per_s, time_s = machine_repairman(num_clients, think_s, tokens * step_s)
    # Whoever comes inside a step waits for its end: 1 % of a service and less.
    assert agrees([throughput_per_s(requests) for requests in runs], rate_per_s, detects=0.05)
    assert agrees([response_s(requests) for requests in runs], time_s, detects=0.1)


@pytest.mark.parametrize("seats", [2, 8])
def test_the_interactive_law_holds_whatever_the_service(recorded_profile, seats):
    num_clients, think_s = 8, 0.4
    stored = target_law(recorded_profile, base_s=0.01, per_request_s=0.002)
    times, predicted = [], []
    for seed in SEEDS:
        requests = run(
            stored,
            seed=seed,
            num_requests=4_000,
            rate_per_s=None,
            arrivals=closed_loop(num_clients, think_s),
            seats=seats,
            draw_output=geometric(20),
        ).requests
        times.append(response_s(requests))
        predicted.append(num_clients / throughput_per_s(requests) - think_s)
    assert agrees(times, predicted, detects=0.1)


def test_clients_who_do_not_think_keep_the_seat_busy_and_all_others_waiting(exponential_steps):
    requests = run(
        exponential_steps,
        seed=1,
        num_requests=3_000,
        rate_per_s=None,
        arrivals=closed_loop(7, 0.0),
        seats=1,
        draw_prompt=exponential(MEAN_PROMPT_TOKENS),
    ).requests
    busy_s = requests["prompt_tokens"].sum() * TOKEN_S
    assert requests["finish_s"].max() == pytest.approx(busy_s)
    later = np.sort(requests["arrival_s"])[7:]
    assert np.array_equal(later, np.sort(requests["finish_s"])[:-7])
