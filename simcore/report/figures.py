"""Every picture of a page, a report or a notebook: pure functions from results to figures."""

from collections.abc import Sequence

import plotly.graph_objects as go

from simcore.acceptance.request_spread import PositionCount
from simcore.planner.estimate import Estimate
from simcore.planner.speedup import CycleSurvival, SpeedupPoint
from simcore.report.acceptance_figures import rate_orders_figure, request_spread_figure
from simcore.report.capacity_figures import capacity_figure, daily_figure
from simcore.report.comparison_figures import comparison_figure
from simcore.report.cost_figures import (
    cost_residuals_figure,
    cost_samples_figure,
    measured_box_figure,
)
from simcore.report.fleet_figures import fleet_figure
from simcore.report.import_figures import imported_survival_figure
from simcore.report.map_figures import crossover_figure
from simcore.report.plan_figures import candidates_figure, load_figure
from simcore.report.rate_figures import goodput_rate_figure, tpot_rate_figure
from simcore.report.run_figures import (
    latency_figure,
    time_figure,
    timeline_figure,
    tokens_figure,
)
from simcore.report.sensitivity_figures import tornado_figure
from simcore.report.speedup_figures import break_even_figure, speedup_map_figure
from simcore.report.style import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    VERMILLION,
    colour,
    dash,
    error_bars,
    label,
    marker,
    new_figure,
    parity_line,
)
from simcore.report.sweep_figures import load_gamma_figure
from simcore.report.tree_figures import tree_figure
from simcore.report.truth_figures import truth_figure

__all__ = [
    "break_even_figure",
    "candidates_figure",
    "capacity_figure",
    "comparison_figure",
    "cost_residuals_figure",
    "cost_samples_figure",
    "crossover_figure",
    "cycle_time_figure",
    "daily_figure",
    "fleet_figure",
    "goodput_rate_figure",
    "imported_survival_figure",
    "latency_figure",
    "load_figure",
    "load_gamma_figure",
    "measured_box_figure",
    "rate_orders_figure",
    "request_spread_figure",
    "speedup_figure",
    "speedup_map_figure",
    "survival_figure",
    "time_figure",
    "timeline_figure",
    "tokens_figure",
    "tornado_figure",
    "tpot_rate_figure",
    "tree_figure",
    "truth_figure",
]

PHASES = (  # field of StepTime, name, colour, hatching
    ("propose_s", "propose", ORANGE, "/"),
    ("target_s", "target pass", BLUE, ""),
    ("reconcile_s", "reconcile", GREEN, "x"),
    ("overhead_s", "overhead", GREY, "."),
)


def survival_figure(
    survival: CycleSurvival, every_position: PositionCount | None = None
) -> go.Figure:
    """s_k by draft position with its 95 % interval, against the curve of one pooled α.

    Of a tree, by depth. `every_position`: what counting over all output positions would say.
    """
    alpha = survival.acceptance_rate
    positions = list(range(1, survival.gamma + 1))
    iid = [alpha**position for position in positions]
    iid_tokens = 1.0 + sum(iid)
    figure = new_figure(
        f"Survival at γ = {survival.gamma}: by position {survival.mean_emitted_tokens:.2f}, "
        f"one α {iid_tokens:.2f} tokens a cycle",
        "draft position k",
        "survival s_k (share of cycles)",
    )
    measured = list(survival.survival)
    figure.add_scatter(
        x=positions,
        y=measured,
        mode="lines+markers",
        name=f"by position: E[Y] = {survival.mean_emitted_tokens:.2f} tokens a cycle",
        line={"color": BLUE},
        marker={"size": 9},
        error_y=error_bars(measured, survival.lower, survival.upper),
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
    if every_position is not None:
        figure.add_scatter(
            x=positions,
            y=list(every_position.survival),
            mode="lines+markers",
            name="counted at every position: E[Y] = "
            f"{every_position.mean_emitted_tokens:.2f} tokens a cycle",
            line={"color": PURPLE, "dash": "dot"},
            marker={"symbol": "diamond-open", "size": 9},
            hovertemplate="position %{x}<br>over all output positions %{y:.3f}<extra></extra>",
        )
    figure.update_xaxes(dtick=1)
    figure.update_yaxes(range=[0, 1.02])
    return figure


def cycle_time_figure(
    points: Sequence[SpeedupPoint], names: Sequence[str] | None = None
) -> go.Figure:
    """Milliseconds of one step by phase: plain decoding (γ = 0) and every γ, at one batch.

    `names` of the points (speedup_figures.draft_names) where trees are among them.
    """
    first = points[0]
    steps = [first.plain, *(point.cycle for point in points)]
    tokens = [1.0, *(point.mean_emitted_tokens for point in points)]
    drafts = [str(point.gamma) for point in points] if names is None else names
    bars = ["0<br>(plain)", *drafts]
    figure = new_figure(
        f"Time of one cycle at batch {first.batch_size}", "draft length γ", "time of a step (ms)"
    )
    for field, name, fill, shape in PHASES:
        figure.add_bar(
            x=bars,
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
    figure.update_xaxes(type="category", tickangle=0)
    return figure


def speedup_figure(estimate: Estimate) -> go.Figure:
    """S against γ, one line a batch size; open markers are extrapolated."""
    figure = new_figure(
        f"Speed-up of one cycle, {label(estimate.proposer)}, context "
        f"{estimate.context_tokens:,} tokens",
        "draft length γ",
        "speed-up S (plain / speculative)",
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
