"""Pictures of a comparison: how much better or worse than the first, with intervals."""

from typing import NamedTuple

import plotly.graph_objects as go

from simcore.planner.comparison import Comparison, Difference, RelativeChange
from simcore.report.style import GREY, colour, error_bars, label, marker, new_figure

SHOWN = (  # metrics of the picture from top to bottom, where they have a relative change
    "ttft.p95_s",
    "tpot.mean_s",
    "tpot.p95_s",
    "e2e.mean_s",
    "e2e.p95_s",
    "goodput_per_s",
    "request_rate_per_s",
    "output_rate_tokens_per_s",
    "consumption.energy_j_per_output_token",
    "consumption.cost_usd_per_million_output_tokens",
)
ROW_HEIGHT = 32  # pixels


def comparison_figure(found: Comparison) -> go.Figure:
    """Relative change of every headline against the first service, paired by seed.

    A mark is the mean over the seeds with its interval; open where nothing can be told apart.
    """
    first, *others = found.services
    percent = round(100 * found.confidence)
    figure = new_figure(
        f"Against {label(first.label)}: change with its {percent} % interval", "change (%)", ""
    )
    for index, service in enumerate(others):
        rows = _shown(service.differences)
        low, mean, high = (
            [100.0 * getattr(row.change, end) for row in rows] for end in ("low", "mean", "high")
        )
        figure.add_scatter(
            x=mean,
            y=[row.name for row in rows],
            mode="markers",
            orientation="h",
            offsetgroup=str(index),  # beside one another: equal marks would hide each other
            name=label(service.label),
            marker={
                "color": colour(index),
                "size": 10,
                "symbol": [marker(index) + ("" if row.is_clear else "-open") for row in rows],
            },
            error_x=error_bars(mean, low, high),
            hovertemplate=f"{label(service.label)}<br>%{{y}} %{{x:+.2f}} %<extra></extra>",
        )
    figure.add_vline(x=0.0, line={"color": GREY, "dash": "dash", "width": 1.5})
    figure.update_yaxes(autorange="reversed")
    return figure.update_layout(
        height=240 + ROW_HEIGHT * len(SHOWN), scattermode="group", scattergap=0.5
    )


class _Row(NamedTuple):
    name: str
    change: RelativeChange
    is_clear: bool


def _shown(differences: tuple[Difference, ...]) -> list[_Row]:
    """Those with an interval, in the order of SHOWN."""
    by_metric = {each.metric: each for each in differences}
    return [
        _Row(each.name, each.relative, each.verdict in ("lower", "higher"))
        for each in (by_metric[metric] for metric in SHOWN if metric in by_metric)
        if each.relative is not None and each.relative.low is not None
    ]
