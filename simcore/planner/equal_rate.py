"""The offered load at which a service admits a wanted rate, found by bracket and bisection."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from simcore.errors import ScenarioError
from simcore.metrics.replicated import ReplicatedSummary
from simcore.metrics.summary import counted_requests
from simcore.scenario import Scenario
from simcore.serving.simulation import SimulationResult
from simcore.serving.state import FINISHED
from simcore.workload.load import mean_rate_per_s

RATE_TOLERANCE = 0.005  # relative, of the admitted rate; and of the load that is found
FIRST_STEP = 1.05  # of the bracket; squared each time
MAX_OVERLOAD = 8.0  # offered over wanted; who turns so many away serves no more beyond


@dataclass(frozen=True)
class LoadedService:
    """One service at one offered load: what every seed gave."""

    scenario: Scenario
    admitted_rates_per_s: tuple[float | None, ...]  # by seed
    summary: ReplicatedSummary

    @property
    def offered_rate_per_s(self) -> float | None:
        """Of the workload's arrivals; None for an offline batch."""
        return mean_rate_per_s(self.scenario.workload)

    @property
    def admitted_rate_per_s(self) -> float:
        """Mean over the seeds. Raises ScenarioError where a run was too short to tell."""
        rates = [rate for rate in self.admitted_rates_per_s if rate is not None]
        if len(rates) < len(self.admitted_rates_per_s):
            raise ScenarioError(
                f"{self.summary.origin['scenario']}: the run is over with its first counted "
                "request, so no rate is admitted; give the workload more requests"
            )
        return float(np.mean(rates))


@dataclass(frozen=True)
class RateSearch:
    """The load found, or the nearest to it and why it is not."""

    found: LoadedService
    reaches_rate: bool
    note: str


def admitted_rate_per_s(result: SimulationResult) -> float | None:
    """Requests served to the end a second, from the first counted arrival to the last admission.

    Finishes in that time over that time: neither the seats' first filling nor their emptying at
    the end of the run counts. In a service that keeps up it is the offered rate less rejections
    and cancellations; in one that does not, its capacity. None where that time is empty.
    """
    requests = result.request_records
    begin_s = float(counted_requests(result)["arrival_s"].min())
    end_s = float(max(requests["arrival_s"].max(), requests["scheduled_s"].max()))
    if end_s <= begin_s:
        return None
    finish_s = requests["finish_s"][requests["state"] == FINISHED]
    return float(np.sum((finish_s > begin_s) & (finish_s <= end_s))) / (end_s - begin_s)


def search_rate(run: Callable[[float], LoadedService], wanted_rate_per_s: float) -> RateSearch:
    """The lowest offered load at which the mean admitted rate is the wanted one, within 0.5 %.

    `run` simulates the service at an offered load, under the same seeds each time: with common
    random numbers the admitted rate rises smoothly with the load until the service is full. The
    search begins at the wanted rate itself, brackets the load and bisects it.
    """
    tried: dict[float, LoadedService] = {}

    def reaches(rate_per_s: float) -> bool:
        tried[rate_per_s] = run(rate_per_s)
        least = (1.0 - RATE_TOLERANCE) * wanted_rate_per_s
        return tried[rate_per_s].admitted_rate_per_s >= least

    bracket = _bracket(reaches, wanted_rate_per_s)
    if bracket is None:
        return _most(list(tried.values()), wanted_rate_per_s)
    low, high = bracket
    while high / low > 1.0 + RATE_TOLERANCE:
        middle = float(np.sqrt(low * high))
        low, high = (low, middle) if reaches(middle) else (middle, high)
    if tried[high].admitted_rate_per_s > (1.0 + RATE_TOLERANCE) * wanted_rate_per_s:
        return _jumps(tried[high], wanted_rate_per_s)
    return RateSearch(tried[high], True, "")


def _bracket(reaches: Callable[[float], bool], start: float) -> tuple[float, float] | None:
    """A load that does not reach the rate and a higher one that does; None without the latter."""
    step, low, high = FIRST_STEP, start, start
    if reaches(start):
        while reaches(low := low / step):
            high, step = low, step**2
        return low, high
    while not reaches(high := min(high * step, MAX_OVERLOAD * start)):
        if high >= MAX_OVERLOAD * start:
            return None
        low, step = high, step**2
    return low, high


def _most(tried: list[LoadedService], wanted_rate_per_s: float) -> RateSearch:
    """The lowest load at which it serves about the most: more offered only lengthens its queue."""
    most = max(each.admitted_rate_per_s for each in tried)
    full = next(each for each in tried if each.admitted_rate_per_s >= (1 - RATE_TOLERANCE) * most)
    note = (
        f"cannot serve {wanted_rate_per_s:.3g} requests/s: at most {most:.3g}, shown at "
        f"{full.offered_rate_per_s:.3g} offered"
    )
    return RateSearch(full, False, note)


def _jumps(found: LoadedService, wanted_rate_per_s: float) -> RateSearch:
    """A run of few requests counts its finishes in big steps."""
    note = (
        f"no load was found at which it serves {wanted_rate_per_s:.3g} requests/s within "
        f"{100 * RATE_TOLERANCE:g} %: just above, it serves {found.admitted_rate_per_s:.3g}; give "
        "it more requests or seeds"
    )
    return RateSearch(found, False, note)
