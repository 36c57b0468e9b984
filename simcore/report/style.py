"""One look for every picture: Okabe-Ito colours, one template, labels that cannot smuggle markup.

Paper and plot are transparent and text is a middle grey, so that a figure reads on a light page
and on a dark one; colour is never the only difference (markers, dashes and hatching repeat it).
"""

import html
from collections.abc import Sequence

import plotly.graph_objects as go

BLUE, ORANGE, GREEN, VERMILLION = "#0072B2", "#E69F00", "#009E73", "#D55E00"
SKY, PURPLE, GREY = "#56B4E9", "#CC79A7", "#808080"
SERIES_COLOURS = (BLUE, ORANGE, GREEN, PURPLE, SKY, VERMILLION)
MARKERS = ("circle", "square", "diamond", "triangle-up", "cross", "star-triangle-down")
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")

TEXT_COLOUR = "#7A7F87"  # 4 : 1 and better on white and on #0E1117
GRID_COLOUR = "rgba(128,128,128,0.25)"


def colour(index: int) -> str:
    """The colour of series `index`; repeats after six."""
    return SERIES_COLOURS[index % len(SERIES_COLOURS)]


def marker(index: int) -> str:
    """The marker of series `index`."""
    return MARKERS[index % len(MARKERS)]


def dash(index: int) -> str:
    """The dash of series `index`."""
    return DASHES[index % len(DASHES)]


def label(text: object) -> str:
    """Text for a title, a legend or a hover box: Plotly reads a subset of HTML in them."""
    return html.escape(" ".join(str(text).split()), quote=False)


def new_figure(title: str, x_title: str, y_title: str) -> go.Figure:
    """An empty figure in the common look; titles carry their units."""
    return styled(
        go.Figure(
            layout={"xaxis": {"title": {"text": x_title}}, "yaxis": {"title": {"text": y_title}}}
        ),
        title,
    )


def styled(figure: go.Figure, title: str) -> go.Figure:
    """Put the common look on `figure`, whatever subplots it has."""
    axis = {
        "gridcolor": GRID_COLOUR,
        "zeroline": False,
        "linecolor": GREY,
        "showline": True,
        "ticks": "outside",
        "tickcolor": GREY,
        "automargin": True,
    }
    figure.update_layout(
        template="none",
        title={"text": title, "font": {"size": 16}, "x": 0, "xref": "paper", "yref": "container"},
        font={"family": "system-ui, sans-serif", "size": 14, "color": TEXT_COLOUR},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        colorway=list(SERIES_COLOURS),
        hovermode="closest",
        legend={"orientation": "h", "yanchor": "top", "y": -0.2, "x": 0},
        margin={"l": 64, "r": 24, "t": 64, "b": 96},
        height=440,
    )
    figure.update_xaxes(**axis)
    figure.update_yaxes(**axis)
    return figure


def vertical_line(
    x: float, span: Sequence[float], name: str, line_colour: str, line_dash: str, hover: str
) -> go.Scatter:
    """A vertical mark as a trace: it stands in the legend and is right on a log axis too."""
    return go.Scatter(
        x=[x, x],
        y=[span[0], span[1]],
        mode="lines",
        name=name,
        line={"color": line_colour, "dash": line_dash, "width": 2},
        hovertemplate=f"{hover}<extra></extra>",
    )


def parity_line(figure: go.Figure, **where: int) -> None:
    """The line at speed-up 1: above it speculation pays."""
    figure.add_hline(y=1.0, line={"color": GREY, "dash": "dash", "width": 1.5}, **where)
