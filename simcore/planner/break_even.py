"""The load at which speculation stops paying: where mean latency with it meets that without.

Loads are scanned upwards on a geometric grid with common random numbers, then the crossing is
narrowed by bisection.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from simcore.errors import ScenarioError
from simcore.metrics.summary import mean_e2e_s
from simcore.planner.replication import Interval, Replication, Runner, ratio_interval
from simcore.records import Records
from simcore.scenario import Scenario
from simcore.serving.state import FINISHED
from simcore.workload.load import as_batch, at_mean_rate
from simcore.workload.recorded import num_requests

NUM_GRID_RATES = 9
NUM_BISECTIONS = 4
LIGHTEST_SHARE, HEAVIEST_SHARE = 0.03, 1.15  # of the throughput without speculation
NUM_CAPACITY_REQUESTS = 400
NUM_TURNS = 8  # requests a seat serves while throughput is measured
MAX_REQUESTS_PER_POINT = 1000


@dataclass(frozen=True)
class LoadPoint:
    """Speed-up of mean latency at one offered load."""

    rate_per_s: float
    log_ratios: NDArray[np.float64]  # [num_replications] log of mean E2E off / on

    @property
    def speedup(self) -> float:
        """Geometric mean over the replications."""
        return float(np.exp(self.log_ratios.mean()))


@dataclass(frozen=True)
class BreakEven:
    """The crossing, or why there is none; and the curve behind it."""

    kind: Literal["crossing", "never_pays", "always_pays", "unclear"]
    rate_per_s: float | None
    interval: tuple[float, float] | None  # over the replications; None where some never cross
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
    outcome = _without_crossing(points, saturation)
    if outcome is not None:
        return outcome
    last = max(index for index, point in enumerate(points) if point.speedup > 1.0)
    low, high = points[last], points[last + 1]
    for _ in range(NUM_BISECTIONS):
        middle = _point(
            runner, proposer, gamma, replications, float(np.sqrt(low.rate_per_s * high.rate_per_s))
        )
        points.append(middle)
        low, high = (middle, high) if middle.speedup > 1.0 else (low, middle)
    points.sort(key=lambda point: point.rate_per_s)
    crossing = float(np.sqrt(low.rate_per_s * high.rate_per_s))
    interval = _interval(points)
    spread = "" if interval is None else f" ({interval[0]:.3g} to {interval[1]:.3g})"
    reason = (
        f"above {crossing:.3g} requests a second{spread} the mean request is faster without "
        "speculation"
    )
    if interval is None:
        reason += "; some replications never cross, so the load is not known closely"
    return BreakEven("crossing", crossing, interval, reason, tuple(points), saturation)


def _without_crossing(points: list[LoadPoint], saturation: float) -> BreakEven | None:
    """What the scan says where its middle estimate crosses 1 nowhere; None where it does."""
    pays = [point.speedup > 1.0 for point in points]
    if any(pays) and not pays[-1]:
        return None
    lightest, heaviest = points[0].rate_per_s, points[-1].rate_per_s
    unsure = [each for each in points if _holds_one(ratio_interval(np.exp(each.log_ratios)))]
    found = (tuple(points), saturation)
    # Slower on average everywhere and surely so when idle, where drafting is at its best.
    surely_never = not any(pays) and points[0] not in unsure
    if unsure and not surely_never:
        reason = (
            "it cannot be told: on average speculation is "
            f"{'faster' if any(pays) else 'slower'} at every load, but from "
            f"{unsure[0].rate_per_s:.3g} to {unsure[-1].rate_per_s:.3g} requests a second the "
            "interval of the speed-up holds 1"
        )
        return BreakEven("unclear", None, None, reason, *found)
    if any(pays):
        reason = (
            f"it pays at every load that the service can sustain, and up to {heaviest:.3g} "
            f"requests a second (without speculation it sustains {saturation:.3g})"
        )
        return BreakEven("always_pays", None, None, reason, *found)
    reason = (
        f"it never pays: at {lightest:.3g} requests a second, an almost idle service, the mean "
        f"request already takes {1 / points[0].speedup:.3f} times as long"
    )
    return BreakEven("never_pays", None, None, reason, *found)


def _holds_one(interval: Interval) -> bool:
    return interval.lower <= 1.0 <= interval.upper


def _interval(points: list[LoadPoint]) -> tuple[float, float] | None:
    """Lowest and highest load at which a single replication crosses 1, by interpolation."""
    rates = np.log([point.rate_per_s for point in points])
    crossings = []
    for ratios in np.array([point.log_ratios for point in points]).T:
        paying = np.flatnonzero(ratios > 0.0)
        if not len(paying) or paying[-1] == len(rates) - 1:
            return None
        last = int(paying[-1])
        share = ratios[last] / (ratios[last] - ratios[last + 1])
        crossings.append(float(np.exp(rates[last] + share * (rates[last + 1] - rates[last]))))
    return min(crossings), max(crossings)


def saturation_rate_per_s(runner: Runner, proposer: str, replication: Replication) -> float:
    """Requests a second that the service without speculation finishes when never idle."""
    scenario = never_idle(runner.scenario, NUM_CAPACITY_REQUESTS, NUM_TURNS)
    return finish_rate_per_s(runner.run(replication, proposer, 0, scenario).request_records)


def never_idle(scenario: Scenario, least_requests: int, num_turns: int) -> Scenario:
    """The scenario with all its requests there at once, so many for every replica.

    At least `num_turns` for each seat: most of the run is spent with full seats, not filling or
    emptying them. Nobody gives up or is turned away.
    """
    deployment = scenario.deployment
    a_replica = max(least_requests, num_turns * deployment.max_num_seqs)
    workload = as_batch(scenario.workload, a_replica * deployment.replicas)
    return scenario.with_(
        workload=workload.model_copy(update={"patience_s": None}),
        warmup_fraction=0.0,
        **{"deployment.max_queue": None},
    )


def finish_rate_per_s(requests: Records) -> float:
    """Requests finished a second while a run that never idles is in full swing."""
    requests = requests[requests["state"] == FINISHED]
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
    return LoadPoint(rate_per_s, np.array(logs))


def at_rate(scenario: Scenario, rate_per_s: float) -> Scenario:
    """The same scenario, its requests arriving at another mean rate."""
    return scenario.with_(workload=at_mean_rate(scenario.workload, rate_per_s))
