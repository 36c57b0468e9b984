"""A comparison as plain text for a terminal."""

from simcore.metrics.headlines import HEADLINES, PHASES
from simcore.planner.comparison import Comparison, Service
from simcore.report.metric_words import written
from simcore.report.units import rate

LEFT_OUT = ("p50", "p90")  # of the latencies; the JSON has them
ONLY_IN_TABLE = (*(f"time: {phase}" for phase in PHASES), "extrapolated steps")
MIN_COLUMN = 18


def comparison_text(found: Comparison) -> str:
    """Every service side by side, then what each does better or worse than the first."""
    services = found.services
    lines = [
        comparison_basis(found),
        *(service_line(each) for each in services),
        "",
        *_table(services),
    ]
    for each in services[1:]:
        lines += ["", f"{each.label} against {services[0].label}:", *_indented(each)]
    lines += ["", *(f"Note: {caveat}" for caveat in found.caveats)]
    return "\n".join(lines)


def comparison_basis(found: Comparison) -> str:
    """What is held equal, and where the numbers come from."""
    seeds = found.seeds
    load = "an offline batch" if found.rate_per_s is None else rate(found.rate_per_s)
    within = ""
    if found.rate_tolerance is not None:
        within = f" within {100 * found.rate_tolerance:g} %"
    kind = "offered load" if found.at == "offered" else "admitted rate"
    first = found.services[0].summary.origin
    return (
        f"At equal {kind}, {load}{within}; seeds {seeds[0]} to {seeds[-1]}, differences paired by "
        f"seed, {100 * found.confidence:g} % intervals; contract {first['contract']}, specplan "
        f"{found.origin['specplan_version']}"
    )


def service_line(service: Service) -> str:
    """One service and where its numbers come from."""
    origin = service.summary.origin
    text = (
        f"{service.label}: scenario {origin['scenario']}, profile {origin['profile']} "
        f"({origin['profile_source']}), acceptance {origin['acceptance_model']}"
    )
    return f"{text}; {service.note}" if service.note else text


def comparison_rows(services: tuple[Service, ...]) -> list[tuple[str, ...]]:
    """Means over the seeds; loads first, then the headline numbers that anyone has."""
    rows = [("offered load", *(rate(each.offered_rate_per_s) for each in services))]
    admitted = [each.admitted_rate_per_s for each in services]
    rows.append(("admitted rate", *(rate(each.mean if each else None) for each in admitted)))
    for headline in HEADLINES:
        means = [each.summary.metrics[headline.metric].mean for each in services]
        if _is_shown(headline.name) and any(mean is not None for mean in means):
            rows.append((headline.name, *(written(headline, mean) for mean in means)))
    return rows


ROW_MEANINGS = {
    "offered load": "Offered load: requests that are sent in a second, served or not.",
    "admitted rate": "Admitted rate: requests a second that are served to the end.",
}


def _table(services: tuple[Service, ...]) -> list[str]:
    rows = [("", *(each.label for each in services)), *comparison_rows(services)]
    width = max(MIN_COLUMN, *(len(each.label) for each in services))
    return [
        f"{name:22} " + " ".join(f"{value:>{width}}" for value in values) for name, *values in rows
    ]


def difference_sentences(service: Service) -> list[str]:
    """One a metric that differs; what is the same under every seed in one line."""
    if not service.differences:
        return ["not compared: one of them does not serve this rate"]
    shown = [each for each in service.differences if each.name not in ONLY_IN_TABLE]
    shown = [each for each in shown if _is_shown(each.name)]
    lines = [each.sentence for each in shown if each.verdict != "same"]
    same = [each.name for each in shown if each.verdict == "same"]
    return [*lines, f"same under every seed: {', '.join(same)}"] if same else lines


def _is_shown(name: str) -> bool:
    return not name.endswith(LEFT_OUT)


def _indented(service: Service) -> list[str]:
    return [f"  {line}" for line in difference_sentences(service)]
