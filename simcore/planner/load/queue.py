"""The number of running requests: a queue that shares its speed, in product form.

An engine with n running requests serves n / w(n) a second, however far each has come: a
processor-sharing queue whose speed depends on the load. Under Poisson arrivals its stationary law

    p(n) ∝ Π_{i ≤ n} λ · w(i) / i

holds for every law of lengths (Cohen 1979; Kelly 1979), and so do the means. With all seats taken
the speed stays and requests wait in order: the tail is geometric, the wait of exponential lives,
times (c_a² + c_s²) / 2 (Allen and Cunneen). Burstier or smoother arrivals: Hayward's scaling by
their peakedness z, levels n = z, 2z, … (Fredericks 1980). N clients that think for Z seconds:
arrivals (N − n) / Z, the machine-repairman queue.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

SPREADS = 4.0  # beyond the mean room, where it is as good as full


@dataclass(frozen=True)
class Service:
    """One replica: seconds of a life by running requests, and how many can run.

    At most `seats`, and no more than memory has room for: normal, mean `room` and standard
    deviation `spread`, because it differs with who is running.
    """

    nodes: FloatArray  # levels at which `life_s` is known, ascending
    life_s: FloatArray
    seats: float
    room: float = np.inf
    spread: float = 0.0
    extra_s: float = 0.0  # of a life while memory is full

    @property
    def most(self) -> float:
        """Mean running requests while many wait."""
        return float(self.running(np.array([self.seats]))[0])

    def memory_full(self, present: FloatArray) -> FloatArray:
        """Chance that memory has no room for another while so many are present."""
        if np.isinf(self.room):
            return np.zeros_like(present)
        return _below((np.minimum(present, self.seats) - self.room) / self.spread)

    def full_share(self, present: FloatArray) -> FloatArray:
        """Chance that nobody more can run while so many are present."""
        return np.where(present >= self.seats, 1.0, self.memory_full(present))

    def running(self, present: FloatArray) -> FloatArray:
        """Mean running requests while so many are present: E[min(present, seats, room)]."""
        seated = np.minimum(present, self.seats)
        if np.isinf(self.room):
            return np.asarray(seated)
        score = (seated - self.room) / self.spread
        density = np.exp(-(score**2) / 2.0) / np.sqrt(2.0 * np.pi)
        waiting = self.spread * (density + score * _below(score))
        return np.asarray(np.maximum(seated - waiting, np.minimum(seated, 1.0)))

    def per_request_s(self, present: FloatArray) -> FloatArray:
        """w(n) / n: seconds between two completions."""
        running = self.running(present)
        life_s = np.interp(running, self.nodes, self.life_s)
        life_s = life_s + self.memory_full(present) * self.extra_s
        return np.asarray(life_s / np.maximum(running, 1e-12))

    @property
    def max_rate_per_s(self) -> float:
        """Completions a second while many wait."""
        return float(1.0 / self.per_request_s(np.array([self.seats]))[0])


@dataclass(frozen=True)
class Occupancy:
    """Stationary law of one replica, [num_levels] from nobody present to all that can run."""

    levels: FloatArray  # running requests
    shares: FloatArray  # of time, sum 1
    full_shares: FloatArray  # chance that a newcomer finds no room
    mean_running: float
    mean_waiting: float

    @property
    def idle_share(self) -> float:
        """Share of time that nothing runs."""
        return float(self.shares[0])


def _below(score: FloatArray) -> FloatArray:
    """The normal distribution function."""
    from scipy.special import ndtr  # noqa: PLC0415 - where seats limit, no scipy is loaded

    return np.asarray(ndtr(score), dtype=np.float64)


def open_queue(
    service: Service, rate_per_s: float, peakedness: float, arrival_scv: float, life_scv: float
) -> Occupancy:
    """Arrivals at a rate below `service.max_rate_per_s`.

    `arrival_scv` of the gaps, `life_scv` of the cycles of a request: squared coefficients of
    variation.
    """
    last = min(service.seats, service.room + SPREADS * service.spread)
    count = int(last / peakedness)
    present: FloatArray = peakedness * np.arange(count + 1, dtype=np.float64)
    logs = np.zeros(count + 1)
    logs[1:] = np.cumsum(np.log(rate_per_s * service.per_request_s(present[1:])))
    weights = np.exp(logs - logs.max())
    load = rate_per_s / service.max_rate_per_s
    beyond = weights[-1] * load / (1.0 - load)  # every level after the last
    levels = service.running(present)
    waiting = float(weights @ (present - levels))
    waiting += beyond * (peakedness / (1.0 - load) + float(present[-1]) - service.most)
    total = float(weights.sum()) + beyond
    shares = np.append(weights, beyond) / total
    levels = np.append(levels, service.most)
    waiting = max(waiting / total, 0.0) * _correction(service.most, load, arrival_scv, life_scv)
    return Occupancy(
        levels,
        shares,
        np.append(service.full_share(present), 1.0),
        float(shares @ levels),
        waiting / peakedness,
    )


def _correction(seats: float, load: float, arrival_scv: float, life_scv: float) -> float:
    """Waiting with lives of any variation over that with exponential ones.

    With Poisson arrivals a mean of exponential and constant lives (Cosmetatos 1976), the latter
    half as long in heavy traffic and longer with many seats; other arrivals by Allen and Cunneen.
    """
    many = (seats - 1.0) * (np.sqrt(4.0 + 5.0 * seats) - 2.0) / (16.0 * seats)
    constant = min((1.0 + (1.0 - load) / load * many) / 2.0, 1.0)
    poisson = max(life_scv + (1.0 - life_scv) * constant, constant)
    return float(poisson * (arrival_scv + life_scv) / (1.0 + life_scv))


def closed_queue(service: Service, clients: float, think_s: float) -> tuple[Occupancy, float]:
    """(occupancy, requests a second) of one replica's share of the clients."""
    if think_s <= 0.0:
        present = np.array([0.0, clients])
        levels, full = service.running(present), service.full_share(present)
        running = float(levels[1])
        always = Occupancy(levels, np.array([0.0, 1.0]), full, running, clients - running)
        return always, float(1.0 / service.per_request_s(present)[1])
    count = max(int(np.ceil(clients)), 1)
    present = np.arange(1, count + 1, dtype=np.float64)
    thinking = np.maximum(clients - present + 1.0, 0.0)
    per_request_s = service.per_request_s(present)
    with np.errstate(divide="ignore"):
        steps = np.log(thinking / think_s * per_request_s)
    logs = np.concatenate([[0.0], np.cumsum(steps)])
    weights = np.exp(logs - logs.max())
    shares = weights / weights.sum()
    rate = float((shares[1:] / per_request_s).sum())
    present = np.arange(count + 1, dtype=np.float64)
    levels = service.running(present)
    waiting = float(shares @ (present - levels))
    full = service.full_share(present)
    return Occupancy(levels, shares, full, float(shares @ levels), waiting), rate


def peakedness(arrival_scv: float, load_requests: float, same_life: float) -> float:
    """Variance over mean of the number present if nobody ever waited.

    Of renewal arrivals with gamma gaps and exponential lives, z = 1 / (1 − A*(μ)) − λ / μ
    (Eckberg 1983), A* the transform of the gaps; other lives change its excess over 1 by
    2 · E[min(S, S')] / E[S] (`same_life`: that ratio; 1 where all lives are alike).
    `load_requests` = λ / μ.
    """
    if arrival_scv == 1.0:
        return 1.0
    if arrival_scv <= 0.0:
        transform = np.exp(-1.0 / load_requests)
    else:
        transform = (1.0 + arrival_scv / load_requests) ** (-1.0 / arrival_scv)
    excess = 1.0 / (1.0 - transform) - load_requests - 1.0
    return float(max(1.0 + 2.0 * same_life * excess, 0.05))
