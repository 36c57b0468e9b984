"""Pictures of a plan: the candidates against each other, and speed-up against load."""

from collections.abc import Sequence

import plotly.graph_objects as go

from simcore.planner.document import Candidate, Plan
from simcore.report.style import (
    BLUE,
    GREEN,
    GREY,
    SKY,
    VERMILLION,
    colour,
    dash,
    error_bars,
    label,
    log_axis,
    marker,
    new_figure,
    parity_line,
    vertical_line,
)
from simcore.report.workload_words import offered_rate_per_s

DODGE = 0.07  # of one γ between proposers, so that their intervals do not hide each other


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
    marks = _load_marks(plan)
    for rate, name, line_colour, line_dash in marks:
        text = f"{name}: {rate:.3g} requests/s"
        figure.add_trace(vertical_line(rate, span, text, line_colour, line_dash, text))
    parity_line(figure)
    figure.update_xaxes(**log_axis([*rates, *(rate for rate, *_ in marks)]))
    figure.update_yaxes(range=list(span))
    return figure


def _load_marks(plan: Plan) -> list[tuple[float, str, str, str]]:
    edge, offered = plan.break_even, offered_rate_per_s(plan)
    marks = [(edge.saturation_rate_per_s, "saturation when off", GREY, "dot")]
    if edge.rate_per_s is not None:
        marks.append((edge.rate_per_s, "break-even", VERMILLION, "dash"))
    if offered is not None:
        marks.append((offered, "this scenario", GREEN, "solid"))
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
        error_y=error_bars(values, lower, upper),
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
