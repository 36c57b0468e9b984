"""Pictures of drafts hold what they are given."""

import math

import numpy as np
import pytest

from simcore.acceptance.order import rate_orders
from simcore.acceptance.request_spread import RequestSpread, count_every_position
from simcore.acceptance.statistics import Lag1Correlation
from simcore.acceptance.topology.layout import layout
from simcore.acceptance.tree import chain, wide_chains
from simcore.planner.estimate import estimate_survival
from simcore.planner.speedup_map import speedup_map
from simcore.planner.tree_recording import scenario_recording
from simcore.planner.tree_view import NodeView
from simcore.report import figures
from simcore.report.speedup_figures import draft_names


def _nodes(tree) -> list[NodeView]:
    places = layout(tree, np.linspace(1.0, 0.0, tree.num_nodes))
    return [NodeView(**vars(place), positional_probability=0.5) for place in places]


def _named(figure, name):
    (found,) = [trace for trace in figure.data if trace.name == name]
    return found


@pytest.mark.parametrize("tree", [chain(1), chain(8), wide_chains(4, 3), wide_chains(32, 2)])
def test_a_tree_of_one_to_64_nodes_is_drawn_whole(tree):
    figure = figures.tree_figure(_nodes(tree), 2.0)
    nodes = _named(figure, "candidates")
    assert list(nodes.x) == list(tree.depths)
    assert len({*zip(nodes.x, nodes.y, strict=True)}) == tree.num_nodes  # none hides another
    ends = [x for trace in figure.data if trace.name == "edges" for x in trace.x if x is not None]
    assert len(ends) == 2 * tree.num_nodes
    low, high = figure.layout.yaxis.range
    assert low < min(nodes.y) <= max(nodes.y) < high
    assert nodes.customdata[0][2] == nodes.text[0] == "100 %"


def test_a_likelier_edge_is_wider_and_better_ranks_stand_above():
    figure = figures.tree_figure(_nodes(wide_chains(3, 1)), 2.0)
    nodes = _named(figure, "candidates")
    assert list(nodes.y) == sorted(nodes.y, reverse=True)
    edges = [trace for trace in figure.data if trace.name == "edges"]
    assert [trace.line.width for trace in edges] == sorted(trace.line.width for trace in edges)
    assert edges[-1].y[1] == nodes.y[0]


@pytest.fixture(scope="module")
def found(stored, scenario):
    survivals = list(estimate_survival(stored, scenario, "eagle").values())
    return speedup_map(stored, "eagle", survivals, 300)


def test_the_map_is_centred_at_one_with_its_number_in_every_cell(found):
    figure = figures.speedup_map_figure(found)
    heat = _named(figure, "S")
    assert heat.zmin == -heat.zmax
    cells = [point for row in found.points for point in row]
    assert np.ravel(heat.z).tolist() == [math.log2(point.speedup) for point in cells]
    assert list(_named(figure, "speed-up").text) == [f"{point.speedup:.2f}" for point in cells]


def test_every_extrapolated_cell_is_marked_and_the_measured_ones_are_outlined(found):
    figure = figures.speedup_map_figure(found)
    outside = sum(point.is_extrapolated for row in found.points for point in row)
    assert 0 < outside < sum(len(row) for row in found.points)
    strokes = _named(figure, "hatched: extrapolated")
    middles = zip(strokes.x[::3], strokes.x[1::3], strokes.y[::3], strict=True)
    hatched = {(round((a + b) / 2), math.floor(y + 0.5)) for a, b, y in middles}
    assert hatched == {
        (column, row)
        for row, points in enumerate(found.points)
        for column, point in enumerate(points)
        if point.is_extrapolated
    }
    assert len(hatched) == outside
    border = _named(figure, "measured domain")
    inside = [row for row in found.points if not row[0].is_extrapolated]
    ys = [y for y in border.y if y is not None]
    assert (min(ys), max(ys)) == (-0.5, len(inside) - 0.5)


def test_break_even_stands_beside_what_is_emitted(found):
    figure = figures.break_even_figure(found)
    emitted = _named(figure, "emitted, E[Y]")
    assert list(emitted.y) == [each.mean_emitted_tokens for each in found.survivals]
    needed = _named(figure, "needed at batch 1")
    assert list(needed.y) == [point.break_even_tokens for point in found.points[0]]
    assert list(emitted.x) == draft_names(found.survivals)


def test_the_orders_are_drawn_with_their_tokens():
    figure = figures.rate_orders_figure(rate_orders([0.9, 0.3]))
    assert [trace.name for trace in figure.data] == [
        "falling: 2.17 tokens a cycle",
        "rising: 1.57 tokens a cycle",
        "every rate 0.60, the mean: 1.96 tokens a cycle",
    ]
    unsorted = figures.rate_orders_figure(rate_orders([0.5, 0.9, 0.3]))
    assert any(trace.name.startswith("as measured") for trace in unsorted.data)


def test_the_spread_is_two_distributions_that_end_at_all_requests():
    spread = RequestSpread(
        gamma=3,
        recorded=np.array([1.0, 2.0, 3.0]),
        independent=np.linspace(1.5, 2.5, 2000),
        recorded_sd=0.8,
        independent_sd=0.3,
        slowest_recorded=1.0,
        slowest_independent=1.5,
        lag1=Lag1Correlation(pooled=None, within_request=None),
    )
    recorded, independent = figures.request_spread_figure(spread).data
    assert list(recorded.x) == [1.0, 2.0, 3.0]
    assert recorded.y[-1] == independent.y[-1] == 100.0
    assert len(independent.x) <= 500


def test_survival_shows_the_count_at_every_position_where_it_is_given(load_bundled):
    scenario, stored = load_bundled("cpu_chat")
    scenario = scenario.with_(**{"speculation.proposer": "ngram"})
    counted = count_every_position(scenario_recording(stored, scenario).traces, 5)
    survival = estimate_survival(stored, scenario, "ngram")[5]
    *_, added = figures.survival_figure(survival, counted).data
    assert list(added.y) == list(counted.survival)
    assert f"{counted.mean_emitted_tokens:.2f}" in added.name
    assert counted.mean_emitted_tokens > survival.mean_emitted_tokens
