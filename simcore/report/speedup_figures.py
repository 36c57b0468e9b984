"""Pictures of where speculation pays: batch × drafts, and the tokens that a cycle must emit."""

import math
from collections.abc import Sequence

import plotly.graph_objects as go

from simcore.planner.speedup import CycleSurvival, SpeedupPoint
from simcore.planner.speedup_map import SpeedupMap
from simcore.report.map_marks import Strokes, border, hatch
from simcore.report.style import (
    BLUE,
    GREY,
    TEXT_COLOUR,
    VERMILLION,
    colour,
    dash,
    label,
    marker,
    new_figure,
)

# Diverging about S = 1, told apart by every kind of colour vision: vermillion slower, blue faster.
DIVERGING = ((0.0, VERMILLION), (0.5, "#F4F4F4"), (1.0, BLUE))
LEAST_REACH = 0.5  # the scale reaches at least from 1/√2 to √2 times
SCALE_TICKS = (0.125, 0.25, 0.5, 0.7, 1.0, 1.4, 2.0, 4.0, 8.0)
LIGHT, DARK, DARKEST = "#FFFFFF", "#222222", 0.85  # 4 : 1 on every colour of the scale
HEIGHT_PX = 480  # the legend takes its share
MAX_LINES = 6  # as many as a picture has colours for


def speedup_map_figure(found: SpeedupMap) -> go.Figure:
    """S by batch and draft, the colour centred at 1; the measured domain is outlined.

    Cells outside it are hatched: their time is extrapolated. An empty cell was not measured.
    """
    figure = new_figure(
        f"Speed-up S, {label(found.proposer)}, context {found.context_tokens:,} tokens",
        "draft length γ",
        "batch (requests)",
    )
    rows, columns = range(len(found.batch_sizes)), range(len(found.survivals))
    logs = [[_log(point) for point in row] for row in found.points]
    reach = max([LEAST_REACH, *(abs(v) for row in logs for v in row if v is not None)])
    ticks = [tick for tick in SCALE_TICKS if abs(math.log2(tick)) <= reach]
    figure.add_heatmap(
        x=list(columns),
        y=list(rows),
        z=logs,
        zmin=-reach,
        zmax=reach,
        colorscale=[list(stop) for stop in DIVERGING],
        customdata=[[_hover(p) for p in row] for row in found.points],
        hovertemplate="%{customdata}<extra></extra>",
        hoverongaps=False,
        xgap=2,
        ygap=2,
        colorbar={
            "title": {"text": "S"},
            "tickvals": [math.log2(tick) for tick in ticks],
            "ticktext": [f"{tick:g}" for tick in ticks],
            "outlinewidth": 0,
        },
        name="S",
    )
    _write_numbers(figure, found, reach)
    _outline(figure, found)
    names = draft_names(found.survivals)
    figure.update_xaxes(tickvals=list(columns), ticktext=names, tickangle=0, range=_range(columns))
    batches = [f"{batch:,}" for batch in found.batch_sizes]
    figure.update_yaxes(tickvals=list(rows), ticktext=batches, range=_range(rows))
    figure.update_xaxes(showgrid=False, showline=False)
    figure.update_yaxes(showgrid=False, showline=False)
    return figure.update_layout(height=HEIGHT_PX)


def break_even_figure(found: SpeedupMap) -> go.Figure:
    """Tokens that a cycle must emit for S = 1, by draft and batch, beside those that it emits."""
    figure = new_figure(
        "Break-even: tokens that a cycle must emit to pay for itself",
        "draft length γ",
        "tokens a cycle",
    )
    names = draft_names(found.survivals)
    emitted = [each.mean_emitted_tokens for each in found.survivals]
    figure.add_scatter(
        x=names,
        y=emitted,
        mode="lines+markers",
        name="emitted, E[Y]",
        line={"color": GREY, "width": 4},
        marker={"size": 11},
        hovertemplate="γ = %{x}<br>emits %{y:.2f} tokens a cycle<extra></extra>",
    )
    for index, batch in enumerate(_some(found.batch_sizes)):
        cells = [(n, found.at(batch, i)) for i, n in enumerate(names)]
        some = [(name, point) for name, point in cells if point is not None]
        figure.add_scatter(
            x=[name for name, _ in some],
            y=[point.break_even_tokens for _, point in some],
            mode="lines+markers",
            name=f"needed at batch {batch:,}",
            line={"color": colour(index), "dash": dash(index)},
            marker={
                "size": 8,
                "symbol": [
                    marker(index) + ("-open" if point.is_extrapolated else "") for _, point in some
                ],
            },
            hovertemplate=f"batch {batch:,}, γ = %{{x}}<br>pays above %{{y:.2f}} tokens a cycle"
            "<extra></extra>",
        )
    return figure.update_xaxes(type="category", tickangle=0).update_layout(height=HEIGHT_PX)


def draft_names(survivals: Sequence[CycleSurvival]) -> list[str]:
    """What an axis says of chains, by length, and of trees."""
    return [
        str(each.gamma)
        if each.num_draft_tokens is None
        else f"tree<br>{each.num_draft_tokens} nodes<br>{each.gamma} deep"
        for each in survivals
    ]


def _write_numbers(figure: go.Figure, found: SpeedupMap, reach: float) -> None:
    """S in every cell, light on the darkest and dark on all others."""
    cells = [
        (column, row, point.speedup)
        for row, points in enumerate(found.points)
        for column, point in enumerate(points)
        if point is not None
    ]
    figure.add_scatter(
        x=[column for column, _, _ in cells],
        y=[row for _, row, _ in cells],
        mode="text",
        text=[f"{speedup:.2f}" for _, _, speedup in cells],
        textfont={
            "color": [
                LIGHT if abs(math.log2(speedup)) > DARKEST * reach else DARK
                for _, _, speedup in cells
            ]
        },
        hoverinfo="skip",
        showlegend=False,
        name="speed-up",
    )


def _outline(figure: go.Figure, found: SpeedupMap) -> None:
    """The border of the measured domain, and strokes across every cell beyond it."""
    inside = [[p is not None and not p.is_extrapolated for p in row] for row in found.points]
    outside = [
        (row, column)
        for row, points in enumerate(found.points)
        for column, point in enumerate(points)
        if point is not None and point.is_extrapolated
    ]
    if any(map(any, inside)):
        _lines(figure, border(inside), "measured domain", 3.0, TEXT_COLOUR)
    if outside:
        _lines(figure, hatch(outside), "hatched: extrapolated", 1.2, GREY)


def _lines(figure: go.Figure, strokes: Strokes, name: str, width: float, colour: str) -> None:
    x, y = strokes
    line = {"color": colour, "width": width}
    figure.add_scatter(x=x, y=y, mode="lines", name=name, line=line, hoverinfo="skip")


def _log(point: SpeedupPoint | None) -> float | None:
    return None if point is None else math.log2(point.speedup)


def _hover(point: SpeedupPoint | None) -> str:
    if point is None:
        return ""
    where = "extrapolated" if point.is_extrapolated else "inside the measured domain"
    return (
        f"batch {point.batch_size:,}<br>S = {point.speedup:.3f}<br>emits "
        f"{point.mean_emitted_tokens:.2f}, pays above {point.break_even_tokens:.2f} tokens a cycle"
        f"<br>{where}"
    )


def _range(cells: range) -> list[float]:
    return [-0.58, len(cells) - 0.42]


def _some(batch_sizes: tuple[int, ...]) -> tuple[int, ...]:
    return batch_sizes[:: -(-len(batch_sizes) // MAX_LINES)]
