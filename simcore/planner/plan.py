"""The plan: off and every measured γ at equal offered load, a decision, and where it ends."""

import numpy as np

from simcore.errors import InfeasibleError, ScenarioError
from simcore.matching import fitting_proposers, usable_gammas
from simcore.planner.break_even import (
    NUM_BISECTIONS,
    NUM_GRID_RATES,
    BreakEven,
    LoadPoint,
    find_break_even,
)
from simcore.planner.capacity import DEFAULT_SEEDS, find_capacity
from simcore.planner.capacity import USUAL_RUNS as CAPACITY_RUNS
from simcore.planner.capacity_document import Capacity
from simcore.planner.crossover import crossover_map
from simcore.planner.crossover_document import CrossoverMap
from simcore.planner.decision import caveats, decide, decide_as_recommended
from simcore.planner.document import (
    BreakEvenReport,
    Candidate,
    Decision,
    LoadSpeedup,
    NextMeasurement,
    NotMeasured,
    Plan,
    ProfileCard,
    Speedup,
)
from simcore.planner.load_bench import check_searchable
from simcore.planner.recommend import Compared, recommend, usual_runs
from simcore.planner.recommendation import Recommendation, Way
from simcore.planner.replication import (
    Interval,
    Progress,
    Replication,
    Runner,
    at_fixed_length,
    ratio_interval,
    replications,
    run_counter,
)
from simcore.planner.sensitivity import sensitivity
from simcore.planner.sensitivity_document import Sensitivity
from simcore.planner.uncertainty import compare_sources, metric_intervals
from simcore.planner.way_runs import checked_summary, latency_of, way_runs
from simcore.profile.store import StoredProfile, load_profile
from simcore.scenario import Scenario
from simcore.serving.simulation import origin

GAMMAS = tuple(range(1, 9))
DEFAULT_REPLICATIONS = 20
BREAK_EVEN_REPLICATIONS = 8
MAX_BREAK_EVEN_RUNS = 2 * (NUM_GRID_RATES + NUM_BISECTIONS)  # off and on, for progress


def make_plan(
    scenario: Scenario,
    *,
    stored: StoredProfile | None = None,
    num_replications: int = DEFAULT_REPLICATIONS,
    with_policies: bool = True,
    with_capacity: bool = False,
    progress: Progress | None = None,
) -> Plan:
    """Compare off with every measured γ up to 8 of the scenario's proposer, or of all of them.

    All candidates meet the same requests at the same offered load; so do, `with_policies`, the
    policies and trees that a recommendation makes for the best proposer. `with_capacity` adds the
    largest load within the SLO, off and as decided. Raises ScenarioError where nothing in the
    profile fits the scenario's contract and sampling.
    """
    if num_replications < 2:  # noqa: PLR2004  an interval needs two
        raise ScenarioError(f"{num_replications} replications; an interval needs at least 2")
    if with_capacity:
        check_searchable(scenario, DEFAULT_SEEDS)  # before the long part
    stored = stored or load_profile(scenario.profile)
    own = scenario.speculation.proposer
    proposers = fitting_proposers(stored, scenario) if own is None else (own,)
    gammas, not_measured = _gammas(stored, scenario, proposers)
    total = sum(1 + len(found) for found in gammas.values()) * (1 + num_replications)
    total += MAX_BREAK_EVEN_RUNS * BREAK_EVEN_REPLICATIONS
    total += usual_runs(num_replications) if with_policies else 0
    total += CAPACITY_RUNS if with_capacity else 0
    runner = Runner(scenario, stored, run_counter(progress, total))
    truths = replications(scenario.seed, num_replications)
    candidates, runs = _compare(runner, gammas, truths)
    best = next(each for each in candidates if each.is_best)
    assert best.proposer is not None
    key = (best.proposer, best.num_speculative_tokens)
    edge_truths = replications(scenario.seed, BREAK_EVEN_REPLICATIONS)
    known_off: dict[tuple[str, float, int], float] = {}
    drafting = at_fixed_length(scenario, scenario.seed, *key).speculation
    edge = find_break_even(runner, best.proposer, drafting, edge_truths, known_off)
    decision, speedup, found, way = decide(best, edge), best.speedup, None, None
    if with_policies:
        numbers = {name: each.numbers for name, each in runs.items()}
        compared = Compared(numbers, key, edge, truths, edge_truths, known_off)
        found, edge = recommend(runner, compared)
        decision = decide_as_recommended(decision, found)
        way = None if decision.choice == "off" else found.shipped
        speedup = _shipped_speedup(way, num_replications) or speedup
    following = None
    if decision.verdict == "indistinguishable":
        following = compare_sources(runner, *key, 0, num_replications).next_measurement
    capacity = _capacity(runner, decision, found, key) if with_capacity else None
    shown = key
    if decision.proposer is not None:
        shown = (decision.proposer, decision.num_speculative_tokens)
    if progress is not None:
        progress(total, total)
    return Plan(
        origin=origin(scenario, stored) | {"num_replications": num_replications},
        profile=_card(stored),
        scenario=scenario,
        decision=decision,
        speedup=speedup,
        break_even=_edge_report(best, edge, way),
        candidates=candidates,
        not_measured=not_measured,
        caveats=(
            *caveats(stored, scenario, candidates, best, edge, is_recommended=with_policies),
            *_next_words(following),
        ),
        next_measurement=following,
        recommendation=found,
        crossover=_crossover(runner, shown) if with_policies else None,
        sensitivity=_sensitivity(runner, shown) if with_policies else None,
        capacity=capacity,
    )


def _gammas(
    stored: StoredProfile, scenario: Scenario, proposers: tuple[str, ...]
) -> tuple[dict[str, tuple[int, ...]], tuple[NotMeasured, ...]]:
    wanted = sorted({*GAMMAS, scenario.speculation.num_speculative_tokens} - {0})
    measured, missing = {}, []
    for proposer in proposers:
        known = usable_gammas(stored, scenario, proposer)
        measured[proposer] = tuple(gamma for gamma in wanted if gamma in known)
        missing += [
            NotMeasured(
                proposer=proposer,
                num_speculative_tokens=gamma,
                reason=f"profile {stored.profile.name!r} holds γ = {list(known)} only for "
                f"{', '.join(scenario.workload.domains) or 'every domain'}",
            )
            for gamma in wanted
            if gamma not in known
        ]
        asked = scenario.speculation.num_speculative_tokens
        if asked > 0 and asked not in known:
            raise ScenarioError(
                f"num_speculative_tokens {asked}: profile {stored.profile.name!r} measured "
                f"{proposer!r} at {list(known)} only; acceptance beyond that is not extrapolated"
            )
    return measured, tuple(missing)


def _compare(
    runner: Runner, gammas: dict[str, tuple[int, ...]], truths: tuple[Replication, ...]
) -> tuple[tuple[Candidate, ...], dict[tuple[str, int], "_Runs"]]:
    """Off once, then every proposer and γ; each against off under the same replication."""
    runs: dict[tuple[str, int], _Runs] = {}
    for proposer, chosen in gammas.items():
        for gamma in (0, *chosen):
            runs[proposer, gamma] = _Runs(runner, proposer, gamma, truths)
    ratios = {
        (proposer, gamma): runs[proposer, 0].numbers.e2e_s / found.numbers.e2e_s
        for (proposer, gamma), found in runs.items()
    }
    speculating = [key for key in runs if key[1] > 0]
    if not speculating:
        raise ScenarioError(
            f"the profile measured none of γ = {list(GAMMAS)} for {list(gammas)}; there is nothing "
            "to compare with off"
        )
    meeting = [
        key for key in speculating if runs[key].numbers.keeps_slo_as(runs[key[0], 0].numbers)
    ]
    best = max(meeting or speculating, key=lambda key: float(np.mean(np.log(ratios[key]))))
    first_off = (next(iter(gammas)), 0)
    candidates = tuple(
        _candidate(key, runs, ratios, best) for key in runs if key[1] > 0 or key == first_off
    )
    return candidates, runs


def _crossover(runner: Runner, best: tuple[str, int]) -> CrossoverMap | None:
    """Load against draft length; None where the closed form has no answer."""
    try:
        return crossover_map(runner.stored, runner.scenario, "load_gamma", proposer=best[0])
    except (ScenarioError, InfeasibleError):
        return None


def _sensitivity(runner: Runner, best: tuple[str, int]) -> Sensitivity | None:
    """Of the best candidate; None where the closed form has no answer."""
    try:
        return sensitivity(
            runner.scenario, stored=runner.stored, proposer=best[0], gamma=best[1], num_seeds=0
        )
    except (ScenarioError, InfeasibleError):
        return None


def _capacity(
    runner: Runner,
    decision: Decision,
    found: Recommendation | None,
    best: tuple[str, int],
) -> Capacity:
    """Off and what is decided for, or the best candidate where that is off."""
    scenario = runner.scenario
    speculation = at_fixed_length(scenario, scenario.seed, *best).speculation
    if found is not None and decision.choice == "speculate":
        speculation = found.shipped.speculation
    asked = scenario.with_(speculation=speculation.model_dump(mode="json"))

    def count(done: int, total: int) -> None:
        del done, total
        runner.count_run()

    return find_capacity(asked, stored=runner.stored, progress=count)


def _shipped_speedup(shipped: Way | None, num_replications: int) -> Speedup | None:
    """Of the way that ships; None where that is off."""
    if shipped is None:
        return None
    planned = shipped.at("planned")
    return Speedup(
        value=planned.speedup,
        interval=planned.speedup_interval,
        num_replications=num_replications,
    )


class _Runs:
    """One candidate under every replication, and once with the profile taken at its word."""

    def __init__(
        self, runner: Runner, proposer: str, gamma: int, truths: tuple[Replication, ...]
    ) -> None:
        self.summary = checked_summary(runner.run_as_measured(proposer, gamma))
        results = (runner.run(truth, proposer, gamma) for truth in truths)
        self.numbers = way_runs(results, latency_of(runner.scenario.slo))


def _candidate(
    key: tuple[str, int],
    runs: dict[tuple[str, int], _Runs],
    ratios: dict[tuple[str, int], np.ndarray],
    best: tuple[str, int],
) -> Candidate:
    proposer, gamma = key
    against_best = ratio_interval(ratios[best] / ratios[key])
    off, own = runs[proposer, 0].numbers, runs[key].numbers
    tpot = float(np.mean(off.tpot_s / own.tpot_s))
    good = float(np.mean(own.goodput_fraction))
    return Candidate(
        proposer=proposer if gamma > 0 else None,
        num_speculative_tokens=gamma,
        speedup=_speedup(ratio_interval(ratios[key]), len(ratios[key])),
        tpot_speedup=None if np.isnan(tpot) else tpot,
        goodput_fraction=None if np.isnan(good) else good,
        meets_slo_as_off=own.keeps_slo_as(off),
        served_fraction=runs[key].summary.served_fraction,
        is_best=key == best,
        indistinguishable_from_best=against_best.lower <= 1.0,
        summary=runs[key].summary,
        intervals=metric_intervals(own.headlines),
    )


def _next_words(following: NextMeasurement | None) -> tuple[str, ...]:
    return () if following is None else (f"To tell it from off: {following.reason}.",)


def _speedup(interval: Interval, num_replications: int) -> Speedup:
    return Speedup(
        value=interval.value,
        interval=(interval.lower, interval.upper),
        num_replications=num_replications,
    )


def _edge_report(best: Candidate, edge: BreakEven, shipped: Way | None) -> BreakEvenReport:
    """Of the shipped way, or of the best candidate where off is shipped."""
    proposer, gamma = best.proposer, best.num_speculative_tokens
    if shipped is not None:
        proposer = shipped.speculation.proposer
        gamma = shipped.speculation.num_speculative_tokens
    assert proposer is not None
    return BreakEvenReport(
        proposer=proposer,
        num_speculative_tokens=gamma,
        way=None if shipped is None or shipped.kind == "fixed" else shipped.label,
        rate_per_s=edge.rate_per_s,
        interval=edge.interval,
        reason=edge.reason,
        saturation_rate_per_s=edge.saturation_rate_per_s,
        curve=tuple(_load_speedup(point, edge.saturation_rate_per_s) for point in edge.points),
    )


def _load_speedup(point: LoadPoint, saturation_rate_per_s: float) -> LoadSpeedup:
    found = ratio_interval(np.exp(point.log_ratios))
    return LoadSpeedup(
        rate_per_s=point.rate_per_s,
        speedup=found.value,
        interval=(found.lower, found.upper),
        is_beyond_saturation=point.rate_per_s > saturation_rate_per_s,
    )


def _card(stored: StoredProfile) -> ProfileCard:
    profile = stored.profile
    return ProfileCard(
        name=profile.name,
        title=profile.title,
        source=profile.source.value,
        sha256=stored.content_hash,
        identity=profile.identity,
        proposers=profile.proposers,
        provenance=profile.provenance,
    )
