"""Log axes in narrow columns, and legends below titles."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcore.report.style import log_axis, new_figure


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        ((18.0, 2_200.0), ["20", "50", "100", "200", "500", "1k", "2k"]),
        ((0.3, 4.0), ["0.5", "1", "2"]),
        ((1.0, 2_000_000.0), ["1", "10", "100", "1k", "10k", "100k", "1M"]),
        ((1_200.0, 1_900.0), ["1.2k", "1.4k", "1.6k", "1.8k"]),
    ],
)
def test_ticks_of_a_log_axis_are_short_enough_to_stand_level(values, texts):
    axis = log_axis(values)
    assert axis["ticktext"] == texts
    assert axis["tickangle"] == 0


def test_a_legend_keeps_to_the_lower_edge_whatever_stands_above_it():
    legend = new_figure("title", "x (s)", "y (s)").layout.legend
    assert (legend.yref, legend.yanchor, legend.y) == ("container", "bottom", 0)


@given(st.floats(1e-6, 1e9), st.floats(1.0, 1e6))
def test_every_log_axis_has_ticks_and_all_of_them_lie_on_it(low, factor):
    axis = log_axis([low, low * factor])
    least, most = axis["range"]
    assert len(axis["tickvals"]) > 1
    assert all(least - 1e-6 <= math.log10(tick) <= most + 1e-6 for tick in axis["tickvals"])
    assert len(set(axis["ticktext"])) == len(axis["ticktext"])
