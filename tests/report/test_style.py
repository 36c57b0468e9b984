"""The palette by computation: contrast to both pages, and apart under every colour vision."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcore.report import style
from simcore.report.map_figures import DARK, LIGHT, SCALE

GRAPHICS, LARGE_TEXT, TEXT = 3.0, 3.0, 4.5  # WCAG 2.2, AA: 1.4.11 and 1.4.3
PAGES = (style.LIGHT_PAGE, style.DARK_PAGE, "#171614")  # the last: Streamlit's own dark
# Machado, Oliveira and Fernandes 2009, severity 1, on linear RGB.
VISIONS = {
    "usual": np.eye(3),
    "protan": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deutan": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritan": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}
# Ottosson 2020: linear RGB to cone responses, their cube roots to Oklab.
CONES = [
    [0.4122214708, 0.5363325363, 0.0514459929],
    [0.2119034982, 0.6806995451, 0.1073969566],
    [0.0883024619, 0.2817188376, 0.6299787005],
]
OKLAB = [
    [0.2104542553, 0.7936177850, -0.0040720468],
    [1.9779984951, -2.4285922050, 0.4505937099],
    [0.0259040371, 0.7827717662, -0.8086757660],
]
LEAST_APART = 0.065  # Oklab; a just noticeable difference is about 0.02


def _linear(colour: str) -> np.ndarray:
    value = np.array([int(colour[place : place + 2], 16) for place in (1, 3, 5)]) / 255.0
    return np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)


def _contrast(one: str, other: str) -> float:
    """WCAG's ratio of relative luminances."""
    low, high = sorted(float(_linear(each) @ [0.2126, 0.7152, 0.0722]) for each in (one, other))
    return (high + 0.05) / (low + 0.05)


def _apart(one: str, other: str, vision: str) -> float:
    seen = [np.clip(VISIONS[vision] @ _linear(each), 0.0, 1.0) for each in (one, other)]
    places = [np.array(OKLAB) @ np.cbrt(np.array(CONES) @ each) for each in seen]
    return float(np.linalg.norm(places[0] - places[1]))


def test_the_ratio_is_that_of_the_standard():
    assert _contrast("#000000", "#FFFFFF") == pytest.approx(21.0)
    assert _contrast("#777777", "#FFFFFF") == pytest.approx(4.48, abs=0.005)


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("colour", [*style.SERIES_COLOURS, style.GREY])
def test_every_line_and_mark_stands_out_from_the_page(colour, page):
    assert _contrast(colour, page) >= GRAPHICS


@pytest.mark.parametrize("vision", list(VISIONS))
def test_any_two_series_are_told_apart(vision):
    pairs = combinations(style.SERIES_COLOURS, 2)
    assert min(_apart(*pair, vision) for pair in pairs) >= LEAST_APART


def test_text_that_must_do_for_both_pages_is_as_far_from_each_as_any_grey_can_be():
    best = np.sqrt(_contrast(style.LIGHT_PAGE, style.DARK_PAGE))
    for page in PAGES:
        assert _contrast(style.TEXT_COLOUR, page) >= max(LARGE_TEXT, 0.95 * best)


def test_numbers_on_a_map_can_be_read_on_every_colour_of_its_scale():
    for _, colour in SCALE:
        assert max(_contrast(colour, DARK), _contrast(colour, LIGHT)) >= TEXT


def test_series_differ_without_colour_too():
    for looks in (style.MARKERS, style.DASHES):
        assert len(set(looks)) == len(looks) == len(style.SERIES_COLOURS)


@given(
    low=st.floats(1e-6, 1e6),
    ratio=st.one_of(st.just(1.0), st.floats(1.0, 1.5), st.floats(1.0, 1e9)),
)
def test_a_log_axis_has_a_few_round_labels_that_say_where_they_stand(low, ratio):
    axis = style.log_axis([low, low * ratio])
    ticks, texts = axis["tickvals"], axis["ticktext"]
    begin, end = axis["range"]
    assert begin < np.log10(low)
    assert np.log10(low * ratio) < end
    assert all(begin <= np.log10(tick) <= end for tick in ticks)
    assert style.LEAST_TICKS <= len(ticks) <= 17
    assert [float(text.replace("k", "e3").replace("M", "e6")) for text in texts] == ticks
    assert all(float(f"{tick:.4g}") == tick for tick in ticks)


def test_an_axis_within_a_decade_says_more_than_its_middle():
    assert style.log_axis([0.0085, 0.0093])["ticktext"] == ["0.0085", "0.009", "0.0095"]
