"""How sure a headline is, which source of doubt weighs most, and what to measure next.

Three sources, each by itself and all together: `requests`, a bootstrap over the recorded requests
behind the acceptance; `cost`, the held-out error of the cost law; `seeds`, the arrivals, lengths
and luck of one run. Off and on share every draw (common random numbers).

Standard errors of means fall with 1/√n. With v_s the variance of a log ratio d from source s, of
which n_s requests, timings or simulated requests are at hand, intervals part with power β where

    d² >= (q + z_β)² · (v_s · n_s / n + Σ_{others} v)

so n follows for the source that weighs most, the others held; or none does.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simcore.acceptance.trace import TraceSet
from simcore.cost.price import law_tables
from simcore.errors import ScenarioError
from simcore.matching import matching_records
from simcore.metrics.estimate import t_quantile
from simcore.metrics.headlines import HEADLINES, Headline, Unit
from simcore.metrics.summary import Summary, mean_e2e_s, summarise
from simcore.planner.case import Case, case_of, chosen_gamma
from simcore.planner.document import MetricInterval, NextMeasurement
from simcore.planner.replication import (
    SOURCES,
    Interval,
    Progress,
    Replication,
    Runner,
    Source,
    cost_spread,
    replications,
    run_counter,
    value_interval,
)
from simcore.profile.schema import Frozen
from simcore.profile.store import StoredProfile, load_profile
from simcore.scenario import Scenario
from simcore.serving.simulation import origin
from simcore.workload.recorded import num_requests
from simcore.workload.sampling import IntArray

FloatArray = NDArray[np.float64]

PRACTICAL = 0.01  # of mean latency: below, nobody would notice
POWER, POWER_Z = 0.8, 0.8416  # the normal quantile of the power
DEFAULT_REPLICATIONS = 20
METRICS = (
    "ttft.mean_s",
    "tpot.mean_s",
    "e2e.mean_s",
    "goodput_fraction",
    "goodput_per_s",
    "tokens.mean_acceptance_length",
)
PLAN_HEADLINES: tuple[Headline, ...] = tuple(each for each in HEADLINES if each.metric in METRICS)
UNITS: dict[Source, str] = {
    "requests": "recorded requests",
    "cost": "timings of the steps in question",
    "seeds": "simulated requests",
}


class SourceShare(Frozen):
    """What one source alone does to a headline."""

    source: Source
    deviation: float | None = Field(
        description="standard deviation over its draws, relative for ratios, times and rates, in "
        "the headline's unit for shares; null: the profile states no such uncertainty"
    )
    share: float | None = Field(description="share of the sum of the sources' variances")
    reason: str = Field("", description="why there is none")


class UncertainHeadline(Frozen):
    """One number of the decision with its interval and where that comes from."""

    name: str
    unit: Unit
    value: float = Field(description="in `unit`")
    interval: tuple[float, float] | None = Field(
        description="in `unit`; 95 %, for one more draw of all that is uncertain; null where it "
        "depends only on what the profile states no uncertainty of"
    )
    deviation: float = Field(description="with all sources together; as of the sources")
    sources: tuple[SourceShare, ...]


class Uncertainty(Frozen):
    """A candidate against another, usually off: what is known, and what to measure next."""

    origin: dict[str, Any]
    proposer: str
    num_speculative_tokens: int
    against: int = Field(description="draft length of the other; 0: off")
    headlines: tuple[UncertainHeadline, ...]
    is_distinguishable: bool = Field(description="the interval of the speed-up does not hold 1")
    next_measurement: NextMeasurement
    notes: tuple[str, ...]


def explain_uncertainty(
    scenario: Scenario,
    *,
    stored: StoredProfile | None = None,
    proposer: str | None = None,
    gamma: int | None = None,
    against: int = 0,
    num_replications: int = DEFAULT_REPLICATIONS,
    progress: Progress | None = None,
) -> Uncertainty:
    """One draft length (the scenario's own, or the fastest) against another, source by source.

    Raises ScenarioError where the profile does not fit, or for fewer than 3 replications.
    """
    if num_replications < 3:  # noqa: PLR2004 - a variance of two values says next to nothing
        raise ScenarioError(f"{num_replications} replications; expected at least 3")
    stored = stored or load_profile(scenario.profile)
    case = case_of(stored, scenario, proposer)
    chosen = chosen_gamma(case) if gamma is None else gamma
    if chosen == against:
        raise ScenarioError(f"draft length {chosen} against itself; choose two")
    total = 2 * num_replications * (1 + len(SOURCES))
    runner = Runner(case.scenario, stored, run_counter(progress, total))
    found = compare_sources(runner, case.proposer, chosen, against, num_replications, case)
    if progress is not None:
        progress(total, total)
    return found


def compare_sources(
    runner: Runner,
    proposer: str,
    gamma: int,
    against: int,
    num_replications: int,
    case: Case | None = None,
) -> Uncertainty:
    """The runs behind `explain_uncertainty`; without `case`, capacity is left out."""
    stored, scenario = runner.stored, runner.scenario
    silent = _silent(runner, proposer)
    sets: tuple[tuple[Source, ...], ...] = (SOURCES, *((each,) for each in SOURCES))
    draws = {}
    for sources in sets:
        if len(sources) > 1 or sources[0] not in silent:
            truths = replications(scenario.seed, num_replications, sources)
            draws[sources] = _draws(runner, proposer, (gamma, against), truths, case)
    headlines = tuple(_headline(name, unit, draws, silent) for name, unit in _names(draws[SOURCES]))
    speedup = headlines[0]
    low, high = speedup.interval or (0.0, np.inf)
    variances: dict[Source, float] = {
        each.source: each.deviation**2 for each in speedup.sources if each.deviation is not None
    }
    return Uncertainty(
        origin=origin(scenario, stored) | {"num_replications": num_replications},
        proposer=proposer,
        num_speculative_tokens=gamma,
        against=against,
        headlines=headlines,
        is_distinguishable=not low <= 1.0 <= high,
        next_measurement=next_measurement(
            float(np.log(speedup.value)),
            variances,
            _at_hand(runner, proposer),
            num_replications=num_replications,
        ),
        notes=_notes(silent),
    )


# --- what to measure next ----------------------------------------------------------------------


def next_measurement(
    difference: float,
    variances: Mapping[Source, float],
    at_hand: Mapping[Source, int],
    *,
    num_replications: int,
    practical: float = PRACTICAL,
) -> NextMeasurement:
    """What parts two candidates whose log ratio is `difference`, with variances by source.

    `at_hand`: requests, timings or simulated requests behind each variance.
    """
    reach = float(t_quantile(num_replications)) * np.sqrt(1.0 + 1.0 / num_replications)
    weighing = {each: value for each, value in variances.items() if value > 0.0}
    ranked = sorted(weighing, key=lambda each: weighing[each])
    source = ranked[-1] if ranked else None
    have = at_hand.get(source) if source is not None else None
    unit = UNITS[source] if source is not None else ""

    def answer(need: int | None, reason: str, *, is_relevant: bool = True) -> NextMeasurement:
        return NextMeasurement(
            is_relevant=is_relevant,
            difference=difference,
            dominant_source=source,
            have=have,
            need=need,
            unit=unit,
            power=POWER,
            reason=reason,
        )

    found = f"the difference found is {np.expm1(abs(difference)):.2%}"
    total = sum(weighing.values())
    if abs(difference) > reach * np.sqrt(total):
        return answer(None, f"{found}; the intervals are apart: nothing needs to be measured")
    if abs(difference) < np.log1p(practical):
        return answer(
            None,
            f"{found}, below the {practical:.0%} that matters in practice: take the simpler "
            "service; telling them apart is not worth a measurement",
            is_relevant=False,
        )
    assert source is not None  # without variance any difference lies apart
    allowed = (abs(difference) / (reach + POWER_Z)) ** 2
    rest = total - weighing[source]
    share = f"{weighing[source] / total:.0%} of the variance comes from {WORDS[source]}"
    if have is None:
        return answer(None, f"{found}; {share}, whose number the profile does not state")
    if rest < allowed:
        need = int(np.ceil(have * weighing[source] / (allowed - rest)))
        return answer(need, f"{found}; {share}: {need:,} {unit} in place of {have:,} part them")
    factor = total / allowed
    each = ", ".join(
        f"{int(np.ceil(at_hand[name] * factor)):,} {UNITS[name]} in place of {at_hand[name]:,}"
        for name in weighing
        if name in at_hand
    )
    return answer(
        None,
        f"{found}; {share}, but no number of them alone parts the two: it takes {factor:.2g} "
        f"times as much of every source ({each})",
    )


WORDS: dict[Source, str] = {
    "requests": "the recorded requests",
    "cost": "the cost fit",
    "seeds": "the length of a simulated run",
}


def _at_hand(runner: Runner, proposer: str) -> dict[Source, int]:
    traces = runner.traces(proposer)
    records = matching_records(runner.stored, runner.scenario, proposer)
    recorded = sum(each.num_requests for each in records)
    counts: dict[Source, int] = {
        "requests": traces.num_requests if traces is not None else recorded,
        "cost": 1,  # the law stands for one timing of these steps, as good as its residual
        "seeds": num_requests(runner.scenario.workload),
    }
    return {name: count for name, count in counts.items() if count > 0}


# --- draws -------------------------------------------------------------------------------------

Draws = dict[tuple[str, Unit], FloatArray]


def _draws(
    runner: Runner,
    proposer: str,
    gammas: tuple[int, int],
    truths: tuple[Replication, ...],
    case: Case | None,
) -> Draws:
    """(name, unit) -> [num_replications]."""
    values: dict[tuple[str, Unit], list[float]] = {}
    for truth in truths:
        on, off = (runner.run(truth, proposer, gamma) for gamma in gammas)
        of_on, of_off = summarise(on), summarise(off)
        numbers: dict[tuple[str, Unit], float] = {
            ("speed-up (mean E2E)", ""): mean_e2e_s(off) / mean_e2e_s(on),
            ("speed-up (mean TPOT)", ""): _ratio(of_off.tpot.mean_s, of_on.tpot.mean_s),
        }
        for each in PLAN_HEADLINES:
            numbers[each.name, each.unit] = number_of(of_on, each.metric)
        if case is not None:
            numbers["saturation", "requests/s"] = _capacity(case.at_gamma(gammas[0]), truth)
        for key, value in numbers.items():
            values.setdefault(key, []).append(value)
    return {key: np.array(found) for key, found in values.items()}


def _ratio(above: float | None, below: float | None) -> float:
    return np.nan if above is None or not below else above / below


def _capacity(case: Case, truth: Replication) -> float:
    """Stability bound in closed form under one draw; a long run knows no seeds."""
    gamma = case.scenario.speculation.num_speculative_tokens
    basis = case.basis
    variation = truth.variation(case.stored, basis.traces, gamma)
    if variation.pools is not None:
        assert basis.traces is not None
        basis = _resampled(case, basis.traces, variation.pools, truth)
    if gamma > 0:
        tables = law_tables(
            case.stored.profile.cost,
            case.proposer,
            speculative_factor=variation.speculative_cost_factor,
        )
        basis = replace(basis, _tables={(case.proposer,): tables})
    return replace(case, basis=basis).estimate().max_rate_per_s


def _resampled(case: Case, traces: TraceSet, pools: list[IntArray], truth: Replication) -> Any:
    """The basis with its requests drawn from the resampled recordings."""
    basis, requests = case.basis, case.basis.requests
    luck = np.random.default_rng([truth.seed, truth.index, 1]).random(len(requests.trace))
    trace = requests.trace.copy()
    for domain, pool in enumerate(pools):
        own = requests.domain == domain
        trace[own] = pool[(luck[own] * len(pool)).astype(np.int64)]
    prompt, output = requests.prompt_tokens, requests.output_tokens
    if case.scenario.workload.lengths.kind == "recorded":
        prompt, output = traces.prompt_tokens[trace], traces.output_tokens[trace]
    drawn = replace(requests, trace=trace, prompt_tokens=prompt, output_tokens=output)
    return replace(basis, requests=drawn, _laws={})


def _silent(runner: Runner, proposer: str) -> dict[Source, str]:
    """Sources of which the profile states no uncertainty, with the reason."""
    silent: dict[Source, str] = {}
    name = runner.stored.profile.name
    if runner.traces(proposer) is None:
        silent["requests"] = (
            f"profile {name!r} holds survival figures for {proposer!r} without the requests behind "
            "them, so their sampling error is unknown"
        )
    if cost_spread(runner.stored) == 0.0:
        silent["cost"] = f"profile {name!r} states no held-out error of its cost law"
    return silent


# --- headlines ---------------------------------------------------------------------------------


def number_of(summary: Summary, metric: str) -> float:
    """A number of a summary by its dotted name; NaN where it was not observed."""
    found = reduce(getattr, metric.split("."), summary)
    return np.nan if found is None else float(found)  # type: ignore[arg-type]  # a number by name


def metric_intervals(numbers: Mapping[str, list[float]]) -> tuple[MetricInterval, ...]:
    """Mean and interval of every headline that was observed, from values by replication."""
    found = []
    for each in PLAN_HEADLINES:
        interval = _interval(np.array(numbers[each.metric]), each.unit)
        if interval is not None:
            found.append(
                MetricInterval(
                    metric=each.metric,
                    name=each.name,
                    unit=each.unit,
                    value=interval.value,
                    interval=(interval.lower, interval.upper),
                )
            )
    return tuple(found)


def _interval(values: FloatArray, unit: Unit) -> Interval | None:
    within = (0.0, 1.0) if unit == "share" else (0.0, np.inf)
    return value_interval(values, within=within)


def _names(draws: Draws) -> list[tuple[str, Unit]]:
    """What was observed in every replication; the speed-up of E2E first."""
    return [key for key, values in draws.items() if np.isfinite(values).all()]


def _headline(
    name: str,
    unit: Unit,
    draws: Mapping[tuple[Source, ...], Draws],
    silent: Mapping[Source, str],
) -> UncertainHeadline:
    together = draws[SOURCES][name, unit]
    interval = _interval(together, unit)
    assert interval is not None  # at least three finite values
    value = interval.value
    if unit == "":
        value = float(np.exp(np.log(together).mean()))  # of ratios, as in a plan
    alone = {source: draws[(source,)][name, unit] for source in SOURCES if source not in silent}
    spreads = {source: _deviation(values, unit) for source, values in alone.items()}
    total = sum(each**2 for each in spreads.values())
    unknown = bool(silent) and together.min() == together.max() and unit != "share"
    return UncertainHeadline(
        name=name,
        unit=unit,
        value=value,
        interval=None if unknown else (interval.lower, interval.upper),
        deviation=_deviation(together, unit),
        sources=tuple(
            SourceShare(
                source=source,
                deviation=spreads.get(source),
                share=spreads[source] ** 2 / total if source in spreads and total > 0.0 else None,
                reason=silent.get(source, ""),
            )
            for source in SOURCES
        ),
    )


def _deviation(values: FloatArray, unit: Unit) -> float:
    """Standard deviation, of the logarithm where a headline is not a share."""
    of: Callable[[FloatArray], FloatArray] = np.asarray if unit == "share" else np.log
    seen = values[np.isfinite(values) & ((values > 0.0) | (unit == "share"))]
    if len(seen) <= 1 or seen.min() == seen.max():
        return 0.0  # and no rounding error of it
    return float(of(seen).std(ddof=1))


def _notes(silent: Mapping[Source, str]) -> tuple[str, ...]:
    found = [f"Not counted: {reason}." for reason in silent.values()]
    if silent:
        found.append("The intervals are too narrow by what is not counted.")
    return tuple(found)
