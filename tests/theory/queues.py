"""Queues in closed form, and the Markov chain of an engine that works in steps."""

import math
from collections.abc import Callable

import numpy as np
from scipy.optimize import brentq
from scipy.stats import binom, poisson

StepSeconds = Callable[[int], float]


def erlang_c_wait_s(seats: int, utilisation: float, service_s: float) -> float:
    """Mean wait of M/M/c: Erlang's C times the mean wait of those who wait."""
    load = seats * utilisation
    queueing = load**seats / math.factorial(seats) / (1 - utilisation)
    others = sum(load**n / math.factorial(n) for n in range(seats))
    return queueing / (others + queueing) * service_s / (seats * (1 - utilisation))


def erlang_arrivals_wait_s(stages: int, utilisation: float, service_s: float) -> float:
    """Mean wait of E_k/M/1: σ/(μ(1 − σ)) where σ = A*(μ(1 − σ)) lies inside (0, 1)."""
    service_rate = 1.0 / service_s
    stage_rate = stages * utilisation * service_rate

    def gap(sigma: float) -> float:
        return (stage_rate / (stage_rate + service_rate * (1 - sigma))) ** stages - sigma

    sigma = brentq(gap, 0.0, 1.0 - 1e-9)
    return float(sigma * service_s / (1 - sigma))


def machine_repairman(clients: int, think_s: float, service_s: float) -> tuple[float, float]:
    """(throughput, mean time in the system) of M/M/1//N: clients think, then ask the one seat.

    Shares of time p_k ∝ N! / (N − k)! (service / think)^k with k in the system; X = (1 − p_0) / S
    and R = N / X − Z. Neither depends on the law of thinking, nor on that of the service where the
    seat is shared.
    """
    weights = [1.0]
    for present in range(clients):
        weights.append(weights[-1] * (clients - present) * service_s / think_s)
    rate_per_s = (1.0 - 1.0 / math.fsum(weights)) / service_s
    return rate_per_s, clients / rate_per_s - think_s


def stepped_queue(
    rate_per_s: float, mean_tokens: float, seats: int, step_s: StepSeconds, longest: int
) -> tuple[float, float]:
    """(mean wait, mean time in the system) of an engine that works in steps, exactly.

    Poisson arrivals; up to `seats` requests take part in a step of step_s(n) seconds; each ends
    with it with probability 1 / mean_tokens; others join when the next step begins. The number
    present as steps begin is a Markov chain, cut at `longest`. An empty engine begins its next
    step with the next arrival. Means over time follow by integrating over one step, means over
    requests by Little's law.
    """
    present = np.arange(1, longest + 1)
    running = np.minimum(present, seats)
    seconds = np.array([step_s(int(n)) for n in running])
    after_step = np.zeros((longest, longest + 1))
    for row, (count, batch, length_s) in enumerate(zip(present, running, seconds, strict=True)):
        leaving = binom.pmf(np.arange(batch + 1), batch, 1.0 / mean_tokens)
        arriving = poisson.pmf(np.arange(longest + 1), rate_per_s * length_s)
        for ended, chance in enumerate(leaving):
            first = count - ended
            after_step[row, first:] += chance * arriving[: longest + 1 - first]
    empty = after_step[:, 0].copy()
    chain = after_step[:, 1:].copy()
    chain[:, 0] += empty  # the next arrival begins the next step alone
    chain /= chain.sum(axis=1, keepdims=True)
    share = _stationary(chain)
    cycle_s = share @ seconds + share @ empty / rate_per_s
    joining = rate_per_s * seconds / 2  # arrivals during a step, on average over it
    waiting = share @ (seconds * (present - running + joining)) / cycle_s
    in_system = share @ (seconds * (present + joining)) / cycle_s
    return float(waiting / rate_per_s), float(in_system / rate_per_s)


def _stationary(chain: np.ndarray) -> np.ndarray:
    system = chain.T - np.eye(len(chain))
    system[-1] = 1.0  # shares sum to one
    share = np.linalg.solve(system, np.append(np.zeros(len(chain) - 1), 1.0))
    assert abs(share[-1]) < 1e-9  # the cut is too far out to matter
    return np.asarray(share)
