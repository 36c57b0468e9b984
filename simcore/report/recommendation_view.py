"""What a recommendation says, as sentences and tables."""

import re

from simcore.planner.document import Plan
from simcore.planner.recommendation import (
    Fallback,
    LoadResult,
    Objective,
    Recommendation,
    Value,
    Way,
)
from simcore.report.table import Table
from simcore.report.units import NOTHING, digits, dollars, percent, rate, ratio, seconds

FITS = {"same": "the same", "differs": "differs", "not_stated": "the scenario leaves it open"}
SECONDS_PER_HOUR = 3600.0
FAR_BEYOND = 1.25  # times off's latency or device time
LONG_HEX = re.compile(r"\b[0-9a-f]{40,}\b")  # a hash, of which its beginning says enough
SHOWN_HASH = 12


def way_words(way: Way) -> str:
    """The way with its thresholds."""
    if not way.rows:
        return way.label
    steps = ", ".join(
        f"{row.num_speculative_tokens or 'none'} from {row.first}" for row in way.rows
    )
    return f"{way.label} (drafts by running requests: {steps})"


def recommendation_sentences(plan: Plan) -> tuple[str, ...]:
    """How to serve, in the order of reading; none where the plan recommends nothing."""
    found = plan.recommendation
    if found is None:
        return ()
    sentences = [f"Serve: {way_words(found.shipped)}."]
    if found.reason not in plan.decision.reason:
        sentences.append(f"Why this one: {found.reason}.")
    if found.equals:
        sentences.append(f"Cannot be told from it: {'; '.join(found.equals)}.")
    sentences.append(f"Hysteresis: {found.hysteresis}.")
    if found.fallback is not None:
        sentences.append(fallback_sentence(found.fallback))
    if found.measure_next:
        sentences.append(f"To narrow this down: {'; '.join(found.measure_next)}.")
    return tuple(sentences)


def fallback_sentence(found: Fallback) -> str:
    """Where drafting ends."""
    if found.batch_size is None and found.off_above_rate_per_s is None:
        return f"No fallback: {found.batch_reason}; {found.rate_reason}."
    batch = f"Falls back to off: by batch, {found.batch_reason}"
    if found.off_above_rate_per_s is None:
        return f"{batch}; by load, {found.rate_reason}."
    off, on = rate(found.off_above_rate_per_s), rate(found.on_below_rate_per_s)
    who = "the table does it by itself" if found.is_automatic else "switch it in front"
    return (
        f"{batch}; by load, off above {off} and on again below {on} ({who}): {found.rate_reason}."
    )


def regret_sentence(found: Recommendation) -> str:
    """Expected regret of the shipped way, load by load."""
    shipped = found.shipped
    parts = ", ".join(f"{each.load} {share_interval(each)}" for each in shipped.loads)
    names = {each.load: each.label for each in found.references}
    best = "; ".join(f"{load}: {label}" for load, label in names.items())
    return (
        f"Expected regret of {shipped.label}: {percent(shipped.expected_regret)} of the mean E2E "
        f"over the three loads ({parts}, 95 % intervals), counted from the fastest of all at each "
        f"load ({best})."
    )


def pareto_sentence(plan: Plan) -> str:
    """The front in words: who is on it, with two coordinates."""
    found = plan.recommendation
    assert found is not None
    front = [way for way in found.ways if way.is_eligible and way.dominated_by is None]
    latency = next(each for each in found.objectives if each.name == "latency")
    parts = "; ".join(
        f"{way.label}: {latency.label} {seconds(way.objectives['latency'].mean)}, "
        f"{digits(way.objectives['device_time'].mean)} device-s per million tokens"
        for way in front
    )
    dominated = sum(1 for way in found.ways if way.dominated_by is not None)
    beyond = len(found.ways) - len(ways_near_off(found))
    left = f"; {beyond} that lie far beyond off are in the table only" if beyond else ""
    return f"On the front: {parts}. Dominated: {dominated} of {len(found.ways)} ways{left}."


def ways_near_off(found: Recommendation) -> list[Way]:
    """Those that a picture can show: in no objective far worse than off."""
    off = next(way for way in found.ways if way.kind == "off")
    return [
        way
        for way in found.ways
        if all(
            way.objectives[name].mean <= FAR_BEYOND * off.objectives[name].mean
            for name in ("latency", "device_time")
        )
        or way.label == found.chosen
    ]


def share_interval(each: LoadResult) -> str:
    """A regret with its interval."""
    low, high = (100 * end for end in each.regret_interval)
    return f"{100 * each.regret:.1f} % ({low:.1f} to {high:.1f})"


def recommendation_tables(plan: Plan) -> tuple[Table, ...]:
    """Ways, regret, thresholds and what was not simulated."""
    found = plan.recommendation
    if found is None:
        return ()
    return (
        _ways_table(plan, found),
        _regret_table(plan, found),
        *(_rows_table(way) for way in found.ways if way.rows),
        _pruned_table(found),
    )


def identity_table(plan: Plan) -> Table | None:
    """What was checked before anything was simulated."""
    found = plan.recommendation
    if found is None:
        return None
    rows = tuple(
        (each.what, _short(each.asked), _short(each.measured), FITS[each.fit])
        for each in found.identity
    )
    header = ("what", "the scenario asks for", "the profile was measured with", "fit")
    source = f"Scenario {plan.scenario.name}, {plan.profile.source} profile {plan.profile.name}."
    return Table("What was checked before anything was simulated", header, rows, source)


def standing(way: Way, found: Recommendation) -> str:
    """A way's place in a few words."""
    if way.label == found.chosen:
        return "shipped"
    if way.dominated_by is not None:
        return f"dominated by {way.dominated_by}"
    if way.label in found.equals:
        return "cannot be told from the shipped one"
    if not way.is_eligible:
        return way.why_not if way.loads else "left out of the last round"
    return "on the front" if way.keeps_slo_as_off else "misses the SLO more often than off"


def _ways_table(plan: Plan, found: Recommendation) -> Table:
    price = plan.profile.identity.hardware.price_usd_per_hour
    money = ("busy cost of a million output tokens",) if price is not None else ()
    header = (
        "candidate",
        *(_objective_header(each) for each in found.objectives),
        *money,
        "standing",
    )
    rows = tuple(
        (
            way.label,
            *(_cell(each, way.objectives[each.name]) for each in found.objectives),
            *(_busy_cost(way, price) for _ in money),
            standing(way, found),
        )
        for way in found.ways
    )
    source = (
        f"Means over {plan.speedup.num_replications} replications at the planned load; busy time "
        "counts devices only while they run a step. Dominated: no better in any column, surely "
        "worse in one (paired 95 % interval)."
    )
    return Table("Ways to serve: latency, goodput, cost", header, rows, source)


def _objective_header(each: Objective) -> str:
    if each.name == "device_time":
        return "busy device time (s per million output tokens)"
    return each.label


def _cell(objective: Objective, value: Value) -> str:
    if objective.unit == "s":
        return seconds(value.mean)
    if objective.unit == "requests/s":
        return rate(value.mean)
    return digits(value.mean)


def _busy_cost(way: Way, price_usd_per_hour: float | None) -> str:
    if price_usd_per_hour is None:
        return NOTHING
    return dollars(way.objectives["device_time"].mean / SECONDS_PER_HOUR * price_usd_per_hour)


def _regret_table(plan: Plan, found: Recommendation) -> Table:
    contenders = [way for way in found.ways if way.loads]
    first = contenders[0].loads if contenders else ()
    header = (
        "candidate",
        *(
            f"{each.load} load" + ("" if each.rate_per_s is None else f", {rate(each.rate_per_s)}")
            for each in first
        ),
        "over all three",
        "speed-up when light",
        "when planned",
        "when heavy",
    )
    rows = tuple(
        (
            way.label,
            *(share_interval(each) for each in way.loads),
            percent(way.expected_regret),
            *(ratio(each.speedup) for each in way.loads),
        )
        for way in contenders
    )
    oracle = any(each.oracle_mean_e2e_s is not None for each in found.references)
    bound = (
        "the oracle, which drafts exactly what will be accepted, among them"
        if oracle
        else "without an oracle: acceptance by position cannot tell what it would draft"
    )
    source = (
        "Regret: mean E2E over that of the fastest of all at this load, less one, paired by "
        f"replication, 95 % interval; {bound}. Seed {plan.scenario.seed}."
    )
    return Table("Regret against hindsight", header, rows, source)


def _rows_table(way: Way) -> Table:
    rows = tuple(
        (
            f"{row.first} to {row.last} requests",
            f"{row.num_speculative_tokens} tokens",
            ratio(row.gain),
        )
        for row in way.rows
    )
    return Table(
        f"Thresholds: {way.label}",
        ("running requests of a replica", "draft length", "faster at the row's end"),
        rows,
        "By the cost law and the recordings: the last column compares with the row before, the "
        "first row with plain decoding. A row begins where its length becomes the faster one.",
    )


def _pruned_table(found: Recommendation) -> Table:
    rows = tuple((each.label, each.reason) for each in found.pruned)
    source = "Closed form (docs/background/estimate.md) and what the profile holds."
    return Table("Not simulated", ("proposer", "reason"), rows, source)


def _short(text: str) -> str:
    """A long hash by its beginning."""
    return LONG_HEX.sub(lambda found: f"{found[0][:SHOWN_HASH]}…", text)
