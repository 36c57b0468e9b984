"""The plan: off and every measured γ at equal offered load, a decision, and where it ends."""

import numpy as np

from simcore.errors import ScenarioError
from simcore.matching import matching_records, usable_gammas
from simcore.metrics.summary import Summary, mean_e2e_s, summarise
from simcore.planner.break_even import (
    NUM_BISECTIONS,
    NUM_GRID_RATES,
    BreakEven,
    LoadPoint,
    find_break_even,
)
from simcore.planner.decision import caveats, decide
from simcore.planner.document import (
    BreakEvenReport,
    Candidate,
    LoadSpeedup,
    NextMeasurement,
    NotMeasured,
    Plan,
    ProfileCard,
    Speedup,
)
from simcore.planner.replication import (
    Interval,
    Progress,
    Replication,
    Runner,
    ratio_interval,
    replications,
    run_counter,
)
from simcore.planner.uncertainty import (
    PLAN_HEADLINES,
    compare_sources,
    metric_intervals,
    number_of,
)
from simcore.profile.store import StoredProfile, load_profile
from simcore.scenario import Scenario
from simcore.serving.simulation import SimulationResult, origin

GAMMAS = tuple(range(1, 9))
DEFAULT_REPLICATIONS = 20
BREAK_EVEN_REPLICATIONS = 8
MAX_BREAK_EVEN_RUNS = 2 * (NUM_GRID_RATES + NUM_BISECTIONS)  # off and on, for progress
SLO_TOLERANCE = 0.002


def make_plan(
    scenario: Scenario,
    *,
    stored: StoredProfile | None = None,
    num_replications: int = DEFAULT_REPLICATIONS,
    progress: Progress | None = None,
) -> Plan:
    """Compare off with every measured γ up to 8 of the scenario's proposer, or of all of them.

    All candidates meet the same requests at the same offered load. Raises ScenarioError where
    nothing in the profile fits the scenario's contract and sampling.
    """
    if num_replications < 2:  # noqa: PLR2004  an interval needs two
        raise ScenarioError(f"{num_replications} replications; an interval needs at least 2")
    stored = stored or load_profile(scenario.profile)
    proposers = _proposers(stored, scenario)
    gammas, not_measured = _gammas(stored, scenario, proposers)
    total = sum(1 + len(found) for found in gammas.values()) * (1 + num_replications)
    total += MAX_BREAK_EVEN_RUNS * BREAK_EVEN_REPLICATIONS
    runner = Runner(scenario, stored, run_counter(progress, total))
    candidates = _compare(runner, gammas, replications(scenario.seed, num_replications))
    best = next(each for each in candidates if each.is_best)
    assert best.proposer is not None
    edge = find_break_even(
        runner,
        best.proposer,
        best.num_speculative_tokens,
        replications(scenario.seed, BREAK_EVEN_REPLICATIONS),
    )
    decision = decide(best, edge)
    following = None
    if decision.verdict == "indistinguishable":
        following = compare_sources(
            runner, best.proposer, best.num_speculative_tokens, 0, num_replications
        ).next_measurement
    if progress is not None:
        progress(total, total)
    return Plan(
        origin=origin(scenario, stored) | {"num_replications": num_replications},
        profile=_card(stored),
        scenario=scenario,
        decision=decision,
        speedup=best.speedup,
        break_even=_edge_report(best, edge),
        candidates=candidates,
        not_measured=not_measured,
        caveats=(*caveats(stored, scenario, candidates, best, edge), *_next_words(following)),
        next_measurement=following,
    )


def _proposers(stored: StoredProfile, scenario: Scenario) -> tuple[str, ...]:
    """The scenario's proposer, or all that were measured under its contract and sampling."""
    if scenario.speculation.proposer is not None:
        return (scenario.speculation.proposer,)
    found = []
    for name in stored.profile.proposers:
        records = [record for record in stored.profile.acceptance if record.proposer == name]
        fits = [
            record
            for record in records
            if (record.contract, record.sampling) == (scenario.contract, scenario.sampling)
        ]
        if fits or (records and scenario.allow_mismatch):
            found.append(name)
    if not found:
        # Let the one place that knows how to say it say it.
        matching_records(stored, scenario, next(iter(stored.profile.proposers)))
    return tuple(found)


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
) -> tuple[Candidate, ...]:
    """Off once, then every proposer and γ; each against off under the same replication."""
    runs: dict[tuple[str, int], _Runs] = {}
    for proposer, chosen in gammas.items():
        for gamma in (0, *chosen):
            runs[proposer, gamma] = _Runs(runner, proposer, gamma, truths)
    ratios = {
        (proposer, gamma): runs[proposer, 0].e2e_s / found.e2e_s
        for (proposer, gamma), found in runs.items()
    }
    speculating = [key for key in runs if key[1] > 0]
    if not speculating:
        raise ScenarioError(
            f"the profile measured none of γ = {list(GAMMAS)} for {list(gammas)}; there is nothing "
            "to compare with off"
        )
    meeting = [key for key in speculating if runs[key].meets_slo_as(runs[key[0], 0])]
    best = max(meeting or speculating, key=lambda key: float(np.mean(np.log(ratios[key]))))
    first_off = (next(iter(gammas)), 0)
    return tuple(
        _candidate(key, runs, ratios, best) for key in runs if key[1] > 0 or key == first_off
    )


class _Runs:
    """One candidate under every replication: the few numbers that are kept of each run."""

    def __init__(
        self, runner: Runner, proposer: str, gamma: int, truths: tuple[Replication, ...]
    ) -> None:
        self.summary = _checked_summary(runner.run_as_measured(proposer, gamma))
        e2e_s, tpot_s, good = [], [], []
        self.numbers: dict[str, list[float]] = {each.metric: [] for each in PLAN_HEADLINES}
        for truth in truths:
            result = runner.run(truth, proposer, gamma)
            summary = _checked_summary(result)
            e2e_s.append(mean_e2e_s(result))
            tpot_s.append(summary.tpot.mean_s or np.nan)
            for metric, values in self.numbers.items():
                values.append(number_of(summary, metric))
            good.append(np.nan if summary.goodput_fraction is None else summary.goodput_fraction)
        self.e2e_s = np.array(e2e_s)
        self.tpot_s = np.array(tpot_s)
        self.goodput_fractions = np.array(good)

    def meets_slo_as(self, off: "_Runs") -> bool:
        """Not clearly less often than off: within two standard errors, or one in 500 requests."""
        change = self.goodput_fractions - off.goodput_fractions
        if np.isnan(change).all():
            return True
        error = float(change.std(ddof=1) / np.sqrt(len(change)))
        return bool(change.mean() >= -max(2.0 * error, SLO_TOLERANCE))


def _checked_summary(result: SimulationResult) -> Summary:
    summary = summarise(result)
    if summary.num_counted == 0:
        raise ScenarioError(
            f"no request finished after the warm-up ({summary.num_requests}); every prompt may be "
            "larger than the KV cache, or num_requests too small for warmup_fraction"
        )
    return summary


def _candidate(
    key: tuple[str, int],
    runs: dict[tuple[str, int], _Runs],
    ratios: dict[tuple[str, int], np.ndarray],
    best: tuple[str, int],
) -> Candidate:
    proposer, gamma = key
    against_best = ratio_interval(ratios[best] / ratios[key])
    tpot = float(np.mean(runs[proposer, 0].tpot_s / runs[key].tpot_s))
    good = float(np.mean(runs[key].goodput_fractions))
    return Candidate(
        proposer=proposer if gamma > 0 else None,
        num_speculative_tokens=gamma,
        speedup=_speedup(ratio_interval(ratios[key]), len(ratios[key])),
        tpot_speedup=None if np.isnan(tpot) else tpot,
        goodput_fraction=None if np.isnan(good) else good,
        meets_slo_as_off=runs[key].meets_slo_as(runs[proposer, 0]),
        served_fraction=runs[key].summary.served_fraction,
        is_best=key == best,
        indistinguishable_from_best=against_best.lower <= 1.0,
        summary=runs[key].summary,
        intervals=metric_intervals(runs[key].numbers),
    )


def _next_words(following: NextMeasurement | None) -> tuple[str, ...]:
    return () if following is None else (f"To tell it from off: {following.reason}.",)


def _speedup(interval: Interval, num_replications: int) -> Speedup:
    return Speedup(
        value=interval.value,
        interval=(interval.lower, interval.upper),
        num_replications=num_replications,
    )


def _edge_report(best: Candidate, edge: BreakEven) -> BreakEvenReport:
    assert best.proposer is not None
    return BreakEvenReport(
        proposer=best.proposer,
        num_speculative_tokens=best.num_speculative_tokens,
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
