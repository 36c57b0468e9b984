"""The plan's tables as CSV and Parquet; units in the column names, the origin in every row."""

import csv
import io
from collections.abc import Iterable
from typing import Any

from simcore.planner.document import Candidate, Plan
from simcore.planner.recommendation import LoadResult, Way
from simcore.report.plain import spreadsheet_text

Cell = str | int | float | None


Row = dict[str, Cell]


def candidates_csv(plan: Plan) -> str:
    """One row a candidate, off first."""
    return _csv(candidate_rows(plan))


def load_curve_csv(plan: Plan) -> str:
    """One row a simulated load."""
    return _csv(load_rows(plan))


def ways_csv(plan: Plan) -> str:
    """One row a way to serve and load; a header alone where the plan recommends nothing."""
    return _csv(way_rows(plan)) if plan.recommendation else "way\n"


def parquet_tables(plan: Plan) -> dict[str, bytes]:
    """The same tables as Parquet, by file name; text in them is exact, not made safe to open."""
    import pyarrow as pa  # noqa: PLC0415 - only where tables are written
    from pyarrow import parquet  # noqa: PLC0415 - likewise

    found = {"candidates": candidate_rows(plan), "load_curve": load_rows(plan)}
    if plan.recommendation is not None:
        found["ways"] = way_rows(plan)
    files = {}
    for name, rows in found.items():
        buffer: Any = io.BytesIO()
        parquet.write_table(pa.Table.from_pylist(rows), buffer)
        files[f"{name}.parquet"] = buffer.getvalue()
    return files


def candidate_rows(plan: Plan) -> list[Row]:
    """Off first."""
    consumed = _consumption_columns(plan)
    return [
        _candidate_row(each) | row | _origin(plan)
        for each, row in zip(plan.candidates, consumed, strict=True)
    ]


def load_rows(plan: Plan) -> list[Row]:
    """The curve of speed-up against load."""
    edge = plan.break_even
    rows: list[Row] = [
        {
            "proposer": edge.proposer,
            "num_speculative_tokens": edge.num_speculative_tokens,
            "way": edge.way,
            "rate_per_s": point.rate_per_s,
            "speedup": point.speedup,
            "speedup_lower": point.interval[0],
            "speedup_upper": point.interval[1],
            "is_beyond_saturation": int(point.is_beyond_saturation),
        }
        for point in edge.curve
    ]
    return [row | _origin(plan) for row in rows]


def way_rows(plan: Plan) -> list[Row]:
    """Ways to serve: objectives at the planned load, regret at each load they were run at."""
    found = plan.recommendation
    assert found is not None
    return [
        _way_row(way, way.label == found.chosen) | _load_cells(result) | _origin(plan)
        for way in found.ways
        for result in (way.loads or (None,))
    ]


def _way_row(way: Way, is_shipped: bool) -> Row:
    means = {name: value.mean for name, value in way.objectives.items()}
    return {
        "way": way.label,
        "kind": way.kind,
        "proposer": way.speculation.proposer or "off",
        "num_speculative_tokens": way.speculation.num_speculative_tokens,
        "is_shipped": int(is_shipped),
        "is_eligible": int(way.is_eligible),
        "dominated_by": way.dominated_by,
        "keeps_slo_as_off": int(way.keeps_slo_as_off),
        "mean_e2e_s": means["mean_e2e"],
        "latency_s": means["latency"],
        "goodput_per_s": means["goodput"],
        "busy_device_s_per_million_tokens": means["device_time"],
        "expected_regret": way.expected_regret,
    }


def _load_cells(result: LoadResult | None) -> Row:
    cells: Row = dict.fromkeys(
        (
            *("load", "rate_per_s", "mean_e2e_at_load_s", "speedup", "speedup_lower"),
            *("speedup_upper", "regret", "regret_lower", "regret_upper"),
        )
    )
    if result is not None:
        cells |= {
            "load": result.load,
            "rate_per_s": result.rate_per_s,
            "mean_e2e_at_load_s": result.mean_e2e_s,
            "speedup": result.speedup,
            "speedup_lower": result.speedup_interval[0],
            "speedup_upper": result.speedup_interval[1],
            "regret": result.regret,
            "regret_lower": result.regret_interval[0],
            "regret_upper": result.regret_interval[1],
        }
    return cells


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
