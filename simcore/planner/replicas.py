"""find_replicas: the fewest replicas for a rate or a day, without and with speculation."""

import math
from collections import Counter
from collections.abc import Callable
from typing import Any

from simcore.errors import ScenarioError
from simcore.metrics.consumption import devices_of_a_replica
from simcore.metrics.replicated import seeds_of
from simcore.planner.capacity import DEFAULT_SEEDS, find_capacity
from simcore.planner.capacity_document import (
    Capacity,
    Fleet,
    HourNeed,
    LoadCurve,
    ReplicaPlan,
    ServiceCapacity,
)
from simcore.planner.economics import GivenFigures, with_given
from simcore.planner.limit_search import Verdict
from simcore.planner.load_bench import LoadBench
from simcore.planner.replication import Progress, run_counter
from simcore.profile.store import StoredProfile, load_profile
from simcore.scenario import Scenario
from simcore.workload_kinds.arrivals import MAX_RATE_PER_S, MIN_RATE_PER_S

MOST_REPLICAS = 1024
MOST_REQUESTS = 60_000
MORE_REPLICAS = 4  # beyond twice what division says, before the search gives up
USUAL_FLEET_RUNS = 60


def find_replicas(
    scenario: Scenario,
    demand: float | LoadCurve,
    *,
    stored: StoredProfile | None = None,
    num_seeds: int = DEFAULT_SEEDS,
    proposer: str | None = None,
    num_speculative_tokens: int | None = None,
    given: GivenFigures | None = None,
    one: Capacity | None = None,
    progress: Progress | None = None,
) -> ReplicaPlan:
    """The fewest replicas that surely meet the SLO at a rate, or at every hour of a day.

    The capacity of one replica says where to look; the count itself is simulated with the
    scenario's routing, one replica fewer too. Arguments are those of `find_capacity`, and so are
    the errors; an SLO that no load meets gives null, with the reason. `one` avoids searching the
    capacity of one replica again.
    """
    given = given or GivenFigures()
    stored = with_given(stored or load_profile(scenario.profile), given)
    curve = demand if isinstance(demand, LoadCurve) else None
    rates_per_s = check_demand(scenario, demand)
    if one is None:
        one = find_capacity(
            scenario.with_(**{"deployment.replicas": 1}),
            stored=stored,
            num_seeds=num_seeds,
            proposer=proposer,
            num_speculative_tokens=num_speculative_tokens,
            given=given,
            progress=progress,
        )
    total = 2 * USUAL_FLEET_RUNS
    count, num_requests = run_counter(progress, total), one.num_requests

    def fleet(each: ServiceCapacity) -> Fleet:
        return _fleet(each, num_requests, stored, num_seeds, rates_per_s, curve, count)

    off = fleet(one.off)
    on = off if one.on == one.off else fleet(one.on)
    if progress is not None:
        progress(total, total)
    return ReplicaPlan(
        origin=one.origin,
        rate_per_s=max(rates_per_s),
        curve=curve,
        seeds=tuple(seeds_of(scenario, num_seeds)),
        off=off,
        on=on,
        caveats=one.caveats,
    )


def check_demand(scenario: Scenario, demand: float | LoadCurve) -> tuple[float, ...]:
    """The rates that replicas are counted for. Raises ScenarioError where there can be none."""
    rates_per_s = demand.rates_per_s if isinstance(demand, LoadCurve) else (demand,)
    if scenario.workload.arrivals.kind == "closed_loop":
        raise ScenarioError(
            "a closed loop has users and no rate; give the workload arrivals with a rate to count "
            "replicas for one"
        )
    for rate_per_s in rates_per_s:
        if rate_per_s != 0.0 and not MIN_RATE_PER_S <= rate_per_s <= MAX_RATE_PER_S:
            raise ScenarioError(
                f"rate {rate_per_s:g} requests/s; expected {MIN_RATE_PER_S:g} to {MAX_RATE_PER_S:g}"
            )
    if not any(rates_per_s):
        raise ScenarioError("rate 0 requests/s needs no replica; expected more than 0")
    return rates_per_s


class _Sizing:
    """Verdicts on (replicas, rate), each simulated at most once and spread by monotony.

    A count that meets the SLO at a rate meets it at a lower one; one that misses it misses it at a
    higher one.
    """

    def __init__(self, bench_of: Callable[[int], LoadBench], one: ServiceCapacity) -> None:
        self._bench_of = bench_of
        self._one_per_s = one.max_rate_per_s or 0.0
        self._benches: dict[int, LoadBench] = {}
        self._seen: dict[int, list[tuple[float, Verdict]]] = {}

    def fewest(self, rate_per_s: float) -> int:
        """The fewest that surely meet the SLO. Raises ScenarioError beyond MOST_REPLICAS."""
        if rate_per_s == 0.0:
            return 1
        guess = max(1, math.ceil(rate_per_s / self._one_per_s))
        count = guess
        while self._verdict(count, rate_per_s) != "met":
            count += 1
            if count > 2 * guess + MORE_REPLICAS:
                raise ScenarioError(
                    f"{count - 1} replicas together do not surely meet the SLO at "
                    f"{rate_per_s:.4g} requests/s, though {guess} times the capacity of one is "
                    "that much; give the workload more requests, or try another routing"
                )
        while count > 1 and self._verdict(count - 1, rate_per_s) == "met":
            count -= 1
        return count

    def fewest_possible(self, rate_per_s: float) -> int:
        """The fewest that do not surely miss it."""
        least = self.fewest(rate_per_s)
        while least > 1 and self._verdict(least - 1, rate_per_s) != "missed":
            least -= 1
        return least

    def _verdict(self, count: int, rate_per_s: float) -> Verdict:
        if count > MOST_REPLICAS:
            raise ScenarioError(
                f"{rate_per_s:.4g} requests/s would take more than {MOST_REPLICAS} replicas; plan "
                "for a part of it"
            )
        for seen_per_s, verdict in self._seen.setdefault(count, []):
            if verdict == "met" and rate_per_s <= seen_per_s:
                return "met"
            if verdict == "missed" and rate_per_s >= seen_per_s:
                return "missed"
            if rate_per_s == seen_per_s:
                return verdict
        if count not in self._benches:
            self._benches[count] = self._bench_of(count)
        found = self._benches[count].judge(rate_per_s).verdict
        self._seen[count].append((rate_per_s, found))
        return found


def _fleet(
    one: ServiceCapacity,
    num_requests: int,
    stored: StoredProfile,
    num_seeds: int,
    rates_per_s: tuple[float, ...],
    curve: LoadCurve | None,
    on_run: Callable[[], None] | None,
) -> Fleet:
    if not one.max_rate_per_s:
        return _no_fleet(one)

    def bench_of(count: int) -> LoadBench:
        changes: dict[str, int] = {"deployment.replicas": count}
        if one.scenario.workload.recording is None:
            changes["workload.num_requests"] = _requests_of(num_requests, count)
        return LoadBench(one.scenario.with_(**changes), stored, num_seeds, on_run)

    sizing = _Sizing(bench_of, one)
    peak_per_s = max(rates_per_s)
    # From the highest rate down: what it takes there bounds what it takes below.
    needs = {rate: sizing.fewest(rate) for rate in sorted(set(rates_per_s), reverse=True)}
    replicas, at_least = needs[peak_per_s], sizing.fewest_possible(peak_per_s)
    by_division = math.ceil(peak_per_s / one.max_rate_per_s)
    devices = devices_of_a_replica(stored.profile, one.scenario.speculation)
    hours = [needs[rate] for rate in rates_per_s] if curve is not None else []
    static, scaled = float(24 * replicas * devices), float(sum(hours) * devices)
    price = stored.profile.identity.hardware.price_usd_per_hour
    return Fleet(
        **_of_one(one),
        replicas=replicas,
        at_least=at_least,
        by_division=by_division,
        reason=_reason(replicas, at_least, by_division),
        num_devices=replicas * devices,
        hours=tuple(
            HourNeed(hour=hour, rate_per_s=rate, replicas=count)
            for hour, (rate, count) in enumerate(zip(rates_per_s, hours, strict=False))
        ),
        hours_at=dict(sorted(Counter(hours).items())),
        static_device_hours=static,
        scaled_device_hours=scaled if curve is not None else None,
        static_cost_usd_per_day=None if price is None else static * price,
        scaled_cost_usd_per_day=None if price is None or curve is None else scaled * price,
    )


def _requests_of(num_requests: int, count: int) -> int:
    """Every replica as many as the one had, until the runs would take too long."""
    return max(num_requests, min(num_requests * count, MOST_REQUESTS))


def _reason(replicas: int, at_least: int, by_division: int) -> str:
    found = f"{replicas} simulated together surely meet the SLO"
    if at_least < replicas:
        found += f", {at_least} do not surely miss it"
    if by_division != replicas:
        found += f"; dividing by the capacity of one would have said {by_division}"
    return found


def _of_one(one: ServiceCapacity) -> dict[str, Any]:
    """What a fleet repeats of its replica."""
    return {
        "label": one.label,
        "proposer": one.proposer,
        "num_speculative_tokens": one.num_speculative_tokens,
        "one_replica_rate_per_s": one.max_rate_per_s or 0.0,
        "one_replica_interval": one.interval or (0.0, 0.0),
    }


def _no_fleet(one: ServiceCapacity) -> Fleet:
    return Fleet(
        **_of_one(one),
        replicas=None,
        at_least=None,
        by_division=None,
        reason=f"no number of replicas: {one.reason}",
        num_devices=None,
        hours=(),
        hours_at={},
        static_device_hours=None,
        scaled_device_hours=None,
        static_cost_usd_per_day=None,
        scaled_cost_usd_per_day=None,
    )
