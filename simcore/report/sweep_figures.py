"""Pictures of a sweep: load against draft length, as speed-up or as any column of its table."""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import plotly.graph_objects as go

from simcore.errors import ScenarioError
from simcore.planner.sweep_grid import GAMMA, POLICY, PROPOSER
from simcore.planner.sweep_result import SweepResult
from simcore.planner.sweep_space import LOAD, TREE
from simcore.report.style import label, new_figure

if TYPE_CHECKING:
    import pandas as pd

SPEEDUP = "speed-up"
MARKS = {"best": " ★", "indistinguishable": " ≈"}
OFF_HAS_NONE = (PROPOSER, POLICY, TREE)  # axes that say nothing of plain decoding
DIVERGING, RISING = "PuOr", "Viridis"


def load_gamma_figure(
    found: SweepResult,
    *,
    value: str = SPEEDUP,
    load: str = LOAD,
    gamma: str = GAMMA,
    where: Mapping[str, Any] | None = None,
) -> go.Figure:
    """A heat map of the sweep: loads across, draft lengths up.

    `value`: "speed-up" (mean E2E off / on under the same load; needs draft length 0) or a column
    of the configurations. `where` fixes other axes. ★ marks the best under a load, ≈ what cannot be
    told from it. Raises ScenarioError where a cell would hold two configurations or an axis was
    not swept.
    """
    table = _chosen(found, load, gamma, dict(where or {}))
    values = _speedup(table, load, gamma) if value == SPEEDUP else table.get(value)
    if values is None:
        raise ScenarioError(
            f"no column {value!r} in the sweep's table; see docs/reference/sweeps.md"
        )
    table = table.assign(shown=values)
    grid = table.pivot(index=gamma, columns=load, values="shown").sort_index()
    marks = table.assign(mark=table["verdict"].map(MARKS).fillna(""))
    marks = marks.pivot(index=gamma, columns=load, values="mark").fillna("").loc[grid.index]
    title = "Speed-up of the mean request" if value == SPEEDUP else value
    figure = new_figure(f"{label(title)}: load against draft length", _axis(load), _axis(gamma))
    text = [
        [
            "" if math.isnan(number) else f"{number:.3g}{mark}"
            for number, mark in zip(*row, strict=True)
        ]
        for row in zip(grid.to_numpy(), marks.to_numpy(), strict=True)
    ]
    figure.add_heatmap(
        x=[f"{each:.4g}" for each in grid.columns],
        y=[str(each) for each in grid.index],
        z=grid.to_numpy(),
        text=text,
        texttemplate="%{text}",
        colorscale=DIVERGING if value == SPEEDUP else RISING,
        zmid=1.0 if value == SPEEDUP else None,
        colorbar={"title": {"text": label(value)}},
        hovertemplate="load %{x}<br>γ %{y}<br>%{z:.4g}<extra></extra>",
    )
    figure.update_xaxes(type="category")
    figure.update_yaxes(type="category")
    return figure


def _chosen(found: SweepResult, load: str, gamma: str, where: dict[str, Any]) -> "pd.DataFrame":
    table = found.configurations
    for name in (load, gamma, *where):
        if name not in found.space.axes:
            raise ScenarioError(
                f"{name!r} is no axis of the sweep; it has {list(found.space.axes)}"
            )
    is_off = table[gamma] == 0
    for name, wanted in where.items():
        fits = table[name] == wanted
        table = table[fits | is_off[table.index]] if name in OFF_HAS_NONE else table[fits]
    if table.duplicated([load, gamma]).any():
        others = [n for n in found.space.axes if n not in (load, gamma) and table[n].nunique() > 1]
        raise ScenarioError(
            f"several configurations share a load and a draft length; fix {others} with where"
        )
    return table


def _speedup(table: "pd.DataFrame", load: str, gamma: str) -> "pd.Series[float]":
    off = table[table[gamma] == 0].set_index(load)["e2e_mean_s"]
    if off.empty:
        raise ScenarioError("a speed-up needs draft length 0 in the sweep; add it to the axis")
    return table[load].map(off) / table["e2e_mean_s"]


def _axis(name: str) -> str:
    known = {LOAD: "offered load (requests/s)", GAMMA: "draft length γ"}
    return label(known.get(name, name))
