"""A tornado: the speed-up with each input at either end of its range, the strongest on top."""

import numpy as np
import plotly.graph_objects as go

from simcore.planner.sensitivity_document import End, InputEffect, Sensitivity
from simcore.report.style import (
    BLUE,
    GREY,
    ORANGE,
    TEXT_COLOUR,
    VERMILLION,
    label,
    new_figure,
)
from simcore.report.units import digits

BEYOND = 1.1  # times: how far past the others a bar without end is drawn
MARGIN = 1.05
STEPS, MOST_TICKS = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 100.0, np.inf), 9
GROWING = {"off": "off ∞", "on": "on ∞", "both": "∞"}
ENDS = (("low", "low end of the range", ORANGE, "/"), ("high", "high end of the range", BLUE, ""))


def tornado_figure(found: Sensitivity) -> go.Figure:
    """Bars from the scenario's own gain; a diamond where the decision flips within the range."""
    figure = new_figure(
        f"What moves the gain: {label(found.proposer)}, γ = {found.num_speculative_tokens}",
        "speed-up (mean E2E off / on, log)",
        "",
    )
    effects = list(reversed(found.effects))  # the first row is drawn at the bottom
    base = found.base.speedup
    known = [end.speedup for each in effects for end in (each.low, each.high) if end.speedup]
    spread = [*known, *([base] if base else []), 1.0]
    floor, ceiling = min(spread) / BEYOND, max(spread) * BEYOND
    start = base or (ceiling if found.base.grows == "off" else floor)
    names = [range_words(each) for each in effects]
    for end, name, fill, pattern in ENDS:
        ends = [getattr(each, end) for each in effects]
        reached = [_reach(each, start, floor, ceiling) for each in ends]
        figure.add_bar(
            x=[value - start for value in reached],
            y=names,
            base=start,
            orientation="h",
            name=name,
            marker={"color": fill, "pattern": {"shape": pattern}},
            text=[_end_text(each) for each in ends],
            textposition="outside",
            cliponaxis=False,
            textfont={"color": TEXT_COLOUR, "size": 12},
            customdata=[_hover(effect, each) for effect, each in zip(effects, ends, strict=True)],
            hovertemplate="%{customdata}<extra></extra>",
        )
    _flips(figure, effects, names)
    _line(figure, names, start, f"this scenario: {_speedup(found.base)}", "solid")
    if abs(np.log(start)) > 1e-3:  # noqa: PLR2004 - else one line lies on the other
        _line(figure, names, 1.0, "decision flips at 1", "dash")
    figure.update_xaxes(**_axis(floor, ceiling))
    figure.update_yaxes(showgrid=False, tickfont={"size": 12})
    figure.update_layout(barmode="overlay", height=max(230 + 40 * len(effects), 440))
    return figure


def _reach(end: End, start: float, floor: float, ceiling: float) -> float:
    if end.speedup is not None:
        return end.speedup
    return {"off": ceiling, "on": floor}.get(end.grows or "", start)


def _end_text(end: End) -> str:
    return GROWING.get(end.grows or "", "")


def range_words(effect: InputEffect) -> str:
    """The range and its unit: bars may be too short to hold them."""
    ends = f"{digits(effect.low.value)} to {digits(effect.high.value)}"
    return f"{label(effect.name)}: {ends} {label(effect.unit)}"


def _axis(floor: float, ceiling: float) -> dict[str, object]:
    """A log axis with round ticks at even steps: a tornado rarely spans a decade."""
    low, high = floor / MARGIN, ceiling * MARGIN
    step = next(each for each in STEPS if (high - low) / each <= MOST_TICKS)
    ticks = np.arange(np.ceil(low / step), np.floor(high / step) + 1) * step
    return {
        "type": "log",
        "range": [float(np.log10(low)), float(np.log10(high))],
        "tickvals": ticks.tolist(),
        "ticktext": [f"{tick:.4g}" for tick in ticks],
    }


def _speedup(end: End) -> str:
    return f"{end.speedup:.3f}" if end.speedup is not None else label(end.reason)


def _hover(effect: InputEffect, end: End) -> str:
    lines = [
        f"{label(effect.name)} {digits(end.value)} {label(effect.unit)} "
        f"(scenario: {digits(effect.base)})",
        f"speed-up {_speedup(end)}",
        label(effect.range_reason),
        flip_words(effect),
    ]
    return "<br>".join(lines)


def flip_words(effect: InputEffect) -> str:
    """Where the decision flips, or how far was looked."""
    if effect.flip is None:
        low, high = effect.searched
        return f"no flip within {digits(low)} to {digits(high)}"
    where = "" if effect.flip.is_within_range else ", beyond the plausible range"
    text = f"flips at {digits(effect.flip.value)}{where}"
    if effect.flip.simulated_speedup is None or effect.flip.simulated_interval is None:
        return text
    low, high = effect.flip.simulated_interval
    return f"{text} (simulated there: {effect.flip.simulated_speedup:.3f}, {low:.3f} to {high:.3f})"


def _flips(figure: go.Figure, effects: list[InputEffect], names: list[str]) -> None:
    found = [
        (name, effect)
        for name, effect in zip(names, effects, strict=True)
        if effect.flip is not None and effect.flip.is_within_range
    ]
    if not found:
        return
    figure.add_scatter(
        x=[1.0] * len(found),
        y=[name for name, _ in found],
        mode="markers",
        name="flips within the range",
        marker={
            "symbol": "diamond",
            "size": 13,
            "color": VERMILLION,
            "line": {"color": "#FFFFFF", "width": 1.5},
        },
        customdata=[flip_words(effect) for _, effect in found],
        hovertemplate="%{customdata}<extra></extra>",
    )


def _line(figure: go.Figure, names: list[str], x: float, name: str, pattern: str) -> None:
    figure.add_scatter(
        x=[x, x],
        y=[names[0], names[-1]],
        mode="lines",
        name=name,
        line={"color": GREY, "dash": pattern, "width": 2},
        hoverinfo="skip",
    )
