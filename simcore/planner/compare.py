"""compare: several services under the same requests, at equal offered load or admitted rate.

Every service runs under the same seeds (common random numbers): requests, their lengths and their
luck are shared, so that differences paired by seed carry little noise.
"""

import hashlib
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Literal

from simcore.errors import ScenarioError
from simcore.metrics.estimate import estimate
from simcore.metrics.replicated import leaves, seeds_of, simulate_seeds
from simcore.planner.break_even import at_rate
from simcore.planner.comparison import Comparison, Service
from simcore.planner.difference import differences
from simcore.planner.equal_rate import (
    RATE_TOLERANCE,
    LoadedService,
    RateSearch,
    admitted_rate_per_s,
    search_rate,
)
from simcore.planner.replication import Progress, at_fixed_length, run_counter
from simcore.profile.store import StoredProfile, load_profile
from simcore.scenario import Scenario
from simcore.serving.simulation import SimulationResult
from simcore.version import specplan_version
from simcore.workload.load import mean_rate_per_s

DEFAULT_SEEDS = 10
SHARED = ("workload", "contract", "sampling", "slo", "warmup_fraction")  # of all that is compared
USUAL_SEARCH_LOADS = 7  # that a service is simulated at, about; for the progress bar

At = Literal["offered", "admitted"]


def compare(
    scenarios: Mapping[str, Scenario],
    *,
    at: At = "offered",
    rate_per_s: float | None = None,
    num_seeds: int = DEFAULT_SEEDS,
    profiles: Mapping[str, StoredProfile] | None = None,
    progress: Progress | None = None,
) -> Comparison:
    """Compare services, label -> scenario, with the first one.

    `at` "offered": all meet the same arrivals, at the workload's own rate or at `rate_per_s`; what
    they reject stands beside their latencies. `at` "admitted": each is offered the lowest load at
    which it serves `rate_per_s` (by default what the weakest serves of the workload's own load),
    found by search within RATE_TOLERANCE; one that cannot says how much it can. Seeds run from
    the first scenario's. `profiles` avoids reading them again, by the name that scenarios give.

    Raises ScenarioError where the scenarios do not ask for the same: another workload, contract,
    sampling, SLO or warm-up, or recorded lengths that differ between proposers.
    """
    _check(scenarios, num_seeds, rate_per_s)
    first = next(iter(scenarios.values()))
    if at == "admitted" and mean_rate_per_s(first.workload) is None:
        raise ScenarioError(
            f"{first.workload.arrivals.kind!r} arrivals have no rate to search; compare at equal "
            "offered load, or give the workload arrivals with a rate"
        )
    seeded = {label: each.with_(seed=first.seed) for label, each in scenarios.items()}
    stored = {each.profile: (profiles or {}).get(each.profile) for each in seeded.values()}
    loaded = {name: known or load_profile(name) for name, known in stored.items()}
    loads = USUAL_SEARCH_LOADS if at == "admitted" else 1
    total = len(seeded) * num_seeds * loads
    bench = _Bench(seeded, loaded, num_seeds, run_counter(progress, total))
    if at == "offered":
        found = {label: RateSearch(bench.run(label, rate_per_s), True, "") for label in seeded}
    else:
        rate_per_s = _weakest(bench) if rate_per_s is None else rate_per_s
        found = {label: search_rate(partial(bench.run, label), rate_per_s) for label in seeded}
    if progress is not None:
        progress(total, total)
    services = _services(found)
    return Comparison(
        origin={"specplan_version": specplan_version(), "reference": next(iter(seeded))},
        at=at,
        rate_per_s=services[0].offered_rate_per_s if rate_per_s is None else rate_per_s,
        rate_tolerance=RATE_TOLERANCE if at == "admitted" else None,
        seeds=tuple(seeds_of(first, num_seeds)),
        services=services,
        caveats=_caveats(bench, services, at),
    )


def draft_lengths(
    scenario: Scenario, proposers: tuple[str, ...], gammas: tuple[int, ...]
) -> dict[str, Scenario]:
    """One scenario at several fixed draft lengths, label -> scenario; 0 is off.

    Its own policy or tree is left out. Without `proposers` the scenario's own is used. Off runs
    once, on the first proposer's recordings, with nothing loaded.
    """
    names = proposers or tuple(filter(None, [scenario.speculation.proposer]))
    if not names:
        raise ScenarioError(
            f"scenario {scenario.name!r} names no proposer; say which with --proposer"
        )
    found = {}
    for gamma in dict.fromkeys(gammas):
        for name in names if gamma > 0 else names[:1]:
            label = f"{name} γ={gamma}" if gamma > 0 else "off"
            found[label] = at_fixed_length(scenario, scenario.seed, name, gamma)
    return found


class _Bench:
    """Runs the services under the common seeds, and sees that they meet the same requests."""

    def __init__(
        self,
        scenarios: dict[str, Scenario],
        profiles: dict[str, StoredProfile],
        num_seeds: int,
        on_run: Callable[[], None] | None,
    ) -> None:
        self.scenarios = scenarios
        self.profiles = profiles
        self._num_seeds = num_seeds
        self._on_run = on_run
        self._met: dict[int, tuple[str, str]] = {}  # seed -> label and requests of the first run

    def run(self, label: str, rate_per_s: float | None) -> LoadedService:
        """One service under every seed, at this mean rate of arrivals or at its own."""
        scenario = self.scenarios[label]
        if rate_per_s is not None:
            scenario = at_rate(scenario, rate_per_s)
        admitted: list[float | None] = []

        def look(result: SimulationResult) -> None:
            admitted.append(admitted_rate_per_s(result))
            self._check_requests(label, result)
            if self._on_run is not None:
                self._on_run()

        summary = simulate_seeds(
            scenario, self._num_seeds, stored=self.profiles[scenario.profile], on_result=look
        )
        return LoadedService(scenario, tuple(admitted), summary)

    def _check_requests(self, label: str, result: SimulationResult) -> None:
        """Arrivals are the workload's; recorded lengths are those of a proposer's recordings."""
        requests = result.request_records
        domains = "\n".join(result.model.domain_names[each] for each in requests["domain"])
        found = hashlib.sha256(domains.encode())
        found.update(requests["prompt_tokens"].tobytes() + requests["output_tokens"].tobytes())
        met = self._met.setdefault(result.scenario.seed, (label, found.hexdigest()))
        if met[1] != found.hexdigest():
            raise ScenarioError(
                f"{label!r} and {met[0]!r} meet different requests: their domains, or the recorded "
                "lengths that come with each proposer's recordings, differ; give the workload "
                "lengths of another kind, or name the domains"
            )


def _check(scenarios: Mapping[str, Scenario], num_seeds: int, rate_per_s: float | None) -> None:
    if len(scenarios) < 2:  # noqa: PLR2004  a comparison has two sides
        raise ScenarioError(
            f"{len(scenarios)} scenario to compare; expected two or more, or one with several "
            "draft lengths (--gammas 0,2,4)"
        )
    if num_seeds < 2:  # noqa: PLR2004  an interval needs two
        raise ScenarioError(f"{num_seeds} seeds; a paired interval needs at least 2")
    if rate_per_s is not None and not rate_per_s > 0.0:
        raise ScenarioError(f"rate {rate_per_s:g} requests/s; expected more than 0")
    (first, reference), *others = scenarios.items()
    expected = _shared(reference)
    for label, scenario in others:
        found = _shared(scenario)
        for name in dict.fromkeys([*expected, *found]):
            if expected.get(name) != found.get(name):
                raise ScenarioError(
                    f"{label!r} and {first!r} differ in {name}: {found.get(name)!r} and "
                    f"{expected.get(name)!r}; only deployment, speculation and profile may differ"
                )


def _shared(scenario: Scenario) -> dict[str, Any]:
    """What all services of a comparison are asked alike, by dotted name."""
    return dict(leaves(scenario.model_dump(mode="json", include=set(SHARED))))


def _weakest(bench: _Bench) -> float:
    """What the service that serves least of the workload's own load serves of it."""
    rates = {label: bench.run(label, None).admitted_rate_per_s for label in bench.scenarios}
    label = min(rates, key=lambda each: rates[each])
    if rates[label] <= 0.0:
        raise ScenarioError(
            f"{label!r} serves no request while requests arrive, so there is no admitted rate to "
            "compare at; leave it out, or give more requests"
        )
    return rates[label]


def _services(found: dict[str, RateSearch]) -> tuple[Service, ...]:
    reference = next(iter(found.values()))
    return tuple(
        _service(label, search, reference if search is not reference else None)
        for label, search in found.items()
    )


def _service(label: str, search: RateSearch, reference: RateSearch | None) -> Service:
    load = search.found
    known = all(rate is not None for rate in load.admitted_rates_per_s)
    comparable = reference is not None and reference.reaches_rate and search.reaches_rate
    return Service(
        label=label,
        scenario=load.scenario,
        offered_rate_per_s=load.offered_rate_per_s,
        admitted_rate_per_s=estimate(load.admitted_rates_per_s) if known else None,
        reaches_rate=search.reaches_rate,
        note=search.note,
        summary=load.summary,
        differences=differences(reference.found.summary.metrics, load.summary.metrics)
        if reference is not None and comparable
        else (),
    )


def _caveats(bench: _Bench, services: tuple[Service, ...], at: At) -> tuple[str, ...]:
    """What a reader must know first; each only where it applies."""
    found = []
    profiles = {each.profile.name: each.profile for each in bench.profiles.values()}
    targets = {profile.identity.target.name for profile in profiles.values()}
    if len(targets) > 1:
        found.append(f"The services run different targets: {', '.join(sorted(targets))}.")
    found += [
        f"The numbers of profile {name} are {profile.source.value}, not measured on your machine."
        for name, profile in profiles.items()
        if profile.source.value != "measured"
    ]
    for service in services:
        found += _service_caveats(service)
    if at == "admitted":
        found.append(
            f"Admitted rates agree within {100 * RATE_TOLERANCE:g} %: a difference of that size in "
            "throughput or output rate says nothing."
        )
    found.append(
        "The intervals hold what differs between seeds, not the profiles' own errors; a plan's do."
    )
    return tuple(found)


def _service_caveats(service: Service) -> list[str]:
    found = []
    mean = {name: each.mean or 0.0 for name, each in service.summary.metrics.items()}
    if saturated := service.summary.metrics["is_saturated"].values.count(1.0):
        found.append(
            f"{service.label} is saturated under {saturated} of {len(service.summary.seeds)} "
            "seeds: its latencies grow with the length of the run."
        )
    unserved = mean["rejected_fraction"] + mean["cancelled_fraction"]
    if unserved > 0.0:
        found.append(
            f"{service.label} rejects {mean['rejected_fraction']:.1%} of the requests and "
            f"{mean['cancelled_fraction']:.1%} give up; its latencies are those of the served."
        )
    if mean["extrapolated_step_fraction"] > 0.0:
        found.append(
            f"{mean['extrapolated_step_fraction']:.1%} of the steps of {service.label} lie outside "
            "the measured cost domain; their time is extrapolated."
        )
    for mismatch in service.summary.origin["mismatches"]:
        found.append(f"The profile does not fit {service.label}: {mismatch}.")
    return found
