"""A service against its load: time a token and goodput, off beside the ways to speculate."""

from collections.abc import Sequence

import plotly.graph_objects as go

from simcore.planner.rate_curves import RateCurves, SimulatedPoint
from simcore.report.style import (
    GREY,
    colour,
    dash,
    error_bars,
    label,
    marker,
    new_figure,
    vertical_line,
)


def tpot_rate_figure(
    curves: RateCurves, points: Sequence[SimulatedPoint] = (), now_per_s: float | None = None
) -> go.Figure:
    """Mean TPOT against the offered rate: lines in closed form, marks simulated with intervals.

    A line ends where the way can carry no more; where speculation stops paying is marked, and so
    is the rate of today.
    """
    figure = new_figure(
        "Time per output token against load", "offered load (requests/s)", "mean TPOT (ms)"
    )
    seen: list[float] = []
    for index, curve in enumerate(curves.curves):
        shown = [
            (rate, 1000.0 * each.tpot_s)
            for rate, each in zip(curves.rates_per_s, curve.points, strict=True)
            if each.is_stable
        ]
        seen += [tpot for _, tpot in shown]
        figure.add_scatter(
            x=[rate for rate, _ in shown],
            y=[tpot for _, tpot in shown],
            mode="lines",
            name=label(curve.label),
            line={"color": colour(index), "dash": dash(index)},
            hovertemplate=f"{label(curve.label)}<br>%{{x:.3g}} requests/s: %{{y:.3g}} ms a token"
            "<extra></extra>",
        )
        _add_simulated(figure, points, curve.label, index, "tpot.mean_s", 1000.0)
    _add_marks(figure, curves, (0.0, max(seen, default=1.0)), now_per_s)
    figure.update_yaxes(rangemode="tozero")
    return figure


def goodput_rate_figure(curves: RateCurves, points: Sequence[SimulatedPoint]) -> go.Figure:
    """Share of requests within the SLO against the offered rate, simulated, with intervals."""
    figure = new_figure(
        "Requests within the objective against load",
        "offered load (requests/s)",
        "share within the SLO (%)",
    )
    for index, curve in enumerate(curves.curves):
        _add_simulated(figure, points, curve.label, index, "goodput_fraction", 100.0, lines=True)
    figure.update_yaxes(range=[0, 102])
    return figure


def _add_simulated(
    figure: go.Figure,
    points: Sequence[SimulatedPoint],
    name: str,
    index: int,
    metric: str,
    scale: float,
    *,
    lines: bool = False,
) -> None:
    own = [each for each in points if each.label == name and each.metrics[metric].mean is not None]
    if not own:
        return
    found = [each.metrics[metric] for each in own]
    mean = [scale * (each.mean or 0.0) for each in found]
    low = [scale * (each.mean if each.low is None else each.low) for each in found]  # type: ignore[operator]  # filtered above
    high = [scale * (each.mean if each.high is None else each.high) for each in found]  # type: ignore[operator]  # as above
    figure.add_scatter(
        x=[each.rate_per_s for each in own],
        y=mean,
        mode="lines+markers" if lines else "markers",
        name=label(name),
        showlegend=lines,  # marks beside a line of the same colour need no second entry
        line={"color": colour(index), "dash": dash(index)},
        marker={"color": colour(index), "symbol": marker(index), "size": 9},
        error_y=error_bars(mean, low, high),
        hovertemplate=f"{label(name)}, simulated<br>%{{x:.3g}} requests/s: %{{y:.4g}}"
        "<extra></extra>",
    )


def _add_marks(
    figure: go.Figure, curves: RateCurves, span: tuple[float, float], now_per_s: float | None
) -> None:
    for index, curve in enumerate(curves.curves[1:], start=1):
        rate = curves.crossing_rate_per_s(index)
        if rate is not None:
            text = f"{label(curve.label)} stops paying at {rate:.3g} requests/s"
            figure.add_trace(vertical_line(rate, span, text, colour(index), "dot", text))
    if now_per_s is not None:
        text = f"load in force, {now_per_s:.3g} requests/s"
        figure.add_trace(vertical_line(now_per_s, span, text, GREY, "dash", text))
