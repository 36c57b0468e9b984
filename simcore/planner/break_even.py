"""The load at which speculation stops paying: where mean latency with it meets that without.

Loads are scanned upwards on a geometric grid with common random numbers, then the crossing is
narrowed by bisection.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from simcore.errors import ScenarioError
from simcore.metrics.summary import mean_e2e_s
from simcore.planner.replication import Replication, Runner
from simcore.scenario import Scenario
from simcore.workload.load import as_batch, at_mean_rate
from simcore.workload.recorded import num_requests

NUM_GRID_RATES = 9
NUM_BISECTIONS = 4
LIGHTEST_SHARE, HEAVIEST_SHARE = 0.03, 1.15  # of the throughput without speculation
NUM_CAPACITY_REQUESTS = 400
MAX_REQUESTS_PER_POINT = 1000


@dataclass(frozen=True)
class LoadPoint:
    """Speed-up of mean latency at one offered load."""

    rate_per_s: float
    speedup: float


@dataclass(frozen=True)
class BreakEven:
    """The crossing, or why there is none; and the curve behind it."""

    kind: Literal["crossing", "never_pays", "always_pays"]
    rate_per_s: float | None
    reason: str
    points: tuple[LoadPoint, ...]
    saturation_rate_per_s: float  # throughput of the service without speculation


def find_break_even(
    runner: Runner, proposer: str, gamma: int, replications: tuple[Replication, ...]
) -> BreakEven:
    """Scan loads from almost idle to beyond saturation for speed-up 1."""
    saturation = saturation_rate_per_s(runner, proposer, replications[0])
    rates = saturation * np.geomspace(LIGHTEST_SHARE, HEAVIEST_SHARE, NUM_GRID_RATES)
    points = [_point(runner, proposer, gamma, replications, float(rate)) for rate in rates]
    pays = [point.speedup > 1.0 for point in points]
    if not any(pays):
        reason = (
            f"it never pays: at {rates[0]:.3g} requests a second, an almost idle service, it "
            f"already changes mean latency by a factor {1 / points[0].speedup:.3f}"
        )
        return BreakEven("never_pays", None, reason, tuple(points), saturation)
    last = max(index for index, paying in enumerate(pays) if paying)
    if last == len(points) - 1:
        reason = (
            f"it pays at every load up to {rates[-1]:.3g} requests a second, beyond the "
            f"{saturation:.3g} that the service sustains without speculation"
        )
        return BreakEven("always_pays", None, reason, tuple(points), saturation)
    low, high = points[last], points[last + 1]
    for _ in range(NUM_BISECTIONS):
        middle = _point(
            runner, proposer, gamma, replications, float(np.sqrt(low.rate_per_s * high.rate_per_s))
        )
        points.append(middle)
        low, high = (middle, high) if middle.speedup > 1.0 else (low, middle)
    points.sort(key=lambda point: point.rate_per_s)
    crossing = float(np.sqrt(low.rate_per_s * high.rate_per_s))
    reason = (
        f"above {crossing:.3g} requests a second requests wait less without speculation "
        f"(between {low.rate_per_s:.3g} and {high.rate_per_s:.3g} by bisection)"
    )
    return BreakEven("crossing", crossing, reason, tuple(points), saturation)


def saturation_rate_per_s(runner: Runner, proposer: str, replication: Replication) -> float:
    """Requests a second that the service without speculation finishes when never idle."""
    count = NUM_CAPACITY_REQUESTS * runner.scenario.deployment.replicas
    scenario = runner.scenario.with_(
        workload=as_batch(runner.scenario.workload, count), warmup_fraction=0.0
    )
    requests = runner.run(replication, proposer, 0, scenario).request_records
    # The tail, with seats running empty, is not the sustained rate.
    finish_s = np.sort(requests["finish_s"])
    middle = len(finish_s) // 10, len(finish_s) * 8 // 10
    if middle[0] == middle[1]:
        raise ScenarioError(f"{len(finish_s)} requests are too few to plan with; expected 10")
    span_s = float(finish_s[middle[1]] - finish_s[middle[0]])
    return (middle[1] - middle[0]) / max(span_s, 1e-12)


def _point(
    runner: Runner,
    proposer: str,
    gamma: int,
    replications: tuple[Replication, ...],
    rate_per_s: float,
) -> LoadPoint:
    count = min(num_requests(runner.scenario.workload), MAX_REQUESTS_PER_POINT)
    scenario = at_rate(runner.scenario.with_(**{"workload.num_requests": count}), rate_per_s)
    logs = [
        np.log(mean_e2e_s(runner.run(each, proposer, 0, scenario)))
        - np.log(mean_e2e_s(runner.run(each, proposer, gamma, scenario)))
        for each in replications
    ]
    return LoadPoint(rate_per_s, float(np.exp(np.mean(logs))))


def at_rate(scenario: Scenario, rate_per_s: float) -> Scenario:
    """The same scenario, its requests arriving at another mean rate."""
    return scenario.with_(workload=at_mean_rate(scenario.workload, rate_per_s))
