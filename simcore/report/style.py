"""One look for every picture: one palette, one template, labels that cannot smuggle markup.

Paper and plot are transparent, so that a figure reads on a light page and on a dark one. The
palette is Okabe and Ito's with orange and sky blue darkened: every colour keeps 3 : 1 to both pages
(WCAG 1.4.11), and any two differ under every kind of colour vision. Colour is never the only
difference all the same: markers, dashes and hatching repeat it.
"""

import html
import math
from collections.abc import Sequence

import plotly.graph_objects as go

from simcore.report.plain import one_line

LIGHT_PAGE, DARK_PAGE = "#FFFFFF", "#0E1117"
BLUE, ORANGE, GREEN, VERMILLION = "#0072B2", "#A55200", "#009E73", "#D55E00"
SKY, PURPLE, GREY = "#3395FF", "#CC79A7", "#808080"
SERIES_COLOURS = (BLUE, ORANGE, GREEN, PURPLE, SKY, VERMILLION)
MARKERS = ("circle", "square", "diamond", "triangle-up", "cross", "star-triangle-down")
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")

THOUSAND = 1000.0
LEAST_TICKS = 2  # one alone tells no scale
WIDE_DECADES = 3.0  # from here on, ticks at 1 only
TEXT_COLOUR = "#757A82"  # no grey keeps more to both pages; TEXT_CSS puts the page's own in place
GRID_COLOUR = "rgba(128,128,128,0.25)"
TEXT_CSS = """
.js-plotly-plot :is([class*="title"], [class*="tick"], .cbaxis) text,
.js-plotly-plot text:is([class*="title"], .legendtext, .annotation-text),
.js-plotly-plot .bartext-outside { fill: currentColor !important; }
"""  # for pages that follow the reader's light or dark


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
    line = html.escape(one_line(text), quote=False)
    return line.replace("%", "&#37;")  # %{...} would be filled in from the figure's data


AXIS = {
    "gridcolor": GRID_COLOUR,
    "zeroline": False,
    "linecolor": GREY,
    "showline": True,
    "ticks": "outside",
    "tickcolor": GREY,
    "automargin": True,
}


def new_figure(title: str, x_title: str, y_title: str) -> go.Figure:
    """An empty figure in the common look; titles carry their units.

    Made whole at once: Plotly checks every later change again, at ten times the cost.
    """
    axes = {
        "xaxis": AXIS | {"title": {"text": x_title}},
        "yaxis": AXIS | {"title": {"text": y_title}},
    }
    return go.Figure(layout=_look(title) | axes)


def styled(figure: go.Figure, title: str) -> go.Figure:
    """Put the common look on `figure`, whatever subplots it has."""
    figure.update_layout(**_look(title))
    figure.update_xaxes(**AXIS)
    figure.update_yaxes(**AXIS)
    return figure


def _look(title: str) -> dict[str, object]:
    return {
        "template": "none",
        "title": {
            "text": title,
            "font": {"size": 16},
            "x": 0,
            "xref": "paper",
            "yref": "container",
        },
        "font": {"family": "system-ui, sans-serif", "size": 14, "color": TEXT_COLOUR},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "colorway": list(SERIES_COLOURS),
        "hovermode": "closest",
        # At the lower edge: it takes its room there, whatever the axis title above it needs.
        "legend": {"orientation": "h", "yref": "container", "yanchor": "bottom", "y": 0, "x": 0},
        "modebar": {"bgcolor": "rgba(0,0,0,0)", "color": GREY},
        "margin": {"l": 64, "r": 24, "t": 64, "b": 64},
        "height": 440,
    }


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


def error_bars(
    values: Sequence[float], lower: Sequence[float], upper: Sequence[float]
) -> dict[str, object]:
    """Bars of an interval around each value."""
    return {
        "type": "data",
        "array": [high - value for value, high in zip(values, upper, strict=True)],
        "arrayminus": [value - low for value, low in zip(values, lower, strict=True)],
        "thickness": 1.5,
        "width": 5,
    }


def log_axis(values: Sequence[float]) -> dict[str, object]:
    """Settings of a log axis over `values` (above 0), with ticks at 1, 2 and 5 of each decade."""
    low, high = math.log10(min(values)), math.log10(max(values))
    margin = max(0.04 * (high - low), 0.02)
    low, high = low - margin, high + margin
    ticks = [
        digit * 10.0**decade
        for decade in range(math.floor(low), math.ceil(high) + 1)
        for digit in ((1, 2, 5) if high - low < WIDE_DECADES else (1,))
        if low <= math.log10(digit * 10.0**decade) <= high
    ]
    if len(ticks) < LEAST_TICKS:
        ticks = _even_ticks(10.0**low, 10.0**high)
    return {
        "type": "log",
        "range": [low, high],
        "tickvals": ticks,
        "ticktext": [_short(tick) for tick in ticks],
        "tickangle": 0,
    }


def _even_ticks(low: float, high: float) -> list[float]:
    """Two or more round numbers between two that are so near that they hold no 1, 2 and 5."""
    step = 10.0 ** math.ceil(math.log10(high - low))
    for part in (1.0, 0.5, 0.2, 0.1, 0.05, 0.02):
        first, last = math.ceil(low / (step * part)), math.floor(high / (step * part))
        if last - first + 1 >= LEAST_TICKS:
            return [round(count * step * part, 12) for count in range(first, last + 1)]
    return [low, high]


def _short(tick: float) -> str:
    """Narrow enough to stand level beside its neighbours."""
    if tick >= THOUSAND:
        return f"{tick / THOUSAND:g}k" if tick < THOUSAND**2 else f"{tick / THOUSAND**2:g}M"
    return f"{tick:g}" if tick >= 1 and tick == int(tick) else f"{tick:.3g}"


def parity_line(figure: go.Figure, **where: int) -> None:
    """The line at speed-up 1: above it speculation pays."""
    figure.add_hline(y=1.0, line={"color": GREY, "dash": "dash", "width": 1.5}, **where)
