"""Map figures: numbers as computed, the measured domain outlined, the rest hatched, no markup."""

import numpy as np
import pytest

from simcore.planner.crossover import crossover_map
from simcore.report.map_figures import crossover_figure
from simcore.report.map_text import map_text
from simcore.report.picture import write_picture


@pytest.fixture(scope="module")
def found(stored, scenario):
    return crossover_map(stored, scenario, "context_gamma", num_columns=6)


@pytest.fixture(scope="module")
def loads(stored, scenario):
    return crossover_map(stored, scenario, "load_gamma", num_columns=6)


@pytest.fixture(scope="module")
def drawn(found):
    return crossover_figure(found)


def _cells(found, state):
    return [
        (column, row)
        for row, cells in enumerate(found.cells)
        for column, cell in enumerate(cells)
        if cell.state == state
    ]


def _named(figure, name):
    return [trace for trace in figure.data if trace.name == name and any(map(_is_real, trace.x))]


def _is_real(value):
    return value is not None


def test_colour_and_number_of_every_cell_are_its_speed_up(found, drawn):
    heat = drawn.data[0]
    for row, cells in enumerate(found.cells):
        for column, cell in enumerate(cells):
            if cell.speedup is None:
                assert heat.z[row][column] is None
                assert heat.text[row][column] == ""
            else:
                assert heat.z[row][column] == pytest.approx(np.log2(cell.speedup))
                assert float(heat.text[row][column]) == pytest.approx(cell.speedup, abs=0.005)


def test_the_scale_is_centred_at_one_and_alike_on_both_sides(drawn, loads):
    for figure in (drawn, crossover_figure(loads)):
        heat = figure.data[0]
        assert heat.zmin == -heat.zmax < 0
        middle = [colour for place, colour in heat.colorscale if place == 0.5]
        assert middle == ["#F4F4F4"]


def test_exactly_the_extrapolated_cells_are_hatched(found, drawn):
    (hatch,) = _named(drawn, "hatched: outside the measured domain")
    middles = {
        (round((a + b) / 2), round((c + d) / 2))
        for a, b, c, d in zip(hatch.x[::3], hatch.x[1::3], hatch.y[::3], hatch.y[1::3], strict=True)
    }
    assert middles == set(_cells(found, "extrapolated"))
    assert middles


def test_the_measured_domain_is_outlined_by_its_border(found, drawn):
    outline = _named(drawn, "measured domain")[-1]
    measured = set(_cells(found, "measured"))
    segments = list(
        zip(outline.x[::3], outline.x[1::3], outline.y[::3], outline.y[1::3], strict=True)
    )
    assert len(segments) == sum(
        (column + across, row + up) not in measured
        for column, row in measured
        for across, up in ((1, 0), (-1, 0), (0, 1), (0, -1))
    )


def test_refused_cells_say_why_on_hover(found, drawn):
    for column, row in _cells(found, "refused"):
        text = drawn.data[0].customdata[row][column]
        assert "no answer" in text
        assert "measured" in text
    assert _cells(found, "refused")


def test_unstable_cells_are_grey_and_say_whose_queue_grows(loads):
    figure = crossover_figure(loads)
    unstable = _cells(loads, "unstable")
    assert unstable
    for column, row in unstable:
        assert figure.data[1].z[row][column] == 0.0
        assert figure.data[1].text[row][column] in ("off ∞", "on ∞", "∞")
        assert "grows for ever" in figure.data[1].customdata[row][column]


def test_the_break_even_line_stands_where_the_map_says(stored, scenario):
    found = crossover_map(stored, scenario, "batch_acceptance", num_columns=6)
    line = _named(crossover_figure(found), "break-even: S = 1")[-1]
    assert len(line.x) == len(found.break_even) > 0
    places = np.interp(line.y, range(len(found.y.values)), found.y.values)
    assert places == pytest.approx([point.y for point in found.break_even], rel=1e-9)


def test_marks_have_a_light_rim_and_a_grey_entry_in_the_legend(drawn):
    for name in ("measured domain", "this scenario"):
        rim, stroke = _named(drawn, name)
        colours = [
            trace.line.color or trace.marker.color or trace.marker.line.color
            for trace in (rim, stroke)
        ]
        assert colours == ["#FFFFFF", "#111111"]
    shown = [trace.name for trace in drawn.data if trace.showlegend is None and trace.x is not None
             and not any(map(_is_real, trace.x))]  # fmt: skip
    assert {"measured domain", "this scenario", "hatched: outside the measured domain"} <= set(
        shown
    )


def test_axes_have_titles_with_units_and_the_paper_is_transparent(drawn):
    assert "tokens" in drawn.layout.xaxis.title.text
    assert drawn.layout.yaxis.title.text
    assert drawn.layout.paper_bgcolor == "rgba(0,0,0,0)"


def test_hostile_names_are_escaped(found, hostile_text, tmp_path):
    raw = found.model_dump(mode="json")
    raw["proposer"] = hostile_text
    raw["origin"]["scenario"] = hostile_text
    raw["notes"] = [hostile_text]
    raw["cells"][0][0]["reason"] = hostile_text
    hostile = type(found).model_validate(raw)
    figure = crossover_figure(hostile)
    text = figure.to_json()
    assert "<script" not in text
    assert "<img" not in text
    write_picture(figure, tmp_path / "map.html", hostile.notes, hostile.origin)
    page = (tmp_path / "map.html").read_text(encoding="utf-8")
    assert "<script>alert" not in page
    assert "<img src=x" not in page


def test_the_text_holds_every_number_and_every_refusal_once(found):
    text = map_text(found)
    for row in found.cells:
        for cell in row:
            if cell.speedup is not None:
                assert f"{cell.speedup:.2f}" in text
    reasons = {cell.reason for row in found.cells for cell in row if cell.state == "refused"}
    for reason in reasons:
        assert text.count(reason) == 1
