"""Capacities and fleets as tables for a terminal."""

from collections.abc import Callable
from io import StringIO

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from simcore.metrics.estimate import Estimate
from simcore.planner.capacity_document import (
    Capacity,
    Economics,
    Fleet,
    ReplicaPlan,
    ServiceCapacity,
)
from simcore.report.slo_words import LIMIT_NAMES, objective_words
from simcore.report.units import (
    NOTHING,
    digits,
    dollars,
    giga,
    joules,
    percent,
    rate,
    seconds,
    watts,
)
from simcore.scenario import EVERY_LIMIT

WIDTH = 110
NOT_STATED = "not stated"
BOUND_NAMES = LIMIT_NAMES | {EVERY_LIMIT: "share within all limits", "keeps_up": "saturation"}
Row = tuple[str, Callable[[ServiceCapacity], str]]


def capacity_text(found: Capacity) -> str:
    """Off and on side by side, what speculation gains and what it takes."""
    lines = [
        f"Largest load within the SLO: {objective_words(found.slo)}",
        capacity_basis(found),
        _table("", [found.off.label, found.on.label], capacity_rows(found)),
        *capacity_sentences(found),
        "",
        *(f"Note: {caveat}" for caveat in found.caveats),
    ]
    return "\n".join(lines)


def capacity_basis(found: Capacity) -> str:
    """Where the numbers come from."""
    origin, seeds = found.origin, found.seeds
    return (
        f"Scenario {origin['scenario']}, profile {origin['profile']} ({origin['profile_source']}), "
        f"contract {origin['contract']}, seeds {seeds[0]} to {seeds[-1]} and more in doubt, "
        f"{found.num_requests:,} requests a run, specplan {origin['specplan_version']}"
    )


def capacity_sentences(found: Capacity) -> list[str]:
    """The gain, why each service bears no more, and what speculation takes."""
    return [
        f"{found.gain.sentence[0].upper()}{found.gain.sentence[1:]}.",
        *(f"{each.label}: {each.reason}." for each in _services(found)),
        ledger_sentence(found),
    ]


def replicas_text(found: ReplicaPlan) -> str:
    """The fewest replicas, off and on side by side, and the hours of a day."""
    columns = [found.off.label, found.on.label]
    lines = [replicas_heading(found), _table("", columns, fleet_rows(found))]
    return "\n".join([*lines, *replicas_sentences(found)])


def replicas_heading(found: ReplicaPlan) -> str:
    """The rate or the day that the replicas are for."""
    where = f"{rate(found.rate_per_s)}"
    if found.curve is not None:
        where = f"the day of {found.curve.name} ({found.curve.source}), at most {where}"
    return f"Fewest replicas for {where}"


def replicas_sentences(found: ReplicaPlan) -> list[str]:
    """Why it takes so many, off and on."""
    unique = (found.off,) if found.off == found.on else (found.off, found.on)
    return [f"{each.label}: {each.reason}." for each in unique]


def fleet_rows(found: ReplicaPlan) -> list[tuple[str, list[str]]]:
    """Off and on side by side; the hours of a day where there is one."""
    fleets = (found.off, found.on)
    rows = [(name, [cell(each) for each in fleets]) for name, cell in _FLEET_ROWS]
    if found.curve is not None:
        rows += [(name, [cell(each) for each in fleets]) for name, cell in _DAY_ROWS]
    return rows


def _table(name: str, columns: list[str], rows: list[tuple[str, list[str]]]) -> str:
    table = Table(box=box.SIMPLE, pad_edge=False, show_edge=False)
    table.add_column(name)
    for column in columns:
        table.add_column(escape(column), justify="right")
    for title, cells in rows:
        table.add_row(title, *(escape(cell) for cell in cells))
    out = StringIO()
    Console(file=out, width=WIDTH, color_system=None).print(table)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def _services(found: Capacity) -> tuple[ServiceCapacity, ...]:
    return (found.off,) if found.off == found.on else (found.off, found.on)


def capacity_rows(found: Capacity) -> list[tuple[str, list[str]]]:
    """Off and on side by side: what each bears, why no more, and what it costs."""
    services = (found.off, found.on)
    rows = [(name, [cell(each) for each in services]) for name, cell in _SERVICE_ROWS]
    return [row for row in rows if any(cell != NOTHING for cell in row[1])]


def _metric(name: str, write: Callable[[float | None], str]) -> Callable[[ServiceCapacity], str]:
    def cell(service: ServiceCapacity) -> str:
        return write(_mean(service.at_capacity.get(name)))

    return cell


def _mean(found: Estimate | None) -> float | None:
    return None if found is None else found.mean


def _interval(service: ServiceCapacity) -> str:
    if service.users_interval is not None:
        return f"{service.users_interval[0]:,} to {service.users_interval[1]:,}"
    if service.interval is None:
        return NOTHING
    return f"{digits(service.interval[0])} to {digits(service.interval[1])}"


def _by_seed(service: ServiceCapacity) -> str:
    if not service.by_seed:
        return NOTHING
    return f"{digits(min(service.by_seed))} to {digits(max(service.by_seed))}"


def _plain(value: float | None) -> str:
    return NOTHING if value is None else digits(value)


def _money(service: ServiceCapacity, write: Callable[[Economics], str]) -> str:
    return NOTHING if service.economics is None else write(service.economics)


def _cost(found: Economics) -> str:
    if found.price_usd_per_device_hour is None:
        return NOT_STATED
    return _given(dollars(found.cost_usd_per_million_output_tokens), found.price_source)


def _energy(found: Economics) -> str:
    if found.power_source == "not stated":
        return NOT_STATED
    text = f"{joules(found.energy_j_per_output_token)}, {watts(found.average_power_w)}"
    return _given(text, found.power_source)


def _given(text: str, source: str) -> str:
    return f"{text} (given)" if source == "given" else text


_SERVICE_ROWS: tuple[Row, ...] = (
    ("largest rate", lambda each: rate(each.max_rate_per_s)),
    (
        "largest number of users",
        lambda each: NOTHING if each.max_users is None else f"{each.max_users:,}",
    ),
    ("surely met to surely missed", _interval),
    ("single seeds", _by_seed),
    ("saturation", lambda each: rate(_mean(each.saturation_rate_per_s))),
    ("missed first", lambda each: BOUND_NAMES.get(each.bound_by or "", NOTHING)),
    ("share within all limits", _metric("goodput_fraction", percent)),
    ("output rate", _metric("output_rate_tokens_per_s", lambda each: rate(each, "tokens/s"))),
    ("TTFT p95", _metric("ttft.p95_s", seconds)),
    ("TPOT p95", _metric("tpot.p95_s", seconds)),
    ("ITL per burst p95", _metric("itl_burst.p95_s", seconds)),
    ("ITL per token p95", _metric("itl_token.p95_s", seconds)),
    ("E2E p95", _metric("e2e.p95_s", seconds)),
    ("mean batch", _metric("mean_batch_size", _plain)),
    ("KV peak", _metric("kv.peak_used_fraction", percent)),
    ("devices", lambda each: _money(each, lambda found: str(found.num_devices))),
    ("cost a million output tokens", lambda each: _money(each, _cost)),
    ("energy an output token", lambda each: _money(each, _energy)),
)


ROW_MEANINGS = {
    "largest rate": "Largest rate: the highest offered load at which the objective is surely met.",
    "largest number of users": "Largest number of users: likewise, of users who each wait for "
    "their answer before they ask again.",
    "surely met to surely missed": "Surely met to surely missed: the capacity lies between these.",
    "single seeds": "Single seeds: the lowest and highest capacity under one seed alone.",
    "saturation": "Saturation: requests a second that a service finishes when it is never idle, "
    "whatever they wait.",
    "missed first": "Missed first: the limit that a higher load breaks before the others.",
    "share within all limits": "Share within all limits: of the requests, at the largest rate.",
    "devices": "Devices: replicas times the devices of one, those of a proposer included.",
    "cost a million output tokens": "Cost a million output tokens, at the largest rate.",
    "energy an output token": "Energy an output token, and average power, at the largest rate.",
    "replicas": "Replicas: the fewest that surely meet the objective at the rate.",
    "not surely too few": "Not surely too few: the fewest that do not surely miss it there.",
    "by division": "By division: rate over the capacity of one replica, rounded up. A large fleet "
    "shares its queue, so it may need fewer.",
    "capacity of one replica": "Capacity of one replica: its largest rate.",
    "hours at each count": "Hours at each count: how long a day so many replicas are needed.",
    "device-hours a day, the peak's replicas": "Device-hours a day with the peak's replicas all "
    "day.",
    "device-hours a day, scaled hourly": "Device-hours a day with each hour's own replicas.",
}


def _count(value: int | None) -> str:
    return NOTHING if value is None else f"{value:,}"


def _hours(fleet: Fleet) -> str:
    return ", ".join(f"{hours} h at {count}" for count, hours in fleet.hours_at.items()) or NOTHING


def _device_hours(hours: float | None, cost_usd: float | None) -> str:
    if hours is None:
        return NOTHING
    return f"{hours:,.0f}" + ("" if cost_usd is None else f" ({dollars(cost_usd)})")


_FLEET_ROWS: tuple[tuple[str, Callable[[Fleet], str]], ...] = (
    ("replicas", lambda each: _count(each.replicas)),
    ("not surely too few", lambda each: _count(each.at_least)),
    ("by division", lambda each: _count(each.by_division)),
    ("devices", lambda each: _count(each.num_devices)),
    ("capacity of one replica", lambda each: rate(each.one_replica_rate_per_s)),
)
_DAY_ROWS: tuple[tuple[str, Callable[[Fleet], str]], ...] = (
    ("hours at each count", _hours),
    (
        "device-hours a day, the peak's replicas",
        lambda each: _device_hours(each.static_device_hours, each.static_cost_usd_per_day),
    ),
    (
        "device-hours a day, scaled hourly",
        lambda each: _device_hours(each.scaled_device_hours, each.scaled_cost_usd_per_day),
    ),
)


def ledger_sentence(found: Capacity) -> str:
    ledger = found.ledger
    off, on = ledger.reserved_tokens_per_request
    if ledger.kv_tokens_off == ledger.kv_tokens_on and on == off and not ledger.draft_devices:
        return "Speculation takes no memory and no device."
    took = [
        f"draft weights {ledger.draft_weight_tokens:,} ({giga(ledger.draft_weight_bytes)})",
        f"draft KV {ledger.draft_kv_tokens:,} ({ledger.draft_kv_bytes_per_token:,} bytes a token)",
        f"workspace {ledger.workspace_tokens:,}",
    ]
    text = (
        f"Of each replica's {ledger.kv_tokens_off:,} KV tokens speculation takes "
        f"{ledger.kv_tokens_off - ledger.kv_tokens_on:,}: {', '.join(took)}; a request in a step "
        f"reserves {on} tokens in place of {off}"
    )
    if ledger.lost_requests is not None and ledger.reserved_tokens is not None:
        text += (
            f", {digits(ledger.reserved_tokens)} more in all; that is the room of "
            f"{digits(ledger.lost_requests)} running requests"
        )
    if ledger.draft_devices:
        text += f"; the proposer has {ledger.draft_devices} more device"
    return f"{text}."
