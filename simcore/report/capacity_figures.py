"""Pictures of a capacity: the share within the SLO against load, and replicas through a day."""

import plotly.graph_objects as go

from simcore.planner.capacity_document import Capacity, Fleet, ReplicaPlan, ServiceCapacity
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

SHADE = 0.15  # opacity of an interval
KEEPS_UP = "keeps_up"


def capacity_figure(found: Capacity) -> go.Figure:
    """Share of the requests within the SLO against load, the capacities marked, off and on.

    Of several requirements the one that misses first is drawn; intervals are shaded.
    """
    unit = "users" if found.off.max_users is not None else "requests/s"
    figure = new_figure(
        "Requests within the SLO against load", f"load ({unit})", "share of the requests (%)"
    )
    services = [found.off] if found.off == found.on else [found.off, found.on]
    for index, service in enumerate(services):
        figure.add_trace(_curve(service, index, unit))
        _mark(figure, service, index, unit)
    for name, share in found.required_shares.items():
        figure.add_hline(
            y=100 * share,
            line={"color": GREY, "dash": "dot", "width": 1.5},
            annotation_text=f"asked for: {100 * share:g} %"
            if len(set(found.required_shares.values())) == 1
            else f"{name}: {100 * share:g} %",
        )
    figure.update_yaxes(range=[0, 102])
    return figure


def _curve(service: ServiceCapacity, index: int, unit: str) -> go.Scatter:
    name = _drawn(service)
    loads = [each.load for each in service.tested]
    shares = [each.attained[name] for each in service.tested]
    middle = [100 * (each.mean or 0.0) for each in shares]
    low = [100 * (each.low if each.low is not None else each.mean or 0.0) for each in shares]
    high = [100 * (each.high if each.high is not None else each.mean or 0.0) for each in shares]
    return go.Scatter(
        x=loads,
        y=middle,
        mode="lines+markers",
        name=f"{label(service.label)}: {name.removesuffix('_s').replace('_', ' ')}",
        line={"color": colour(index), "dash": dash(index)},
        marker={"size": 8, "symbol": marker(index)},
        error_y=error_bars(middle, low, high),
        customdata=[each.verdict for each in service.tested],
        hovertemplate=f"{label(service.label)}<br>%{{x:.4g}} {unit}: %{{y:.1f}} %, "
        "%{customdata}<extra></extra>",
    )


def _drawn(service: ServiceCapacity) -> str:
    """The requirement that binds; a share, never the saturation."""
    names = [name for name in service.tested[0].attained if name != KEEPS_UP]
    return service.bound_by if service.bound_by in names else names[-1]


def _mark(figure: go.Figure, service: ServiceCapacity, index: int, unit: str) -> None:
    load = float(
        service.max_users if service.max_users is not None else service.max_rate_per_s or 0
    )
    text = f"{label(service.label)}: {load:.4g} {unit}"
    figure.add_trace(vertical_line(load, (0.0, 100.0), text, colour(index), dash(index), text))
    low, high = service.users_interval or service.interval or (load, load)
    figure.add_vrect(x0=low, x1=high, fillcolor=colour(index), opacity=SHADE, line_width=0)


def daily_figure(found: ReplicaPlan) -> go.Figure:
    """Replicas of each hour, off and on, under the day's load on an axis of its own."""
    name = "one rate" if found.curve is None else found.curve.name
    figure = new_figure(f"Replicas through the day: {label(name)}", "hour of the day", "replicas")
    fleets = [found.off] if found.off == found.on else [found.off, found.on]
    for index, fleet in enumerate(each for each in fleets if each.hours):
        figure.add_trace(_steps(fleet, index))
    if found.curve is not None:
        figure.add_scatter(
            x=list(range(len(found.curve.rates_per_s))),
            y=list(found.curve.rates_per_s),
            mode="lines",
            name="load (requests/s)",
            yaxis="y2",
            line={"color": GREY, "dash": "dot", "shape": "hvh"},
            hovertemplate="%{x}:00<br>%{y:.4g} requests/s<extra></extra>",
        )
    figure.update_layout(
        yaxis2={
            "title": {"text": "load (requests/s)"},
            "overlaying": "y",
            "side": "right",
            "rangemode": "tozero",
            "showgrid": False,
        }
    )
    figure.update_yaxes(rangemode="tozero")
    figure.update_xaxes(dtick=3)
    return figure


def _steps(fleet: Fleet, index: int) -> go.Scatter:
    return go.Scatter(
        x=[each.hour for each in fleet.hours],
        y=[each.replicas for each in fleet.hours],
        mode="lines+markers",
        name=f"{label(fleet.label)}: {fleet.scaled_device_hours:.0f} device-hours scaled, "
        f"{fleet.static_device_hours:.0f} static",
        line={"color": colour(index), "dash": dash(index), "shape": "hvh"},
        marker={"size": 7, "symbol": marker(index)},
        hovertemplate=f"{label(fleet.label)}<br>%{{x}}:00, %{{y}} replicas<extra></extra>",
    )
