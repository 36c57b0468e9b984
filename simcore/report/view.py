"""What the report says, as plain text and tables; how it looks is the templates' business."""

from dataclasses import dataclass

from simcore.metrics.summary import Summary
from simcore.planner.document import Candidate, Plan
from simcore.planner.plan import DEFAULT_REPLICATIONS
from simcore.report.intervals_table import intervals_tables
from simcore.report.load_test import load_test, verdicts
from simcore.report.operation_view import alert_tables, capacity_tables, load_test_table
from simcore.report.outlook_view import map_sentence, outlook_tables, sensitivity_sentence
from simcore.report.profile_view import profile_table, scenario_table
from simcore.report.recommendation_view import (
    identity_table,
    pareto_sentence,
    recommendation_sentences,
    recommendation_tables,
    regret_sentence,
)
from simcore.report.table import Table
from simcore.report.units import (
    NOTHING,
    count,
    dollars,
    interval,
    joules,
    mean_tokens,
    percent,
    rate,
    ratio,
    seconds,
    watts,
)
from simcore.report.workload_words import load_words
from simcore.scenario import EVERY_LIMIT


@dataclass(frozen=True)
class View:
    """Every sentence and table of a report, in the order of reading."""

    verdict: str
    basis: str
    recommendation: tuple[str, ...]  # sentences; none of a plan of fixed draft lengths
    captions: dict[str, str]  # figure -> what it shows, its numbers in words
    sections: dict[str, tuple[Table, ...]]
    verdicts: tuple[str, ...]  # of the load test: what confirms the plan and what refutes it
    reproduce: str


def view_of(plan: Plan) -> View:
    """The report of a plan."""
    return View(
        verdict=verdict_sentence(plan),
        basis=basis_sentence(plan),
        recommendation=recommendation_sentences(plan),
        captions=captions(plan),
        sections={
            "identity": tuple(filter(None, [identity_table(plan)])),
            "recommendation": recommendation_tables(plan),
            "outlook": outlook_tables(plan),
            "capacity": capacity_tables(plan),
            "monitoring": alert_tables(plan),
            "test": (load_test_table(load_test(plan)),),
            "candidates": (
                _speedup_table(plan),
                *intervals_tables(plan, [candidate_name(each) for each in plan.candidates]),
                _latency_table(plan),
                _missing_table(plan),
            ),
            "load": (_curve_table(plan),),
            "accounts": (_token_table(plan), _time_table(plan), *_consumption_tables(plan)),
            "origin": (profile_table(plan), scenario_table(plan)),
        },
        verdicts=verdicts(load_test(plan)),
        reproduce=reproduce_command(plan),
    )


def served_name(plan: Plan) -> str:
    """What the decision ships, in a few words."""
    decision = plan.decision
    if plan.shipped is not None:
        return plan.shipped.label
    if decision.choice == "off":
        return "off"
    return f"{decision.proposer}, γ = {decision.num_speculative_tokens}"


def captions(plan: Plan) -> dict[str, str]:
    """Figure -> its numbers in words, for whoever cannot see it."""
    best = max(plan.candidates, key=lambda each: each.speedup.value)
    worst = min(plan.candidates, key=lambda each: each.speedup.value)
    curve = plan.break_even.curve
    found = {
        "candidates": f"Above 1 the mean request is faster than without speculation. Fastest: "
        f"{candidate_name(best)}, {interval(best.speedup.value, best.speedup.interval)}; slowest: "
        f"{candidate_name(worst)}, {interval(worst.speedup.value, worst.speedup.interval)}.",
        "load": f"From {ratio(curve[0].speedup)} at {rate(curve[0].rate_per_s)} to "
        f"{ratio(curve[-1].speedup)} at {rate(curve[-1].rate_per_s)}. Beyond saturation "
        f"({rate(plan.break_even.saturation_rate_per_s)}) latency grows with the length of the "
        "run, and the speed-up with it.",
    }
    if plan.recommendation is not None:
        found["pareto"] = pareto_sentence(plan)
        found["regret"] = regret_sentence(plan.recommendation)
    if plan.crossover is not None:
        found["crossover"] = map_sentence(plan.crossover)
    if plan.sensitivity is not None:
        found["tornado"] = sensitivity_sentence(plan.sensitivity)
    if plan.capacity is not None:
        sentence = plan.capacity.gain.sentence
        found["capacity"] = f"{sentence[0].upper()}{sentence[1:]}."
    return found


def candidate_name(each: Candidate) -> str:
    """Off, or proposer and draft length."""
    if each.proposer is None:
        return "off"
    return f"{each.proposer}, γ = {each.num_speculative_tokens}"


def best_of(plan: Plan) -> Candidate:
    """The candidate whose speed-up the plan states."""
    edge = plan.break_even
    key = (edge.proposer, edge.num_speculative_tokens)
    return next(
        each for each in plan.candidates if (each.proposer, each.num_speculative_tokens) == key
    )


def verdict_sentence(plan: Plan) -> str:
    """The decision in one sentence, its interval included."""
    speedup, decision = plan.speedup, plan.decision
    low, high = speedup.interval
    found = (
        f"{speedup.value:.3f} times as fast ({100 * speedup.confidence:g} % interval {low:.3f} to "
    )
    found += f"{high:.3f})"
    if decision.choice == "speculate":
        sentence = f"Speculate with {served_name(plan)}: the mean request is {found}."
    else:
        sentence = (
            f"Serve without speculation: the best candidate, {candidate_name(best_of(plan))}, "
            f"would make the mean request {found}."
        )
    return " ".join([sentence, *missed_slo(plan)])


def missed_slo(plan: Plan) -> list[str]:
    """One sentence where no candidate meets the SLO at this load, however much faster it is."""
    shares = plan.scenario.slo.required_shares()
    asked = shares.get(EVERY_LIMIT, next(iter(shares.values())) if len(shares) == 1 else 0.0)
    found = [each.goodput_fraction or 0.0 for each in plan.candidates]
    if not plan.scenario.slo.limits() or max(found) >= asked:
        return []
    return [
        f"Yet no candidate meets the SLO at this load: {100 * max(found):.1f} % of the requests "
        f"are within it at most, {100 * asked:g} % are asked for."
    ]


def basis_sentence(plan: Plan) -> str:
    """Contract, sampling, source, load and seed: what the verdict holds for."""
    scenario, sampling = plan.scenario, plan.scenario.sampling
    return (
        f"Contract {scenario.contract.value}, temperature {sampling.temperature:g}, top-k "
        f"{sampling.top_k or 'off'}, top-p {sampling.top_p:g}"
        f"{', ' if sampling.further else ''}{sampling.further}; {plan.profile.source} profile "
        f"{plan.profile.name}; load {load_words(plan)}; seed {scenario.seed}; "
        f"{plan.speedup.num_replications} replications; specplan "
        f"{plan.origin.get('specplan_version', 'unknown')}."
    )


def reproduce_command(plan: Plan) -> str:
    """The command that makes this plan again from the folder's scenario.yaml."""
    replications = plan.speedup.num_replications
    options = f" --replications {replications}" if replications != DEFAULT_REPLICATIONS else ""
    options += " --quick" if plan.recommendation is None else ""
    options += " --capacity" if plan.capacity is not None else ""
    return f"specplan plan scenario.yaml --output DIR{options}"


def _speedup_table(plan: Plan) -> Table:
    header = (
        *("candidate", "speed-up of mean E2E (95 % interval)", "speed-up of mean TPOT"),
        *("requests within SLO", "against the best"),
    )
    rows = tuple(
        (
            candidate_name(each),
            interval(each.speedup.value, each.speedup.interval),
            ratio(each.tpot_speedup),
            percent(each.goodput_fraction),
            _standing(each, plan),
        )
        for each in plan.candidates
    )
    source = f"Over {plan.speedup.num_replications} replications, seed {plan.scenario.seed}."
    return Table("Every candidate at equal offered load", header, rows, source)


def _standing(each: Candidate, plan: Plan) -> str:
    if each.proposer is None:
        return "reference"
    if each.speedup.value == max(other.speedup.value for other in plan.candidates):
        return "fastest"
    return "indistinguishable" if each.indistinguishable_from_best else "slower"


def _latency_table(plan: Plan) -> Table:
    header = (
        *("candidate", "TTFT p50", "TTFT p95", "TPOT p50", "TPOT p95", "E2E p50", "E2E p95"),
        *("goodput", "mean acceptance length a cycle", "KV peak", "extrapolated steps", "queue"),
    )
    rows = tuple(_latency_row(each) for each in plan.candidates)
    first = plan.candidates[0].summary
    source = (
        f"One run with the profile as measured (seed {first.origin.get('seed', NOTHING)}), "
        f"{first.num_counted:,} requests after the warm-up; acceptance lengths include the bonus "
        "token; goodput is counted over the span of the counted requests."
    )
    return Table("What users feel, and what it takes", header, rows, source)


def _latency_row(each: Candidate) -> tuple[str, ...]:
    summary = each.summary
    return (
        candidate_name(each),
        *(
            seconds(point)
            for latency in (summary.ttft, summary.tpot, summary.e2e)
            for point in (latency.p50_s, latency.p95_s)
        ),
        rate(summary.goodput_per_s),
        mean_tokens(summary.tokens.mean_acceptance_length),
        percent(summary.kv.peak_used_fraction),
        percent(summary.extrapolated_step_fraction),
        "growing" if summary.is_saturated else "steady",
    )


def _missing_table(plan: Plan) -> Table:
    gammas: dict[tuple[str, str], list[str]] = {}
    for each in plan.not_measured:
        gammas.setdefault((each.proposer, each.reason), []).append(str(each.num_speculative_tokens))
    rows = tuple(
        (proposer, ", ".join(found), reason) for (proposer, reason), found in gammas.items()
    )
    header = ("proposer", "γ (draft tokens)", "reason")
    source = f"What {plan.profile.source} profile {plan.profile.name} holds."
    return Table("Draft lengths that are not offered", header, rows, source)


def _curve_table(plan: Plan) -> Table:
    edge = plan.break_even
    rows = tuple(
        (
            rate(point.rate_per_s),
            interval(point.speedup, point.interval),
            "grows for ever" if point.is_beyond_saturation else "steady",
        )
        for point in edge.curve
    )
    caption = f"Speed-up against load: {edge_name(plan)}"
    source = (
        f"Simulated with common random numbers; without speculation the service sustains "
        f"{rate(edge.saturation_rate_per_s)}."
    )
    header = ("offered load", "speed-up of mean E2E (95 % interval)", "queue without speculation")
    return Table(caption, header, rows, source)


def edge_name(plan: Plan) -> str:
    """What the break-even is of."""
    edge = plan.break_even
    return edge.way or f"{edge.proposer}, γ = {edge.num_speculative_tokens}"


def _accounted(plan: Plan) -> tuple[tuple[str, Summary], ...]:
    """Off, and what is shipped or would have been the best."""
    off, way = plan.candidates[0], plan.shipped_policy
    if way is not None and way.summary is not None:
        return ((candidate_name(off), off.summary), (way.label, way.summary))
    best = best_of(plan)
    return ((candidate_name(off), off.summary), (candidate_name(best), best.summary))


def _token_table(plan: Plan) -> Table:
    columns = _accounted(plan)
    accounts = [summary.tokens for _, summary in columns]
    names = (
        *("planned", "proposed", "verified", "accepted", "corrected", "bonus", "first"),
        *("emitted", "cut", "stitched"),
    )
    rows = [
        (name, *(count(getattr(each, f"{name}_tokens"), "tokens") for each in accounts))
        for name in names
    ]
    rows.append(("cycles", *(count(each.num_cycles, "cycles") for each in accounts)))
    return Table(
        "Where the tokens went",
        ("tokens", *(name for name, _ in columns)),
        tuple(rows),
        "The same run, whole: emitted = first + accepted + corrected + bonus.",
    )


def _time_table(plan: Plan) -> Table:
    columns = _accounted(plan)
    names = ("propose", "target", "reconcile", "overhead", "idle")
    rows = tuple(
        (name, *(percent(getattr(summary.time, name)) for _, summary in columns)) for name in names
    )
    header = ("share of replica time", *(name for name, _ in columns))
    return Table("Where the time went", header, rows, "The same run, whole.")


def _consumption_tables(plan: Plan) -> tuple[Table, ...]:
    """Energy and cost of every candidate; no table where the profile states neither."""
    found = [(candidate_name(each), each.summary.consumption) for each in plan.candidates]
    if all(each.energy_j is None and each.cost_usd is None for _, each in found):
        return ()
    header = (
        *("candidate", "energy an output token", "average power", "energy"),
        *("cost of a million output tokens", "cost"),
    )
    rows = tuple(
        (
            name,
            joules(each.energy_j_per_output_token),
            watts(each.average_power_w),
            joules(each.energy_j),
            dollars(each.cost_usd_per_million_output_tokens),
            dollars(each.cost_usd),
        )
        for name, each in found
    )
    source = (
        "One run with the profile as measured, whole, idle time included; power and price are "
        "the profile's."
    )
    return (Table("Energy and cost", header, rows, source),)
