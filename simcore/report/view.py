"""What the report says, as plain text and tables; how it looks is the templates' business."""

from dataclasses import dataclass

from simcore.planner.document import Candidate, Plan
from simcore.planner.plan import DEFAULT_REPLICATIONS
from simcore.report.intervals_table import intervals_tables
from simcore.report.profile_view import profile_table, scenario_table
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


@dataclass(frozen=True)
class View:
    """Every sentence and table of a report, in the order of reading."""

    verdict: str
    basis: str
    sections: dict[str, tuple[Table, ...]]
    reproduce: str


def view_of(plan: Plan) -> View:
    """The report of a plan."""
    return View(
        verdict=verdict_sentence(plan),
        basis=basis_sentence(plan),
        sections={
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
        reproduce=reproduce_command(plan),
    )


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
        return (
            f"Speculate with {decision.proposer}, γ = {decision.num_speculative_tokens}: the mean "
            f"request is {found}."
        )
    return (
        f"Serve without speculation: the best candidate, {candidate_name(best_of(plan))}, would "
        f"make the mean request {found}."
    )


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
    option = f" --replications {replications}" if replications != DEFAULT_REPLICATIONS else ""
    return f"specplan plan scenario.yaml --output DIR{option}"


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
    rows = tuple((rate(point.rate_per_s), ratio(point.speedup)) for point in edge.curve)
    caption = f"Speed-up against load: {edge.proposer}, γ = {edge.num_speculative_tokens}"
    source = (
        f"Simulated with common random numbers; without speculation the service sustains "
        f"{rate(edge.saturation_rate_per_s)}."
    )
    return Table(caption, ("offered load", "speed-up of mean E2E"), rows, source)


def _token_table(plan: Plan) -> Table:
    columns = (plan.candidates[0], best_of(plan))
    accounts = [each.summary.tokens for each in columns]
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
        ("tokens", *(candidate_name(each) for each in columns)),
        tuple(rows),
        "The same run, whole: emitted = first + accepted + corrected + bonus.",
    )


def _time_table(plan: Plan) -> Table:
    columns = (plan.candidates[0], best_of(plan))
    names = ("propose", "target", "reconcile", "overhead", "idle")
    rows = tuple(
        (name, *(percent(getattr(each.summary.time, name)) for each in columns)) for name in names
    )
    header = ("share of replica time", *(candidate_name(each) for each in columns))
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
