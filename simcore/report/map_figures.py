"""A crossover map as a heat map: colour centred at 1, hatched where nobody measured."""

from collections.abc import Iterator, Sequence

import numpy as np
import plotly.graph_objects as go

from simcore.planner.crossover import is_geometric
from simcore.planner.crossover_document import Axis, Cell, CrossoverMap
from simcore.report.map_marks import border, hatch
from simcore.report.style import GREY, TEXT_COLOUR, label, new_figure
from simcore.report.units import digits, seconds

# Vermillion to blue through near white: told apart with any kind of colour vision, and in grey
# by the numbers. Cells are opaque, so marks on them are dark with a light rim on every page.
SCALE = (
    (0.0, "#8A3B00"),
    (0.25, "#EDAE7C"),
    (0.5, "#F4F4F4"),
    (0.75, "#86BFE0"),
    (1.0, "#00466E"),
)
DARK, LIGHT, PLAIN = "#111111", "#FFFFFF", "#C9C9C9"
# Of the scale in log2: hardly any difference must not look like much, nor a few extremes hide all.
LEAST_SPAN, MOST_SPAN = 0.15, 2.0
MOST_NUMBERS = 24  # columns whose numbers still fit
MOST_LABELS = 10
WHOLE = 1000  # from here on without decimals
STATES = {
    "measured": "inside the measured cost domain",
    "extrapolated": "extrapolated",
    "unstable": "unstable",
    "refused": "no answer",
}
METRICS = {"e2e": "mean E2E", "tpot": "mean TPOT"}
GROWING = {"off": "off ∞", "on": "on ∞", "both": "∞"}


def crossover_figure(found: CrossoverMap) -> go.Figure:
    """Speed-up of every cell with its number, break-even, the measured domain, the scenario."""
    metric = METRICS[found.metric]
    figure = new_figure(
        f"Where speculation pays: {label(found.proposer)}",
        f"{found.x.name} ({found.x.unit})",
        f"{found.y.name} ({found.y.unit})",
    )
    figure.add_trace(_heat(found, metric))
    figure.add_trace(_unstable(found, metric))
    _refused(figure, found)
    _hatch(figure, found)
    _outline(figure, found)
    _break_even(figure, found)
    _own(figure, found)
    rows, columns = len(found.y.values), len(found.x.values)
    figure.update_xaxes(**_ticks(found.x), range=[-0.5, columns - 0.5], showgrid=False)
    figure.update_yaxes(**_ticks(found.y), range=[-0.5, rows - 0.5], showgrid=False)
    figure.update_layout(height=max(260 + 38 * rows, 440))
    return figure


def _cells(found: CrossoverMap) -> Iterator[tuple[int, int, Cell]]:
    for row, cells in enumerate(found.cells):
        for column, cell in enumerate(cells):
            yield row, column, cell


def _heat(found: CrossoverMap, metric: str) -> go.Heatmap:
    logs = [[_log2(cell.speedup) for cell in row] for row in found.cells]
    sizes = [abs(each) for row in logs for each in row if each is not None]
    size = min(max([LEAST_SPAN, *sizes]), MOST_SPAN)
    ticks = [tick for tick in _round_ratios(size) if abs(np.log2(tick)) <= size]
    fits = len(found.x.values) <= MOST_NUMBERS
    return go.Heatmap(
        z=logs,
        zmin=-size,
        zmax=size,
        colorscale=[list(stop) for stop in SCALE],
        colorbar={
            "title": {"text": f"speed-up<br>({metric}<br>off / on)"},
            "tickvals": [float(np.log2(tick)) for tick in ticks],
            "ticktext": [f"{tick:g}" for tick in ticks],
            "outlinewidth": 0,
            "thickness": 16,
        },
        text=[[_number(cell) for cell in row] for row in found.cells],
        texttemplate="%{text}" if fits else None,
        textfont={"size": 11},
        xgap=1,
        ygap=1,
        name="speed-up",
        **_hover(found, metric),
    )


def _unstable(found: CrossoverMap, metric: str) -> go.Heatmap:
    """Grey where a queue grows for ever: a ratio of latencies would depend on the run's length."""
    fits = len(found.x.values) <= MOST_NUMBERS
    return go.Heatmap(
        z=[[0.0 if cell.grows else None for cell in row] for row in found.cells],
        zmin=-1.0,
        zmax=1.0,
        colorscale=[[0.0, PLAIN], [1.0, PLAIN]],
        showscale=False,
        text=[[GROWING.get(cell.grows or "", "") for cell in row] for row in found.cells],
        texttemplate="%{text}" if fits else None,
        textfont={"size": 10, "color": DARK},
        xgap=1,
        ygap=1,
        name="unstable",
        hoverongaps=False,
        **_hover(found, metric),
    )


def _hover(found: CrossoverMap, metric: str) -> dict[str, object]:
    texts = [
        [
            _hover_text(found, cell, found.x.values[column], found.y.values[row], metric)
            for column, cell in enumerate(cells)
        ]
        for row, cells in enumerate(found.cells)
    ]
    return {"customdata": texts, "hovertemplate": "%{customdata}<extra></extra>"}


def _hover_text(found: CrossoverMap, cell: Cell, x: float, y: float, metric: str) -> str:
    lines = [
        f"{found.x.name} {digits(x)} {found.x.unit}",
        f"{found.y.name} {y:g} {found.y.unit}",
    ]
    if cell.speedup is not None:
        lines.append(f"speed-up {cell.speedup:.3f}")
        lines.append(f"{metric} off {seconds(cell.off_s)}, on {seconds(cell.on_s)}")
    if cell.emitted_tokens_per_cycle is not None:
        lines.append(f"{cell.emitted_tokens_per_cycle:.2f} tokens a cycle")
    if cell.off_batch_size is not None and cell.on_batch_size is not None:
        lines.append(
            f"running a busy replica: off {digits(cell.off_batch_size)}, "
            f"on {digits(cell.on_batch_size)}"
        )
    state = STATES[cell.state]
    lines.append(f"{state}: {label(cell.reason)}" if cell.reason else state)
    return "<br>".join(lines)


def _log2(speedup: float | None) -> float | None:
    return None if speedup is None else float(np.log2(speedup))


def _number(cell: Cell) -> str:
    if cell.speedup is None:
        return ""
    return f"{cell.speedup:.2f}"


def _round_ratios(size: float) -> list[float]:
    """Ratios to mark on the scale, alike on both sides of 1."""
    for step in (1.02, 1.05, 1.1, 1.2, 1.5, 2.0):
        if size / np.log2(step) <= 5.0:  # noqa: PLR2004 - marks on either side
            break
    count = int(size / np.log2(step))
    powers = [step**power for power in range(-count, count + 1)]
    return [float(f"{each:.2g}" if step > 1.1 else f"{each:.3g}") for each in powers]  # noqa: PLR2004


# --- marks, in places of the grid (map_marks.py) ---


def _refused(figure: go.Figure, found: CrossoverMap) -> None:
    """A dash on the page itself where there is no answer."""
    cells = [(row, column) for row, column, cell in _cells(found) if cell.state == "refused"]
    if cells:
        figure.add_scatter(
            x=[column for _, column in cells],
            y=[row for row, _ in cells],
            mode="text",
            text=["–"] * len(cells),
            textfont={"color": TEXT_COLOUR},
            showlegend=False,
            hoverinfo="skip",
        )


def _hatch(figure: go.Figure, found: CrossoverMap) -> None:
    cells = [(row, column) for row, column, cell in _cells(found) if cell.state == "extrapolated"]
    if cells:
        _lines(figure, *hatch(cells), "hatched: outside the measured domain", width=1.2, rim=False)


def _outline(figure: go.Figure, found: CrossoverMap) -> None:
    """The border of the measured cells, the edge of the map included."""
    inside = [[cell.state == "measured" for cell in row] for row in found.cells]
    if any(map(any, inside)):
        _lines(figure, *border(inside), "measured domain", width=2.0, dash="dot")


def _break_even(figure: go.Figure, found: CrossoverMap) -> None:
    """Where S = 1: through the columns, or as a stair where each row has its own load."""
    x: list[float | None] = []
    y: list[float | None] = []
    for point in found.break_even:
        across, up = _place(found.x, point.x), _place(found.y, point.y)
        if found.crossed_along == "x":
            x += [across, across, None]
            y += [up - 0.5, up + 0.5, None]
        else:
            x.append(across)
            y.append(up)
    if x:
        _lines(figure, x, y, "break-even: S = 1", width=3.5)


def _own(figure: go.Figure, found: CrossoverMap) -> None:
    """Where the scenario itself stands."""
    across = _inside(found.x)
    up = _inside(found.y)
    rows, columns = len(found.y.values), len(found.x.values)
    x: list[float | None] = []
    y: list[float | None] = []
    if across is not None and up is None:
        x, y = [across, across], [-0.5, rows - 0.5]
    elif up is not None and across is None:
        x, y = [-0.5, columns - 0.5], [up, up]
    elif across is not None and up is not None:
        for stroke, thickness in ((LIGHT, 5.0), (DARK, 2.5)):
            figure.add_scatter(
                x=[across],
                y=[up],
                mode="markers",
                name="this scenario",
                marker={
                    "symbol": "circle-open",
                    "size": 32,
                    "color": stroke,
                    "line": {"width": thickness, "color": stroke},
                },
                hoverinfo="skip",
                showlegend=False,
            )
        _legend(figure, "this scenario", {"symbol": "circle-open", "size": 12}, None)
        return
    if x:
        _lines(figure, x, y, "this scenario", width=2.0, dash="dash")


def _lines(
    figure: go.Figure,
    x: Sequence[float | None],
    y: Sequence[float | None],
    name: str,
    *,
    width: float,
    dash: str = "solid",
    rim: bool = True,
) -> None:
    """Dark strokes, on a light rim so that they are seen on dark cells and dark pages."""
    strokes = ((LIGHT, width + 2.5, "solid"), (DARK, width, dash))
    for stroke, thickness, pattern in strokes if rim else strokes[1:]:
        figure.add_scatter(
            x=list(x),
            y=list(y),
            mode="lines",
            name=name,
            showlegend=False,
            line={"color": stroke, "width": thickness, "dash": pattern},
            hoverinfo="skip",
        )
    _legend(figure, name, None, {"width": width, "dash": dash})


def _legend(
    figure: go.Figure,
    name: str,
    symbol: dict[str, object] | None,
    line: dict[str, object] | None,
) -> None:
    """An entry in the page's own grey: the strokes themselves are dark, on cells."""
    figure.add_scatter(
        x=[None],
        y=[None],
        mode="markers" if line is None else "lines",
        name=name,
        marker={**(symbol or {}), "color": TEXT_COLOUR},
        line={**(line or {}), "color": TEXT_COLOUR},
        hoverinfo="skip",
    )


def _place(axis: Axis, value: float) -> float:
    """Where on the grid a value stands; cells are as wide as one another."""
    values = np.asarray(axis.values, dtype=np.float64)
    if is_geometric(axis.values):
        return float(np.interp(np.log(value), np.log(values), np.arange(len(values))))
    return float(np.interp(value, values, np.arange(len(values))))


def _inside(axis: Axis) -> float | None:
    if axis.own is None or not axis.values[0] <= axis.own <= axis.values[-1]:
        return None
    return _place(axis, axis.own)


def _ticks(axis: Axis) -> dict[str, object]:
    every = -(-len(axis.values) // MOST_LABELS)
    places = list(range(0, len(axis.values), every))
    return {
        "tickvals": places,
        "ticktext": [_tick(axis.values[place]) for place in places],
        "linecolor": GREY,
    }


def _tick(value: float) -> str:
    return f"{value:,.0f}" if value >= WHOLE or value == int(value) else f"{value:.3g}"
