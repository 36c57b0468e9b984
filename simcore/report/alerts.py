"""Monitoring rules of a plan: when what a service shows is no longer what the plan was made for.

Windows are as long as the counts need: acceptance is compared only over enough cycles for the
difference that the rule is about (STANDARD_ERRORS of a mean whose requests differ).
"""

import math
from collections.abc import Callable

from simcore.errors import SpecplanError
from simcore.planner.decision import MOSTLY_GOOD
from simcore.planner.document import Plan
from simcore.report.alert_rules import (
    AlertRule,
    Selector,
    rules_yaml,
    window_for,
    window_s,
)
from simcore.report.engine import choice_of
from simcore.report.engine_metrics import METRICS, EngineMetrics
from simcore.report.expectation import (
    STANDARD_ERRORS,
    Acceptance,
    chosen_candidate,
    expected_acceptance,
)
from simcore.workload.load import mean_rate_per_s

GAUGE_WINDOW = "10m"
COUNT_WINDOW = "1h"
REQUESTS_TO_TELL_A_RATE = 400  # a Poisson count of 400 is known to 5 %
FULL_KV_FRACTION = 0.95
# Burn rates of an error budget with their long and short windows: the Site Reliability Workbook,
# chapter 5, its second and third row; the first, 14.4, would need more misses than requests here.
BURNS = ((6.0, "6h", "30m", "critical"), (1.0, "3d", "6h", "warning"))
LEAST_QUANTILE = 0.01
LEAST_SURVIVAL_DIFFERENCE = 0.1  # in the mean acceptance length; sets the positions' window


def alert_rules(plan: Plan, engine: str) -> tuple[AlertRule, ...]:
    """Every rule that the plan has a bound for. Raises SpecplanError for an unknown engine."""
    if engine not in METRICS:
        raise SpecplanError(f"no alerts for engine {engine!r}; expected {' or '.join(METRICS)}")
    metrics = METRICS[engine]
    selector = Selector.of(plan.profile.identity.target.name)
    parts: tuple[Callable[[Plan, EngineMetrics, Selector], list[AlertRule]], ...] = (
        _acceptance_rules,
        _load_rules,
        _memory_rules,
        _queue_rules,
        _slo_rules,
    )
    return tuple(rule for part in parts for rule in part(plan, metrics, selector))


def alerts_yaml(plan: Plan, engine: str) -> str:
    """The rules as a Prometheus rule file. Raises SpecplanError for an unknown engine."""
    return rules_yaml(f"specplan_{engine}", alert_rules(plan, engine))


# --- acceptance --------------------------------------------------------------------------------


def _acceptance_rules(plan: Plan, metrics: EngineMetrics, selector: Selector) -> list[AlertRule]:
    expected = expected_acceptance(plan)
    if expected is None:
        return []
    rules = _length_rules(plan, expected, metrics, selector)
    flip = _compared_length(plan, expected, metrics, selector, "<", expected.flip_length)
    if expected.flip_length < expected.length:
        rules.append(
            AlertRule(
                "SpecplanSpeculationNoLongerPays",
                flip[0],
                flip[1],
                "critical",
                f"Mean acceptance length {{{{ $value }}}} is below {expected.flip_length:.3g}, "
                "where drafting costs as much as it saves: start the engine without speculation.",
                f"the plan's mean acceptance length {expected.length:.4g} over its speed-up of "
                "decoding: E[Y] at which S = E[Y] t_1 / t_cycle is 1",
            )
        )
    return rules + _position_rules(plan, expected, metrics, selector)


def _length_rules(
    plan: Plan, expected: Acceptance, metrics: EngineMetrics, selector: Selector
) -> list[AlertRule]:
    low, high = expected.lowest_length, expected.highest_length
    below = _compared_length(plan, expected, metrics, selector, "<", low)
    above = _compared_length(plan, expected, metrics, selector, ">", high)
    source = (
        f"the plan's {expected.length:.4g} scaled to the end of its speed-up's interval, and by "
        "5 % at least"
    )
    rules = [
        AlertRule(
            "SpecplanAcceptanceBelowPlan",
            *below,
            "warning",
            f"Mean acceptance length {{{{ $value }}}} is below the plan's {low:.3g}: the traffic, "
            "the sampling or the draft differs from what was measured; measure and plan again.",
            source,
        ),
        AlertRule(
            "SpecplanAcceptanceAbovePlan",
            *above,
            "info",
            f"Mean acceptance length {{{{ $value }}}} is above the plan's {high:.3g}: longer "
            "drafts may pay; plan again.",
            source,
        ),
    ]
    # A cycle emits 1 to γ + 1 tokens: a bound there would never be crossed.
    can_cross = (low > 1.0, high < len(expected.survival) + 1.0)
    return [rule for rule, can in zip(rules, can_cross, strict=True) if can]


def _compared_length(
    plan: Plan,
    expected: Acceptance,
    metrics: EngineMetrics,
    selector: Selector,
    sign: str,
    bound: float,
) -> tuple[str, str]:
    """Expression and hold: the mean acceptance length over a window with enough cycles."""
    needed = expected.cycles_to_tell(max(abs(expected.length - bound), 1e-6))
    window = window_for(needed / expected.cycles_per_s)
    length, counted = _length_and_cycles(plan, metrics, selector, window)
    # A window cut to the longest holds fewer cycles; it must still hold what it can.
    least = max(1, min(needed, math.floor(expected.cycles_per_s * window_s(window))))
    return f"{length} {sign} {bound:.4g} and {counted} >= {least}", window


def _length_and_cycles(
    plan: Plan, metrics: EngineMetrics, selector: Selector, window: str
) -> tuple[str, str]:
    """Expressions of the mean acceptance length, and of the cycles behind it."""
    if metrics.acceptance_length is not None and metrics.cycles is not None:
        gauge = selector.series(metrics.acceptance_length)
        mean = f"avg by (model_name) (avg_over_time(({gauge} > 0)[{window}:1m]))"
        return mean, selector.growth(metrics.cycles, window)
    assert metrics.accepted is not None
    assert metrics.drafts is not None
    accepted = selector.growth(metrics.accepted, window)
    if _counts_cycles(plan):
        drafts = selector.growth(metrics.drafts, window)
        return f"(1 + {accepted} / {drafts})", drafts
    # Cycles without a match are in no counter of drafts: every cycle emits one token that is no
    # draft, and so does every prefill.
    emitted = selector.growth(metrics.generated, window)
    finished = selector.growth(metrics.finished, window)
    cycles = f"({emitted} - {accepted} - {finished})"
    return f"(({emitted} - {finished}) / {cycles})", cycles


def _counts_cycles(plan: Plan) -> bool:
    """Whether the plan's cycles are those of the engine's counter of drafts.

    A lookup without a match is a cycle of the plan and no draft of the engine; so is a cycle of a
    request that runs plain.
    """
    proposer = choice_of(plan).proposer
    has_model = proposer is not None and proposer.kind != "ngram"
    return has_model and plan.scenario.speculation.plain_fraction == 0.0


def _position_rules(
    plan: Plan, expected: Acceptance, metrics: EngineMetrics, selector: Selector
) -> list[AlertRule]:
    """Survival by position, where each draft has all of them and the engine counts them."""
    if metrics.accepted_by_position is None or not _counts_cycles(plan):
        return []
    assert metrics.drafts is not None
    needed = expected.cycles_to_tell(LEAST_SURVIVAL_DIFFERENCE)
    window = window_for(needed / expected.cycles_per_s)
    least = max(1, min(needed, math.floor(expected.cycles_per_s * window_s(window))))
    drafts = selector.growth(metrics.drafts, window)
    rules = []
    for depth, survival in enumerate(expected.survival, start=1):
        bound = survival - expected.survival_margin(depth, least)
        if bound <= 0.0:
            continue
        accepted = selector.growth(metrics.accepted_by_position, window, position=str(depth - 1))
        rules.append(
            AlertRule(
                f"SpecplanSurvivalBelowPlanAtPosition{depth}",
                f"{accepted} / {drafts} < {bound:.4g} and {drafts} >= {least}",
                window,
                "warning",
                f"Only {{{{ $value }}}} of the drafts survive position {depth}, the plan says "
                f"{survival:.3g}: the draft, its weights or the traffic differ.",
                f"the plan's survival {survival:.4g} less {STANDARD_ERRORS:g} standard errors of "
                f"{least} cycles whose requests differ, and 5 % at least",
            )
        )
    return rules


# --- load and memory ---------------------------------------------------------------------------


def _load_rules(plan: Plan, metrics: EngineMetrics, selector: Selector) -> list[AlertRule]:
    edge, planned = plan.break_even, mean_rate_per_s(plan.scenario.workload)
    speculates = plan.decision.choice == "speculate"
    rules = []
    if edge.rate_per_s is not None and (speculates or (planned or 0.0) > edge.rate_per_s):
        spread = (
            "" if edge.interval is None else f", {edge.interval[0]:.3g} to {edge.interval[1]:.3g}"
        )
        sign, name = (">", "Above") if speculates else ("<", "Below")
        advice = (
            "the mean request is faster without speculation; start the engine without it if this "
            "load stays"
            if speculates
            else "speculation would pay; plan again for this load"
        )
        rules.append(
            AlertRule(
                f"SpecplanLoad{name}BreakEven",
                *_compared_rate(metrics, selector, sign, edge.rate_per_s),
                "warning" if speculates else "info",
                f"{{{{ $value }}}} requests/s, break-even is {edge.rate_per_s:.3g}: {advice}.",
                f"the plan's break-even rate of the whole service{spread}",
            )
        )
    saturation = edge.saturation_rate_per_s
    rules.append(
        AlertRule(
            "SpecplanLoadAboveSaturation",
            *_compared_rate(metrics, selector, ">", saturation),
            "warning",
            f"{{{{ $value }}}} requests/s, more than the {saturation:.3g} that the service "
            f"sustains without speculation: {'it must not be switched off; ' if speculates else ''}"
            "add replicas.",
            "the plan's saturation rate of the whole service",
        )
    )
    return rules


def _compared_rate(
    metrics: EngineMetrics, selector: Selector, sign: str, rate_per_s: float
) -> tuple[str, str]:
    window = window_for(REQUESTS_TO_TELL_A_RATE / rate_per_s)
    return f"{selector.rate(metrics.finished, window)} {sign} {rate_per_s:.4g}", window


def _memory_rules(plan: Plan, metrics: EngineMetrics, selector: Selector) -> list[AlertRule]:
    summary = chosen_candidate(plan).summary
    peak = min(summary.kv.peak_used_fraction, FULL_KV_FRACTION)
    expected = summary.num_preemptions / summary.duration_s * window_s(COUNT_WINDOW)
    allowed = expected + 3.0 * math.sqrt(expected)
    return [
        AlertRule(
            "SpecplanKVAbovePlan",
            f"{selector.mean(metrics.kv_usage, GAUGE_WINDOW, 'max')} > {peak:.4g}",
            GAUGE_WINDOW,
            "warning",
            f"The KV cache stays {{{{ $value | humanizePercentage }}}} full, the bound is "
            f"{100 * peak:.3g} %: longer requests or a higher load than planned.",
            f"the plan's peak KV use, at most {100 * FULL_KV_FRACTION:g} %",
        ),
        AlertRule(
            "SpecplanPreemptionsAbovePlan",
            f"{selector.growth(metrics.preemptions, COUNT_WINDOW)} > {allowed:.4g}",
            "0m",
            "warning",
            f"{{{{ $value }}}} requests lost their KV cache within an hour, the plan expects "
            f"{expected:.3g}: lower max_num_seqs, or give the KV cache more memory.",
            "the plan's preemptions an hour and three standard deviations of a Poisson count",
        ),
    ]


def _queue_rules(plan: Plan, metrics: EngineMetrics, selector: Selector) -> list[AlertRule]:
    """Mean queue length by Little's law, if everyone waited as the plan's slowest 1 % do."""
    summary = chosen_candidate(plan).summary
    wait_s = summary.queue.p99_s
    if wait_s is None:
        return []
    bound = max(1.0, summary.request_rate_per_s * wait_s)
    return [
        AlertRule(
            "SpecplanQueueAbovePlan",
            f"{selector.mean(metrics.waiting, GAUGE_WINDOW, 'sum')} > {bound:.4g}",
            GAUGE_WINDOW,
            "warning",
            f"{{{{ $value }}}} requests wait on average, the plan allows {bound:.3g}: the load is "
            "beyond the plan's, or steps take longer.",
            "the plan's request rate times its 99th percentile of queueing (Little's law), 1 at "
            "least",
        )
    ]


# --- service levels ----------------------------------------------------------------------------


def _slo_rules(plan: Plan, metrics: EngineMetrics, selector: Selector) -> list[AlertRule]:
    slo, found = plan.scenario.slo, chosen_candidate(plan).goodput_fraction
    objective = min(MOSTLY_GOOD, found if found is not None else MOSTLY_GOOD)
    limits = (
        ("TTFT", metrics.ttft, slo.ttft_s),
        ("TPOT", metrics.tpot, slo.tpot_s),
        ("E2E", metrics.e2e, slo.e2e_s),
    )
    rules = []
    for name, histogram, limit_s in limits:
        for burn, long, short, severity in BURNS:
            quantile = 1.0 - burn * (1.0 - objective)
            if limit_s is None or quantile < LEAST_QUANTILE:
                continue
            both = (selector.quantile(quantile, histogram, each) for each in (short, long))
            rules.append(
                AlertRule(
                    f"Specplan{name}Burns{burn:g}x",
                    " and ".join(f"{each} > {limit_s:g}" for each in both),
                    "0m",
                    "critical" if severity == "critical" else "warning",
                    f"More than {100 * (1 - quantile):.3g} % of the requests miss the {name} limit "
                    f"of {limit_s:g} s over {short} and {long}; {{{{ $value }}}} s at the "
                    f"{100 * quantile:.4g}th percentile.",
                    f"the scenario's limit; objective {100 * objective:.4g} % of the requests, "
                    f"burn rate {burn:g}",
                )
            )
    return rules
