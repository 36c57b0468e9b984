"""The load at which speculation stops paying: where mean latency with it meets that without.

Loads are scanned upwards on a geometric grid with common random numbers, then the crossing is
narrowed by bisection.
"""

from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from simcore.metrics.summary import mean_e2e_s
from simcore.planner.replication import Interval, Replication, Runner, ratio_interval
from simcore.planner.saturation import saturation_of
from simcore.records import Records
from simcore.scenario import Scenario
from simcore.speculation import Speculation
from simcore.workload.load import at_mean_rate
from simcore.workload.recorded import num_requests

NUM_GRID_RATES = 9
NUM_BISECTIONS = 4
LIGHTEST_SHARE, HEAVIEST_SHARE = 0.03, 1.15  # of the throughput without speculation
NUM_SATURATIONS = 5  # replications behind the throughput
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
    runner: Runner,
    proposer: str,
    speculation: Speculation,
    replications: tuple[Replication, ...],
    known_off: dict[tuple[str, float, int], float] | None = None,
) -> BreakEven:
    """Scan loads from almost idle to beyond saturation for speed-up 1.

    `known_off` keeps the mean E2E of off by proposer, rate and replication from one call to the
    next of the same runner.
    """
    saturation = saturation_rate_per_s(runner, proposer, replications)
    known = {} if known_off is None else known_off
    look = partial(_point, runner, proposer, speculation, replications, known)
    rates = saturation * np.geomspace(LIGHTEST_SHARE, HEAVIEST_SHARE, NUM_GRID_RATES)
    points = [look(float(rate)) for rate in rates]
    outcome = _without_crossing(points, saturation)
    if outcome is not None:
        return outcome
    last = max(index for index, point in enumerate(points) if point.speedup > 1.0)
    low, high = points[last], points[last + 1]
    for _ in range(NUM_BISECTIONS):
        middle = look(float(np.sqrt(low.rate_per_s * high.rate_per_s)))
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
            f"it pays at every load that the service can sustain, tried up to {heaviest:.3g} "
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


def saturation_rate_per_s(
    runner: Runner, proposer: str, replications: tuple[Replication, ...]
) -> float:
    """Requests a second that the service without speculation finishes when never idle, mean."""
    found = [
        saturation_of(runner.scenario, partial(_requests, runner, proposer, each))
        for each in replications[:NUM_SATURATIONS]
    ]
    return float(np.mean(found))


def _requests(
    runner: Runner, proposer: str, replication: Replication, scenario: Scenario
) -> Records:
    return runner.run(replication, proposer, 0, scenario).request_records


def _point(
    runner: Runner,
    proposer: str,
    speculation: Speculation,
    replications: tuple[Replication, ...],
    known_off: dict[tuple[str, float, int], float],
    rate_per_s: float,
) -> LoadPoint:
    scenario = point_scenario(runner.scenario, rate_per_s)
    logs = []
    for each in replications:
        key = (proposer, rate_per_s, each.index)
        if key not in known_off:
            known_off[key] = mean_e2e_s(runner.run(each, proposer, 0, scenario))
        on_s = mean_e2e_s(runner.run_way(each, proposer, speculation, scenario))
        logs.append(np.log(known_off[key]) - np.log(on_s))
    return LoadPoint(rate_per_s, np.array(logs))


def point_scenario(scenario: Scenario, rate_per_s: float) -> Scenario:
    """The scenario as it is simulated at one load of the curve."""
    count = min(num_requests(scenario.workload), MAX_REQUESTS_PER_POINT)
    return at_rate(scenario.with_(**{"workload.num_requests": count}), rate_per_s)


def at_rate(scenario: Scenario, rate_per_s: float) -> Scenario:
    """The same scenario, its requests arriving at another mean rate."""
    return scenario.with_(workload=at_mean_rate(scenario.workload, rate_per_s))
