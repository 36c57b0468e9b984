"""What changed between two plans, as plain text for a terminal."""

import json
from collections.abc import Iterable

from pydantic import JsonValue

from simcore.metrics.headlines import Headline
from simcore.planner.plan_diff import (
    BreakEvenChange,
    CapacityChange,
    MetricChange,
    PlanDiff,
    RecommendationChange,
    SpeedupChange,
)
from simcore.report.metric_words import written
from simcore.report.plain import one_line
from simcore.report.units import NOTHING, interval, percent, rate

SHOWN_METRICS = (  # of the many; the JSON has all
    *("ttft.p95_s", "tpot.p50_s", "e2e.mean_s", "e2e.p95_s", "goodput_per_s", "goodput_fraction"),
    *("served_fraction", "output_rate_tokens_per_s", "num_preemptions"),
    *("tokens.mean_acceptance_length", "mean_batch_size", "kv.peak_used_fraction"),
    *("extrapolated_step_fraction", "consumption.energy_j_per_output_token"),
    "consumption.cost_usd_per_million_output_tokens",
)
MAX_VALUE_CHARACTERS = 48


def diff_text(found: PlanDiff) -> str:
    """Inputs, decision, break-even, candidates; only what differs."""
    lines = [f"A: {one_line(found.a)}", f"B: {one_line(found.b)}", ""]
    if found.is_empty:
        return "\n".join([*lines, "No difference."])
    lines += ["What was asked:", *_input_lines(found), ""]
    if not found.has_results:
        return "\n".join([*lines, "Nothing came out to compare: that takes two plans."])
    lines += ["What came out:", *_result_lines(found)]
    for side, caveats in (("A", found.caveats_only_in_a), ("B", found.caveats_only_in_b)):
        lines += [f"Note, only of {side}: {one_line(text)}" for text in caveats]
    return "\n".join(lines).rstrip()


def _input_lines(found: PlanDiff) -> list[str]:
    if not found.inputs:
        return ["  the same"]
    rows = [("", "A", "B")]
    rows += [(one_line(each.field), _value(each.a), _value(each.b)) for each in found.inputs]
    return _columns(rows)


def _value(value: JsonValue) -> str:
    if value is None:
        return NOTHING
    text = one_line(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
    cut = MAX_VALUE_CHARACTERS - 1
    return text if len(text) <= MAX_VALUE_CHARACTERS else f"{text[:cut]}…"


def _result_lines(found: PlanDiff) -> list[str]:
    lines = []
    if found.decision is None:
        lines.append("  decision: the same")
    else:
        lines += [f"  decision A: {one_line(found.decision.a)}"]
        lines += [f"  decision B: {one_line(found.decision.b)}"]
    lines += [] if found.recommendation is None else _ways(found.recommendation)
    lines += ["  break-even: the same"] if found.break_even is None else _edge(found.break_even)
    lines += [line for each in found.capacity for line in _capacity(each)]
    for side, names in (("A", found.only_in_a), ("B", found.only_in_b)):
        if names:
            lines.append(f"  candidates only in {side}: {'; '.join(map(one_line, names))}")
    return [*lines, "", *_speedup_table(found.speedups), *_metric_tables(found.metrics)]


def _ways(change: RecommendationChange) -> list[str]:
    lines = []
    for side, way, regret, batch, load in (
        (
            *("A", change.a, change.a_expected_regret),
            *(change.a_off_from_batch_size, change.a_off_above_rate_per_s),
        ),
        (
            *("B", change.b, change.b_expected_regret),
            *(change.b_off_from_batch_size, change.b_off_above_rate_per_s),
        ),
    ):
        if way is None:
            lines.append(f"  recommendation {side}: none was made")
            continue
        ends = [f"off from {batch} running requests"] if batch is not None else []
        ends += [f"off above {rate(load)}"] if load is not None else []
        shown = "; ".join([f"expected regret {percent(regret)}", *ends])
        lines.append(f"  recommendation {side}: {one_line(way)} ({shown})")
    for side, names in (("A", change.only_in_a), ("B", change.only_in_b)):
        if names:
            lines.append(f"  ways only in {side}: {'; '.join(map(one_line, names))}")
    return lines


def _edge(change: BreakEvenChange) -> list[str]:
    sides = (
        ("A", change.a, change.a_rate_per_s, change.a_interval, change.a_reason),
        ("B", change.b, change.b_rate_per_s, change.b_interval, change.b_reason),
    )
    lines = []
    for side, name, load, spread, reason in sides:
        shown = one_line(reason)
        if load is not None:
            ends = "" if spread is None else f" ({rate(spread[0])} to {rate(spread[1])})"
            shown = f"{rate(load)}{ends}"
        lines.append(f"  break-even {side}, {one_line(name)}: {shown}")
    if change.verdict != "unknown":
        lines.append(f"  break-even of B: {change.verdict}")
    saturations = change.a_saturation_rate_per_s, change.b_saturation_rate_per_s
    if saturations[0] != saturations[1]:
        lines.append(f"  sustained when off: A {rate(saturations[0])}, B {rate(saturations[1])}")
    return lines


def _capacity(change: CapacityChange) -> list[str]:
    sides = (
        ("A", change.a, change.a_load, change.a_interval),
        ("B", change.b, change.b_load, change.b_interval),
    )
    lines = []
    for side, name, load, spread in sides:
        shown = "not searched"
        if name is not None and spread is not None:
            ends = f"{rate(spread[0], change.unit)} to {rate(spread[1], change.unit)}"
            shown = f"{one_line(name)}: {rate(load, change.unit)} ({ends})"
        lines.append(f"  capacity {change.service} {side}, {shown}")
    if change.verdict != "unknown":
        lines.append(f"  capacity {change.service} of B: {change.verdict}")
    return lines


def _speedup_table(changes: tuple[SpeedupChange, ...]) -> list[str]:
    if not changes:
        return []
    rows = [("speed-up of mean E2E (95 % interval)", "A", "B", "B is")]
    rows += [
        (
            one_line(each.candidate),
            interval(each.a, each.a_interval),
            interval(each.b, each.b_interval),
            each.verdict,
        )
        for each in changes
    ]
    return [*_columns(rows), ""]


def _metric_tables(changes: tuple[MetricChange, ...]) -> list[str]:
    """One table a candidate; one run each, so without intervals."""
    lines: list[str] = []
    shown = [each for each in changes if each.metric in SHOWN_METRICS]
    for candidate in dict.fromkeys(each.candidate for each in shown):
        rows = [(f"{one_line(candidate)}, one run each", "A", "B", "change")]
        rows += [
            (each.name, _written(each, each.a), _written(each, each.b), _relative(each))
            for each in shown
            if each.candidate == candidate
        ]
        lines += [*_columns(rows), ""]
    return lines


def _written(change: MetricChange, value: float | None) -> str:
    return written(Headline(change.metric, change.name, change.unit), value)


def _relative(change: MetricChange) -> str:
    return NOTHING if change.relative is None else f"{100 * change.relative:+.1f} %"


def _columns(rows: Iterable[tuple[str, ...]]) -> list[str]:
    """Rows in columns, the first to the left."""
    table = list(rows)
    widths = [max(len(row[index]) for row in table) for index in range(len(table[0]))]
    return [
        "  "
        + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in table
    ]
