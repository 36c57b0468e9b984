"""The plan's tables as CSV; units in the column names, the origin in every row."""

import csv
import io
from collections.abc import Iterable

from simcore.planner.document import Candidate, Plan
from simcore.report.plain import spreadsheet_text

Cell = str | int | float | None


def candidates_csv(plan: Plan) -> str:
    """One row a candidate, off first."""
    consumed = _consumption_columns(plan)
    return _csv(
        [
            _candidate_row(each) | row | _origin(plan)
            for each, row in zip(plan.candidates, consumed, strict=True)
        ]
    )


def load_curve_csv(plan: Plan) -> str:
    """One row a simulated load."""
    edge = plan.break_even
    rows: list[dict[str, Cell]] = [
        {
            "proposer": edge.proposer,
            "num_speculative_tokens": edge.num_speculative_tokens,
            "rate_per_s": point.rate_per_s,
            "speedup": point.speedup,
            "speedup_lower": point.interval[0],
            "speedup_upper": point.interval[1],
            "is_beyond_saturation": int(point.is_beyond_saturation),
        }
        for point in edge.curve
    ]
    return _csv([row | _origin(plan) for row in rows])


def _candidate_row(each: Candidate) -> dict[str, Cell]:
    summary = each.summary
    row: dict[str, Cell] = {
        "proposer": each.proposer or "off",
        "num_speculative_tokens": each.num_speculative_tokens,
        "speedup": each.speedup.value,
        "speedup_lower": each.speedup.interval[0],
        "speedup_upper": each.speedup.interval[1],
        "tpot_speedup": each.tpot_speedup,
        "indistinguishable_from_best": int(each.indistinguishable_from_best),
        "goodput_fraction": each.goodput_fraction,
        "goodput_per_s": summary.goodput_per_s,
    }
    for name in ("ttft", "tpot", "e2e"):
        latency = getattr(summary, name)
        row |= {f"{name}_{key}": value for key, value in latency.model_dump().items()}
    return row | {
        "request_rate_per_s": summary.request_rate_per_s,
        "output_rate_tokens_per_s": summary.output_rate_tokens_per_s,
        "mean_acceptance_length_tokens": summary.tokens.mean_acceptance_length,
        "kv_peak_used_fraction": summary.kv.peak_used_fraction,
        "extrapolated_step_fraction": summary.extrapolated_step_fraction,
        "is_saturated": int(summary.is_saturated),
    }


def _consumption_columns(plan: Plan) -> list[dict[str, Cell]]:
    """Energy and cost by candidate; only the columns that the profile lets anyone fill."""
    rows = [each.summary.consumption.model_dump() for each in plan.candidates]
    known = [name for name in rows[0] if any(row[name] is not None for row in rows)]
    return [{name: row[name] for name in known} for row in rows]


def _origin(plan: Plan) -> dict[str, Cell]:
    return {
        "contract": plan.scenario.contract.value,
        "temperature": plan.scenario.sampling.temperature,
        "profile": plan.profile.name,
        "profile_source": plan.profile.source,
        "seed": plan.scenario.seed,
        "num_replications": plan.speedup.num_replications,
        "specplan_version": str(plan.origin.get("specplan_version", "unknown")),
    }


def _csv(rows: list[dict[str, Cell]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(rows[0])
    writer.writerows(_safe(row.values()) for row in rows)
    return text.getvalue()


def _safe(cells: Iterable[Cell]) -> list[Cell]:
    return [spreadsheet_text(cell) if isinstance(cell, str) else cell for cell in cells]
