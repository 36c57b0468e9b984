"""How unevenly requests reach one replica, in the two numbers that a queue asks for."""

from dataclasses import dataclass

import numpy as np

from simcore.planner.load.queue import peakedness
from simcore.scenario import Scenario
from simcore.workload.recorded import num_requests, recorded_column, recorded_requests
from simcore.workload_kinds import (
    Arrivals,
    GammaArrivals,
    MarkovModulatedArrivals,
    RecordedArrivals,
)


@dataclass(frozen=True)
class Unevenness:
    """Of the arrivals at one replica."""

    gap_scv: float  # squared coefficient of variation of the gaps
    excess: float = 0.0  # of the peakedness over that of renewal arrivals: slow changes of rate

    def peakedness(self, load_requests: float, same_life: float) -> float:
        """Variance over mean of the number present if nobody ever waited."""
        return peakedness(self.gap_scv, load_requests, same_life) + self.excess


def unevenness(scenario: Scenario, rate_per_s: float, life_s: float) -> Unevenness:
    """Of the scenario's open-loop arrivals, at this rate a replica and about this long a life."""
    arrivals, replicas = scenario.workload.arrivals, scenario.deployment.replicas
    whole = _gap_scv(arrivals, scenario)
    routing = scenario.deployment.routing
    as_if_by_lot = 1.0 + (whole - 1.0) / replicas
    every_so_manieth = whole / replicas
    scv = as_if_by_lot if routing == "session_affinity" else every_so_manieth
    excess = 0.0
    if isinstance(arrivals, MarkovModulatedArrivals):
        excess = _modulated_excess(arrivals, rate_per_s, life_s)
    return Unevenness(scv, excess)


def _gap_scv(arrivals: Arrivals, scenario: Scenario) -> float:
    if isinstance(arrivals, GammaArrivals):
        return arrivals.cv**2
    if isinstance(arrivals, RecordedArrivals):
        table = recorded_requests(arrivals).slice(0, num_requests(scenario.workload))
        gaps_s = np.diff(recorded_column(table, "arrival_s", arrivals))
        mean_s = float(gaps_s.mean()) if len(gaps_s) else 0.0
        return float(gaps_s.var() / mean_s**2) if mean_s > 0.0 else 1.0
    return 1.0


def _modulated_excess(arrivals: MarkovModulatedArrivals, rate_per_s: float, life_s: float) -> float:
    """∫ Cov(rate now, rate τ later) e^{-τ / life} dτ / mean rate, of a replica's share."""
    shares = arrivals.time_shares()
    rates = np.array([state.rate_per_s for state in arrivals.states])
    rates = rates * rate_per_s / float(shares @ rates)
    leave = 1.0 / np.array([state.mean_dwell_s for state in arrivals.states])
    generator = leave[:, None] * (arrivals.next_state_probability() - np.eye(len(rates)))
    later = np.linalg.solve(np.eye(len(rates)) / life_s - generator, rates)
    return float((shares * rates) @ later / rate_per_s - rate_per_s * life_s)
