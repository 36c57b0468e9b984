"""Predicted against measured, with the noise of measuring beside every error."""

import plotly.graph_objects as go

from simcore.report.style import (
    GREY,
    colour,
    error_bars,
    label,
    log_axis,
    marker,
    new_figure,
)
from simcore.truth import Study

METRICS = {  # name of a figure -> label
    "ttft_p50_s": "TTFT p50",
    "ttft_p95_s": "TTFT p95",
    "tpot_p50_s": "TPOT p50",
    "tpot_p95_s": "TPOT p95",
    "e2e_p50_s": "E2E p50",
    "e2e_p95_s": "E2E p95",
}


def truth_figure(study: Study) -> go.Figure:
    """Latencies predicted before the run against those measured; on the line they agree.

    A bar spans the measurements of a cell that ran twice.
    """
    figure = new_figure(
        "Latency: predicted before the run against measured",
        "measured (ms, log)",
        "predicted (ms, log)",
    )
    seen: list[float] = []
    for index, (metric, name) in enumerate(METRICS.items()):
        points = [
            (cell.name, each)
            for cell in study.cells
            for each in cell.figures
            if each.metric == metric
        ]
        measured = [1000.0 * each.mean for _, each in points]
        predicted = [1000.0 * each.predicted for _, each in points]
        seen += measured + predicted
        figure.add_scatter(
            x=measured,
            y=predicted,
            mode="markers",
            name=name,
            marker={"color": colour(index), "symbol": marker(index), "size": 9},
            error_x=error_bars(
                measured,
                [1000.0 * min(each.measured) for _, each in points],
                [1000.0 * max(each.measured) for _, each in points],
            ),
            customdata=[(label(cell), each.error) for cell, each in points],
            hovertemplate=f"%{{customdata[0]}}<br>{name}: predicted %{{y:.4g}} ms, measured "
            "%{x:.4g} ms (%{customdata[1]:+.1%})<extra></extra>",
        )
    ends = [min(seen), max(seen)]
    figure.add_scatter(
        x=ends,
        y=ends,
        mode="lines",
        name="predicted = measured",
        line={"color": GREY, "dash": "dash", "width": 1.5},
        hoverinfo="skip",
    )
    figure.update_xaxes(**log_axis(seen))
    figure.update_yaxes(**log_axis(seen))
    return figure
