"""Pictures of what one acceptance rate hides: the order of rates, and the spread of requests."""

import numpy as np
import plotly.graph_objects as go

from simcore.acceptance.order import RateOrders
from simcore.acceptance.request_spread import FloatArray, RequestSpread
from simcore.report.style import BLUE, GREY, ORANGE, PURPLE, VERMILLION, new_figure

MAX_CDF_POINTS = 500


def rate_orders_figure(orders: RateOrders) -> go.Figure:
    """Survival under the same rates falling, as they are, rising, and under their mean."""
    figure = new_figure(
        f"The same rates in another order: {orders.falling.mean_emitted_tokens:.2f} or "
        f"{orders.rising.mean_emitted_tokens:.2f} tokens a cycle",
        "draft position k",
        "survival s_k (share of cycles)",
    )
    mean = tuple(orders.mean_rate**k for k in range(1, len(orders.given.rates) + 1))
    for name, survival, tokens, look in (
        ("falling", orders.falling.survival, orders.falling.mean_emitted_tokens, _line(BLUE)),
        ("rising", orders.rising.survival, orders.rising.mean_emitted_tokens, _line(ORANGE, 1)),
        ("as measured", orders.given.survival, orders.given.mean_emitted_tokens, _line(GREY, 2)),
        (
            f"every rate {orders.mean_rate:.2f}, the mean",
            mean,
            orders.iid_tokens,
            _line(PURPLE, 3),
        ),
    ):
        is_given_twice = name == "as measured" and orders.given in (orders.falling, orders.rising)
        if is_given_twice:
            continue
        figure.add_scatter(
            x=list(range(1, len(survival) + 1)),
            y=list(survival),
            mode="lines+markers",
            name=f"{name}: {tokens:.2f} tokens a cycle",
            hovertemplate=f"{name}<br>position %{{x}}<br>s_k %{{y:.3f}}<extra></extra>",
            **look,
        )
    figure.update_xaxes(dtick=1)
    figure.update_yaxes(range=[0, 1.02])
    return figure


def request_spread_figure(spread: RequestSpread) -> go.Figure:
    """Distribution of requests' mean tokens a cycle: as recorded, and under independent draws."""
    figure = new_figure(
        f"Requests differ: tokens a cycle of each request at γ = {spread.gamma}",
        "tokens a cycle of one request",
        "share of requests (%)",
    )
    for name, values, deviation, look in (
        ("as recorded", spread.recorded, spread.recorded_sd, _line(BLUE)),
        ("independent draws", spread.independent, spread.independent_sd, _line(VERMILLION, 1)),
    ):
        x, y = _cdf(values)
        figure.add_scatter(
            x=x,
            y=y,
            mode="lines",
            name=f"{name} (standard deviation {deviation:.2f})",
            line=look["line"] | {"shape": "hv"},
            hovertemplate=f"{name}<br>%{{y:.1f}} % of requests emit at most %{{x:.2f}} tokens "
            "a cycle<extra></extra>",
        )
    figure.update_yaxes(range=[0, 101])
    return figure


def _line(colour: str, index: int = 0) -> dict[str, dict[str, object]]:
    dash = ("solid", "dash", "dot", "dashdot")[index]
    symbol = ("circle", "square", "diamond", "x")[index]
    return {"line": {"color": colour, "dash": dash}, "marker": {"symbol": symbol, "size": 9}}


def _cdf(values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Ascending values and the percentage at or below each, thinned; both ends kept."""
    rank = np.unique(np.linspace(0, len(values) - 1, MAX_CDF_POINTS).astype(int))
    return values[rank], 100.0 * (rank + 1) / len(values)
