"""How far one run meets its SLO: shares of the requests, against what the SLO asks of a service."""

import numpy as np

from simcore.metrics.summary import counted_requests, limits_met, request_latencies_s
from simcore.scenario import EVERY_LIMIT
from simcore.serving.simulation import SimulationResult
from simcore.serving.state import FINISHED


def attained_shares(result: SimulationResult) -> dict[str, float]:
    """Share of all who came after the warm-up that met each limit, and EVERY_LIMIT at once.

    Whoever was rejected, gave up or failed met none. Without anyone every share is 0.
    """
    came = counted_requests(result)
    served = came[came["state"] == FINISHED]
    met = limits_met(request_latencies_s(served), result.scenario.slo)
    every = np.logical_and.reduce([np.ones(len(served), dtype=bool), *met.values()])
    met[EVERY_LIMIT] = np.asarray(every)
    return {name: float(each.sum()) / max(len(came), 1) for name, each in met.items()}


def slo_margins(result: SimulationResult) -> dict[str, float]:
    """Requirement of the SLO -> attained less required share; below 0 it is missed."""
    attained = attained_shares(result)
    required = result.scenario.slo.required_shares()
    return {name: attained[name] - share for name, share in required.items()}
