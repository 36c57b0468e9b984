"""A picture of what a growing load takes: devices, cost and power as stairs, off and on."""

from collections.abc import Sequence

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from simcore.planner.fleet_curve import FleetCurve, FleetStep
from simcore.report.style import colour, dash, label, styled

PANELS = (  # field of FleetStep, its axis
    ("num_devices", "devices"),
    ("cost_usd_per_hour", "cost<br>(USD/hour)"),
    ("power_w", "power<br>(W)"),
)
PANEL_HEIGHT = 190  # pixels


def fleet_figure(curves: Sequence[FleetCurve]) -> go.Figure:
    """Devices against load; cost and power where they are known, at full load of each count."""
    panels = [each for each in PANELS if _is_known(curves, each[0])]
    figure = make_subplots(
        rows=len(panels), cols=1, shared_xaxes=True, vertical_spacing=0.1 / len(panels)
    )
    for row, (field, title) in enumerate(panels, start=1):
        for index, curve in enumerate(curves):
            figure.add_trace(_stairs(curve, field, index, is_named=row == 1), row=row, col=1)
        figure.update_yaxes(title_text=title, rangemode="tozero", row=row, col=1)
    figure.update_xaxes(title_text="load (requests/s)", row=len(panels), col=1)
    figure = styled(figure, "Devices, cost and power against load")
    return figure.update_layout(height=170 + PANEL_HEIGHT * len(panels))


def _is_known(curves: Sequence[FleetCurve], field: str) -> bool:
    return all(getattr(step, field) is not None for curve in curves for step in curve.steps)


def _stairs(curve: FleetCurve, field: str, index: int, *, is_named: bool) -> go.Scatter:
    """Each step from where the one before it ends."""
    starts = [0.0, *(step.up_to_rate_per_s for step in curve.steps)]
    values = [getattr(step, field) for step in curve.steps]
    return go.Scatter(
        x=starts,
        y=[*values, values[-1]],
        mode="lines",
        name=label(curve.label),
        showlegend=is_named,
        line={"color": colour(index), "dash": dash(index), "shape": "hv"},
        customdata=[_words(step) for step in (*curve.steps, curve.steps[-1])],
        hovertemplate=f"{label(curve.label)}<br>%{{customdata}}<extra></extra>",
    )


def _words(step: FleetStep) -> str:
    lines = [
        f"{step.replicas} replicas, {step.num_devices} devices",
        f"up to {step.up_to_rate_per_s:.3g} requests/s",
    ]
    if step.cost_usd_per_hour is not None:
        lines.append(f"{step.cost_usd_per_hour:,.4g} USD an hour")
    if step.power_w is not None:
        lines.append(f"{step.power_w:,.4g} W at full load")
    return "<br>".join(lines)
