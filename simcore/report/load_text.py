"""Estimates under load as plain text for a terminal."""

from simcore.planner.estimate_table import EstimateTable, Row
from simcore.planner.load.accuracy import REGIMES, Accuracy, Regime
from simcore.planner.load_estimate import LoadEstimate
from simcore.report.units import NOTHING, digits, percent, rate, seconds

HEADER = ("", "TTFT", "TPOT", "E2E", "batch", "step", "tokens/cycle", "load", "carries at most")
REGIME_WORDS = {
    "roomy": "with room",
    "kv_tight": "where memory limits the batch",
    "near_saturation": "near saturation",
}
BINDING_WORDS = {
    "seats": "seats",
    "kv": "KV",
    "step_tokens": "step tokens",
    "compute": "compute",
}


def load_text(found: EstimateTable) -> str:
    """One line a candidate, what the closed form left out, and how far it is off."""
    origin = found.origin
    first = found.rows[0].estimate
    lines = [
        f"Closed form, no simulation: scenario {origin['scenario']} at "
        f"{rate(first.offered_rate_per_s)}, profile {origin['profile']} "
        f"({origin['profile_source']}), contract {origin['contract']}, specplan "
        f"{origin['specplan_version']}",
        "",
        *_table(found.rows),
        "",
    ]
    caveats = dict.fromkeys(each for row in found.rows for each in row.estimate.caveats)
    lines += [f"Note: {caveat}" for caveat in caveats]
    seen = {row.regime for row in found.rows}
    lines += [_accuracy(found.accuracy, regime) for regime in REGIMES if regime in seen]
    return "\n".join(lines)


def _table(rows: tuple[Row, ...]) -> list[str]:
    cells = [HEADER, *(estimate_cells(row.label, row.estimate) for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(HEADER))]
    return [
        "  ".join(
            text.ljust(width) if column == 0 else text.rjust(width)
            for column, (text, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in cells
    ]


def estimate_cells(label: str, found: LoadEstimate) -> tuple[str, ...]:
    """One candidate in the columns of HEADER."""
    return (
        label,
        seconds(found.ttft_s) if found.is_stable else "grows",
        seconds(found.tpot_s),
        seconds(found.e2e_s) if found.is_stable else "grows",
        f"{digits(found.batch_size)} of {digits(found.max_batch_size)}",
        seconds(found.step_s),
        f"{found.emitted_tokens_per_cycle:.2f}",
        percent(found.utilization),
        f"{rate(found.max_rate_per_s)} ({BINDING_WORDS[found.binding]})",
    )


def _accuracy(accuracy: Accuracy, regime: Regime) -> str:
    """The measured median errors of one regime, with their source."""
    errors = accuracy.regimes[regime]
    parts = []
    for metric, name in (("tpot", "TPOT"), ("e2e", "E2E"), ("ttft", "TTFT"), ("max_rate", "rate")):
        median = getattr(errors, metric).median_rel
        parts.append(f"{name} {NOTHING if median is None else percent(median)}")
    return (
        f"Median error against simulation {REGIME_WORDS[regime]}: {', '.join(parts)} "
        f"({errors.num_points} scenarios, {accuracy.date}, specplan {accuracy.specplan_version})"
    )
