"""Pictures of a profile's cost: samples beside the fitted law, residuals, the measured box."""

import pandas as pd
import plotly.graph_objects as go

from simcore.report.style import (
    GREY,
    SERIES_COLOURS,
    colour,
    label,
    log_axis,
    marker,
    new_figure,
)

NUM_CONTEXTS = len(SERIES_COLOURS)  # as many as a picture has colours for
WITHIN = 0.1  # residuals of 10 % are marked


def cost_samples_figure(fitted: pd.DataFrame) -> go.Figure:
    """Every timed target pass against what the law says of it, by context (`cost.fitted`).

    A mark is the median of one shape with its p10 and p90; on the line law and sample agree.
    """
    rows = _positive(fitted[fitted["phase"] == "target"])
    figure = new_figure(
        "Target passes: what was timed against what the law says",
        "measured time of the pass (ms)",
        "time by the law (ms)",
    )
    for index, (context, some) in enumerate(_contexts(rows)):
        figure.add_scatter(
            x=1000 * some["median_s"],
            y=1000 * some["fitted_s"],
            mode="markers",
            name=f"context {context}",
            marker={"color": colour(index), "symbol": marker(index), "size": 8},
            error_x=_spread(some),
            customdata=some[["batch_size", "num_query_tokens", "residual_rel"]],
            hovertemplate="batch %{customdata[0]:,} × %{customdata[1]:,} tokens<br>"
            "measured %{x:.3f} ms<br>law %{y:.3f} ms (%{customdata[2]:+.1%})<extra></extra>",
        )
    if len(rows):
        ends = [1000 * rows["median_s"].min(), 1000 * rows["median_s"].max()]
        figure.add_scatter(
            x=ends,
            y=ends,
            mode="lines",
            name="law = measured",
            line={"color": GREY, "dash": "dash", "width": 1.5},
            hoverinfo="skip",
        )
        figure.update_xaxes(**log_axis(list(1000 * rows["median_s"])))
        figure.update_yaxes(**log_axis([*ends, *(1000 * rows["fitted_s"])]))
    return figure


def cost_residuals_figure(fitted: pd.DataFrame) -> go.Figure:
    """Law / measured − 1 of every sample by phase, against the step's tokens."""
    rows = _positive(fitted[fitted["phase"] != "overhead"].dropna(subset=["fitted_s"]))
    figure = new_figure(
        "What the law says too much (+) or too little (−)",
        "query tokens of the step",
        "law / measured − 1 (%)",
    )
    names = rows["phase"] + rows["proposer"].map(
        lambda each: f", {each}" if isinstance(each, str) else ""
    )
    for index, (name, group) in enumerate(rows.groupby(names)):
        figure.add_scatter(
            x=group["step_tokens"],
            y=100 * group["residual_rel"],
            mode="markers",
            name=label(name),
            marker={"color": colour(index), "symbol": marker(index), "size": 8, "opacity": 0.8},
            customdata=group[["batch_size", "context_tokens", "num_speculative_tokens"]],
            hovertemplate="batch %{customdata[0]:,}, context %{customdata[1]:,} tokens, "
            "γ = %{customdata[2]}<br>%{y:+.1f} %<extra></extra>",
        )
    figure.add_hrect(y0=-100 * WITHIN, y1=100 * WITHIN, fillcolor=GREY, opacity=0.15, line_width=0)
    if len(rows):
        figure.update_xaxes(**log_axis(list(rows["step_tokens"])))
    return figure


def measured_box_figure(fitted: pd.DataFrame) -> go.Figure:
    """Which batches and contexts were timed, and which of them with drafts."""
    rows = fitted[(fitted["phase"] == "target") & ~fitted["is_prefill"]]
    figure = new_figure(
        "Shapes that were timed", "batch (requests)", "context of a request (tokens)"
    )
    for index, (name, some) in enumerate(
        (
            ("one token a request", rows[rows["num_query_tokens"] == 1]),
            ("with drafts", rows[rows["num_query_tokens"] > 1]),
        )
    ):
        shapes = some.groupby(["batch_size", "context_tokens"], as_index=False).agg(
            most=("num_query_tokens", "max")
        )
        figure.add_scatter(
            x=shapes["batch_size"],
            y=shapes["context_tokens"],
            mode="markers",
            name=name,
            marker={
                "color": colour(index),
                "symbol": ("circle-open", "x")[index],
                "size": (14, 8)[index],
                "line": {"width": 2},
            },
            customdata=shapes["most"],
            hovertemplate="batch %{x:,}, context %{y:,} tokens<br>up to %{customdata} tokens a "
            "request in one pass<extra></extra>",
        )
    if len(rows):
        figure.update_xaxes(**log_axis(list(rows["batch_size"])))
        figure.update_yaxes(**log_axis(list(rows["context_tokens"].clip(lower=1))))
    return figure


def _positive(rows: pd.DataFrame) -> pd.DataFrame:
    """What a log axis can show."""
    return rows[(rows["step_tokens"] > 0) & (rows["median_s"] > 0.0)]


def _contexts(rows: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """Rows by context; where there are more contexts than colours, by bands of them."""
    contexts = rows["context_tokens"]
    if contexts.nunique() <= NUM_CONTEXTS:
        return [(f"{value:,} tokens", group) for value, group in rows.groupby("context_tokens")]
    bands = pd.qcut(contexts, NUM_CONTEXTS, duplicates="drop")
    return [
        (f"up to {band.right:,.0f} tokens", group)
        for band, group in rows.groupby(bands, observed=True)
    ]


def _spread(rows: pd.DataFrame) -> dict[str, object]:
    if not {"p10_s", "p90_s"} <= set(rows.columns):
        return {}
    return {
        "type": "data",
        "array": 1000 * (rows["p90_s"] - rows["median_s"]).clip(lower=0.0).fillna(0.0),
        "arrayminus": 1000 * (rows["median_s"] - rows["p10_s"]).clip(lower=0.0).fillna(0.0),
        "thickness": 1,
        "width": 3,
    }
