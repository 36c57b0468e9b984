"""Every picture of a page, a report or a notebook: pure functions from results to figures."""

from collections.abc import Sequence

import plotly.graph_objects as go

from simcore.planner.document import Candidate, Plan
from simcore.planner.estimate import Estimate
from simcore.planner.speedup import CycleSurvival, SpeedupPoint
from simcore.report.run_figures import latency_figure, timeline_figure
from simcore.report.style import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    SKY,
    VERMILLION,
    colour,
    dash,
    label,
    marker,
    new_figure,
    parity_line,
    vertical_line,
)

__all__ = [
    "candidates_figure",
    "cycle_time_figure",
    "latency_figure",
    "load_figure",
    "speedup_figure",
    "survival_figure",
    "timeline_figure",
]

PHASES = (  # field of StepTime, name, colour, hatching
    ("propose_s", "propose", ORANGE, "/"),
    ("target_s", "target pass", BLUE, ""),
    ("reconcile_s", "reconcile", GREEN, "x"),
    ("overhead_s", "overhead", GREY, "."),
)
DODGE = 0.07  # of one γ between proposers, so that their intervals do not hide each other


def survival_figure(survival: CycleSurvival) -> go.Figure:
    """s_k by draft position with its 95 % interval, against the curve of one pooled α."""
    alpha = survival.acceptance_rate
    positions = list(range(1, survival.gamma + 1))
    iid = [alpha**position for position in positions]
    iid_tokens = 1.0 + sum(iid)
    figure = new_figure(
        f"Survival at γ = {survival.gamma}: measured {survival.mean_emitted_tokens:.2f}, "
        f"one α {iid_tokens:.2f} tokens a cycle",
        "draft position k",
        "survival s_k = P(positions 1..k accepted)",
    )
    measured = list(survival.survival)
    figure.add_scatter(
        x=positions,
        y=measured,
        mode="lines+markers",
        name=f"by position: E[Y] = {survival.mean_emitted_tokens:.2f} tokens a cycle",
        line={"color": BLUE},
        marker={"size": 9},
        error_y=_error_bars(measured, survival.lower, survival.upper),
        customdata=list(zip(survival.lower, survival.upper, strict=True)),
        hovertemplate="position %{x}<br>s_k %{y:.3f} (95 % interval %{customdata[0]:.3f} to "
        "%{customdata[1]:.3f})<extra></extra>",
    )
    figure.add_scatter(
        x=positions,
        y=iid,
        mode="lines+markers",
        name=f"IID with α = {alpha:.3f}: E[Y] = {iid_tokens:.2f} tokens a cycle",
        line={"color": VERMILLION, "dash": "dash"},
        marker={"symbol": "x", "size": 8},
        hovertemplate="position %{x}<br>α^k %{y:.3f}<extra></extra>",
    )
    figure.update_xaxes(dtick=1)
    figure.update_yaxes(range=[0, 1.02])
    return figure


def cycle_time_figure(points: Sequence[SpeedupPoint]) -> go.Figure:
    """Milliseconds of one step by phase: plain decoding (γ = 0) and every γ, at one batch."""
    first = points[0]
    steps = [first.plain, *(point.cycle for point in points)]
    tokens = [1.0, *(point.mean_emitted_tokens for point in points)]
    names = ["0 (plain)", *(str(point.gamma) for point in points)]
    figure = new_figure(
        f"Time of one cycle at batch {first.batch_size}", "draft length γ", "time of a step (ms)"
    )
    for field, name, fill, shape in PHASES:
        figure.add_bar(
            x=names,
            y=[1000 * getattr(step, field) for step in steps],
            name=name,
            marker={"color": fill, "pattern": {"shape": shape}},
            customdata=[
                (1000 * step.total_s, each, 1000 * step.total_s / each)
                for step, each in zip(steps, tokens, strict=True)
            ],
            hovertemplate=f"γ = %{{x}}<br>{name} %{{y:.3f}} ms of %{{customdata[0]:.3f}} ms<br>"
            "%{customdata[1]:.2f} tokens a cycle, %{customdata[2]:.3f} ms a token<extra></extra>",
        )
    figure.update_layout(barmode="stack")
    figure.update_xaxes(type="category")
    return figure


def speedup_figure(estimate: Estimate) -> go.Figure:
    """S against γ, one line a batch size; open markers are extrapolated."""
    figure = new_figure(
        f"Speed-up of one cycle, {label(estimate.proposer)}, context "
        f"{estimate.context_tokens:,} tokens",
        "draft length γ",
        "speed-up S (plain time / speculative time)",
    )
    for index, (batch_size, points) in enumerate(estimate.points.items()):
        extrapolated = [point.is_extrapolated for point in points]
        figure.add_scatter(
            x=[point.gamma for point in points],
            y=[point.speedup for point in points],
            mode="lines+markers",
            name=f"batch {batch_size:,}",
            line={"color": colour(index), "dash": dash(index)},
            marker={
                "size": 9,
                "symbol": [marker(index) + ("-open" if each else "") for each in extrapolated],
            },
            customdata=[
                (
                    point.mean_emitted_tokens,
                    point.break_even_tokens,
                    "extrapolated" if point.is_extrapolated else "inside the measured cost domain",
                )
                for point in points
            ],
            hovertemplate=f"batch {batch_size:,}, γ = %{{x}}<br>S = %{{y:.3f}}<br>"
            "%{customdata[0]:.2f} tokens a cycle, %{customdata[1]:.2f} break even<br>"
            "%{customdata[2]}<extra></extra>",
        )
    parity_line(figure)
    figure.update_xaxes(dtick=1)
    return figure


def candidates_figure(plan: Plan) -> go.Figure:
    """Speed-up with interval of every candidate against γ by proposer; the chosen one ringed."""
    figure = new_figure(
        "Speed-up of the mean request by candidate",
        "draft length γ",
        "speed-up (mean E2E off / on)",
    )
    proposers = list(dict.fromkeys(each.proposer for each in plan.candidates if each.proposer))
    for index, proposer in enumerate(proposers):
        shift = DODGE * (index - (len(proposers) - 1) / 2)
        chosen = [each for each in plan.candidates if each.proposer == proposer]
        figure.add_trace(_candidate_trace(chosen, proposer, index, shift))
        if plan.decision.proposer == proposer:
            _mark_choice(figure, plan, shift)
    if plan.decision.choice == "off":
        _mark_choice(figure, plan, 0.0)
    parity_line(figure)
    figure.update_xaxes(dtick=1)
    return figure


def load_figure(plan: Plan) -> go.Figure:
    """Speed-up against offered load, with break-even, the scenario's own rate and saturation."""
    edge = plan.break_even
    rates = [point.rate_per_s for point in edge.curve]
    speedups = [point.speedup for point in edge.curve]
    figure = new_figure(
        f"Speed-up against load: {label(edge.proposer)}, γ = {edge.num_speculative_tokens}",
        "offered load (requests/s, log)",
        "speed-up (mean E2E off / on)",
    )
    figure.add_scatter(
        x=rates,
        y=speedups,
        mode="lines+markers",
        name="speed-up",
        line={"color": BLUE},
        marker={"size": 8},
        hovertemplate="%{x:.3g} requests/s<br>speed-up %{y:.3f}<extra></extra>",
    )
    span = (min([*speedups, 1.0]) * 0.95, max([*speedups, 1.0]) * 1.05)
    for rate, name, line_colour, line_dash in _load_marks(plan):
        text = f"{name}: {rate:.3g} requests/s"
        figure.add_trace(vertical_line(rate, span, text, line_colour, line_dash, text))
    parity_line(figure)
    figure.update_xaxes(type="log")
    figure.update_yaxes(range=list(span))
    return figure


def _load_marks(plan: Plan) -> list[tuple[float, str, str, str]]:
    edge, arrivals = plan.break_even, plan.scenario.workload.arrivals
    marks = [(edge.saturation_rate_per_s, "saturation when off", GREY, "dot")]
    if edge.rate_per_s is not None:
        marks.append((edge.rate_per_s, "break-even", VERMILLION, "dash"))
    if arrivals.kind == "poisson":
        marks.append((arrivals.rate_per_s, "this scenario", GREEN, "solid"))
    return marks


def _candidate_trace(
    candidates: Sequence[Candidate], proposer: str, index: int, shift: float
) -> go.Scatter:
    speedups = [each.speedup for each in candidates]
    values = [each.value for each in speedups]
    lower = [each.interval[0] for each in speedups]
    upper = [each.interval[1] for each in speedups]
    return go.Scatter(
        x=[each.num_speculative_tokens + shift for each in candidates],
        y=values,
        mode="lines+markers",
        name=label(proposer),
        line={"color": colour(index), "dash": dash(index)},
        marker={"size": 9, "symbol": marker(index)},
        error_y=_error_bars(values, lower, upper),
        customdata=[
            (each.num_speculative_tokens, low, high, _standing(each))
            for each, low, high in zip(candidates, lower, upper, strict=True)
        ],
        hovertemplate=f"{label(proposer)}, γ = %{{customdata[0]}}<br>speed-up %{{y:.3f}} "
        "(95 % interval %{customdata[1]:.3f} to %{customdata[2]:.3f})<br>%{customdata[3]}"
        "<extra></extra>",
    )


def _standing(candidate: Candidate) -> str:
    same = candidate.indistinguishable_from_best
    return "best, or indistinguishable from it" if same else "slower than the best"


def _mark_choice(figure: go.Figure, plan: Plan, shift: float) -> None:
    gamma = plan.decision.num_speculative_tokens
    off = plan.decision.choice == "off"
    figure.add_scatter(
        x=[gamma + shift],
        y=[1.0 if off else plan.speedup.value],
        mode="markers",
        name="chosen: off" if off else f"chosen: {label(plan.decision.proposer)}, γ = {gamma}",
        marker={"symbol": "circle-open", "size": 20, "color": SKY, "line": {"width": 3}},
        hoverinfo="skip",
    )


def _error_bars(
    values: Sequence[float], lower: Sequence[float], upper: Sequence[float]
) -> dict[str, object]:
    return {
        "type": "data",
        "array": [high - value for value, high in zip(values, upper, strict=True)],
        "arrayminus": [value - low for value, low in zip(values, lower, strict=True)],
        "thickness": 1.5,
        "width": 5,
    }
