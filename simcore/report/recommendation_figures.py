"""Pictures of a recommendation: the Pareto front, regret by load, and draft length by batch."""

import plotly.graph_objects as go

from simcore.planner.document import Plan
from simcore.planner.recommendation import Recommendation, Way
from simcore.report.recommendation_view import standing, ways_near_off
from simcore.report.style import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    SKY,
    VERMILLION,
    colour,
    error_bars,
    label,
    log_axis,
    new_figure,
)

KINDS = {  # kind -> colour, marker, words
    "off": (GREY, "x", "off"),
    "fixed": (BLUE, "circle", "fixed draft length"),
    "batch_size_table": (ORANGE, "diamond", "batch-size table"),
    "tree": (PURPLE, "triangle-up", "tree"),
    "goodput": (GREEN, "square", "goodput"),
}
OTHER = (SKY, "star", "other policy")


def pareto_figure(plan: Plan) -> go.Figure:
    """Latency against busy device time, a point a way; the front joined, the shipped one ringed.

    Raises ValueError for a plan that recommends nothing.
    """
    found = _recommendation(plan)
    latency = next(each for each in found.objectives if each.name == "latency")
    figure = new_figure(
        "Latency against device time at the planned load",
        "busy device time (s per million output tokens, log)",
        f"{latency.label} (s, log)",
    )
    front = sorted(
        (way for way in found.ways if way.is_eligible and way.dominated_by is None),
        key=lambda way: way.objectives["device_time"].mean,
    )
    figure.add_scatter(
        x=[_x(way) for way in front],
        y=[_y(way) for way in front],
        mode="lines",
        name="not dominated",
        line={"color": GREY, "dash": "dot", "width": 1.5},
        hoverinfo="skip",
    )
    shown = ways_near_off(found)
    for kind in dict.fromkeys(way.kind for way in shown):
        figure.add_trace(_kind_trace(found, [way for way in shown if way.kind == kind]))
    shipped = found.shipped
    figure.add_scatter(
        x=[_x(shipped)],
        y=[_y(shipped)],
        mode="markers",
        name=f"shipped: {label(shipped.label)}",
        marker={
            "symbol": "circle-open",
            "size": 20,
            "color": VERMILLION,
            "line": {"width": 3},
        },
        hoverinfo="skip",
    )
    figure.update_layout(height=520)  # room for the many kinds on paper
    figure.update_xaxes(**log_axis([_x(way) for way in shown]))
    figure.update_yaxes(**log_axis([_y(way) for way in shown]))
    return figure


def regret_figure(plan: Plan) -> go.Figure:
    """Regret with interval of what could be shipped, a bar a load."""
    contenders = _drawn(_recommendation(plan))
    figure = new_figure(
        "Regret against the fastest of all, by load",
        "way to serve",
        "mean E2E above the fastest (%)",
    )
    names = [_wrapped(way.label) for way in contenders]
    for index, load in enumerate(("light", "planned", "heavy")):
        results = [next(each for each in way.loads if each.load == load) for way in contenders]
        values = [100 * each.regret for each in results]
        figure.add_bar(
            x=names,
            y=values,
            name=f"{load} load",
            marker={"color": colour(index), "pattern": {"shape": ("", "/", ".")[index]}},
            error_y=error_bars(
                values,
                [100 * each.regret_interval[0] for each in results],
                [100 * each.regret_interval[1] for each in results],
            )
            | {"color": GREY},
            hovertemplate=f"%{{x}}<br>{load} load: %{{y:.1f}} %<extra></extra>",
        )
    figure.update_layout(barmode="group")
    figure.update_xaxes(type="category", title={"text": ""})
    return figure


def has_regret(plan: Plan) -> bool:
    """Whether the plan holds anything that `regret_figure` draws."""
    return plan.recommendation is not None and bool(_drawn(plan.recommendation))


def _drawn(found: Recommendation) -> list[Way]:
    """Contenders on the front; what is dominated, and off, would stretch the axis."""
    return [way for way in found.ways if way.loads and way.kind != "off" and not way.dominated_by]


def _kind_trace(found: Recommendation, ways: list[Way]) -> go.Scatter:
    fill, symbol, words = KINDS.get(ways[0].kind, OTHER)
    return go.Scatter(
        x=[_x(way) for way in ways],
        y=[_y(way) for way in ways],
        mode="markers",
        name=words,
        marker={
            "size": 10,
            "color": fill,
            "symbol": [
                symbol + ("-open" if way.dominated_by or not way.is_eligible else "")
                for way in ways
            ],
            "line": {"width": 2},
        },
        customdata=[
            (
                label(way.label),
                label(standing(way, found)),
                way.objectives["goodput"].mean,
                way.objectives["mean_e2e"].mean,
            )
            for way in ways
        ],
        hovertemplate="%{customdata[0]}<br>%{y:.4g} s, %{x:,.4g} device-s per million tokens<br>"
        "goodput %{customdata[2]:.3g} requests/s, mean E2E %{customdata[3]:.3g} s<br>"
        "%{customdata[1]}<extra></extra>",
    )


def _recommendation(plan: Plan) -> Recommendation:
    if plan.recommendation is None:
        raise ValueError("the plan compared fixed draft lengths only; it has no recommendation")
    return plan.recommendation


def _wrapped(text: str) -> str:
    """A label in lines of one part each."""
    return label(text).replace(", ", ",<br>")


def _x(way: Way) -> float:
    return max(way.objectives["device_time"].mean, 1e-9)


def _y(way: Way) -> float:
    return max(way.objectives["latency"].mean, 1e-9)
