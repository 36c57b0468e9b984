"""A draft tree as a picture: the root at the left, one step to the right a depth."""

from collections.abc import Sequence

import plotly.graph_objects as go

from simcore.acceptance.tree import ROOT
from simcore.planner.tree_view import NodeView
from simcore.report.style import BLUE, GREY, ORANGE, new_figure

NUM_WIDTHS = 8  # edges are drawn in so many widths
THINNEST, THICKEST = 0.75, 9.0  # pixels
MAX_LABELLED_LEAVES = 16
ROW_PX, LEAST_PX, MOST_PX = 34, 260, 640
AROUND_PX = 128  # title, axis
ONE_PERCENT = 0.01  # below it, a decimal


def tree_figure(nodes: Sequence[NodeView], mean_emitted_tokens: float) -> go.Figure:
    """Nodes by depth; an edge is as wide, and a node as blue, as cycles go through it often.

    Siblings stand in order of rank, the best on top. The other probability in the hover box is the
    product of rates, which forgets that easy positions stay easy.
    """
    leaves = len(nodes) - len({node.parent for node in nodes} - {ROOT})
    title = (
        f"{len(nodes)} {'draft' if len(nodes) == 1 else 'drafts'} a cycle: "
        f"{mean_emitted_tokens:.2f} tokens emitted"
    )
    figure = new_figure(title, "depth (serial draft passes)", "best on top")
    top = [node for node in nodes if node.parent == ROOT]
    root_y = -sum(node.x for node in top) / len(top)
    place = {ROOT: (0.0, root_y)} | {node.node: (float(node.depth), -node.x) for node in nodes}
    for step in range(NUM_WIDTHS):
        _add_edges(figure, [n for n in nodes if _width_step(n) == step], place, step)
    _add_nodes(figure, nodes, place, is_labelled=leaves <= MAX_LABELLED_LEAVES)
    deepest = max(node.depth for node in nodes)
    figure.update_xaxes(dtick=1, range=[-0.4, deepest + 0.5])
    margin = 0.7
    low, high = (
        min(y for _, y in place.values()) - margin,
        max(y for _, y in place.values()) + margin,
    )
    figure.update_yaxes(
        range=[low, high],
        showticklabels=False,
        ticks="",
        showgrid=False,
    )
    height = min(max(ROW_PX * leaves + AROUND_PX, LEAST_PX), MOST_PX)
    return figure.update_layout(showlegend=False, height=height, margin_b=56)


def _add_edges(
    figure: go.Figure,
    nodes: Sequence[NodeView],
    place: dict[int, tuple[float, float]],
    step: int,
) -> None:
    if not nodes:
        return
    x: list[float | None] = []
    y: list[float | None] = []
    for node in nodes:
        (from_x, from_y), (to_x, to_y) = place[node.parent], place[node.node]
        x += [from_x, to_x, None]
        y += [from_y, to_y, None]
    width = THINNEST + (THICKEST - THINNEST) * step / (NUM_WIDTHS - 1)
    figure.add_scatter(
        x=x[:-1],
        y=y[:-1],
        mode="lines",
        line={"color": GREY, "width": width},
        opacity=0.55,
        hoverinfo="skip",
        name="edges",
    )


def _add_nodes(
    figure: go.Figure,
    nodes: Sequence[NodeView],
    place: dict[int, tuple[float, float]],
    *,
    is_labelled: bool,
) -> None:
    figure.add_scatter(
        x=[place[ROOT][0]],
        y=[place[ROOT][1]],
        mode="markers+text",
        text=["root"],
        textposition="top center",
        marker={"symbol": "square", "size": 14, "color": ORANGE},
        hovertemplate="root: the last emitted token<extra></extra>",
        name="root",
    )
    texts = [_percent(node.probability) for node in nodes]
    figure.add_scatter(
        x=[place[node.node][0] for node in nodes],
        y=[place[node.node][1] for node in nodes],
        mode="markers+text" if is_labelled else "markers",
        text=texts,
        textposition="top center",
        marker={
            "size": 14 if is_labelled else 9,
            "color": [node.probability for node in nodes],
            "cmin": 0.0,
            "cmax": 1.0,
            "colorscale": [[0.0, "#C9D6E2"], [1.0, BLUE]],
            "line": {"color": GREY, "width": 1},
        },
        customdata=[
            (
                " → ".join(str(rank + 1) for rank in node.path),
                node.path[-1] + 1,
                texts[i],
                _percent(node.positional_probability),
            )
            for i, node in enumerate(nodes)
        ],
        hovertemplate="depth %{x}, candidate of rank %{customdata[1]}<br>ranks from the root: "
        "%{customdata[0]}<br>accepted in %{customdata[2]} of cycles<br>product of rates: "
        "%{customdata[3]}<extra></extra>",
        name="candidates",
    )


def _width_step(node: NodeView) -> int:
    return min(int(node.probability * NUM_WIDTHS), NUM_WIDTHS - 1)


def _percent(share: float) -> str:
    is_round = share >= ONE_PERCENT or share == 0.0
    return f"{100 * share:.0f} %" if is_round else f"{100 * share:.1f} %"
