"""Runs of the pages' scripts without a browser: what a slider costs the server."""

import logging
import time
from collections.abc import Callable, Iterator
from typing import Any

from streamlit.testing.v1 import AppTest
from streamlit.testing.v1.element_tree import SelectSlider

from app.launch import ENTRY
from tests.app.laps import next_direction

NUM_ROUNDS = 6
TIMEOUT_S = 60
PAGES = ("decide", "speculate", "serve", "capacity", "compare", "calibrate", "truth", "report")

Laps = dict[str, list[float]]


def time_reruns(
    profile: str, pages: tuple[str, ...] = PAGES, num_rounds: int = NUM_ROUNDS
) -> dict[str, Laps]:
    """page -> slider -> seconds of reruns; a round moves every slider of the page once."""
    logging.disable(logging.WARNING)  # that there is no server
    at = AppTest.from_file(str(ENTRY), default_timeout=TIMEOUT_S).run()
    at.selectbox(key="sidebar.profile").set_value(profile).run()
    found = {}
    for page in pages:
        at.switch_page(f"app_pages/{page}.py").run()
        found[page] = _time_page(at, num_rounds)
    return found


def _time_page(at: AppTest, num_rounds: int) -> Laps:
    laps: Laps = {}
    directions: dict[str, int] = {}
    for lap in range(num_rounds + 1):  # the first is for what is made once
        for label in [each.label for each in _sliders(at)]:
            slider = next((each for each in _sliders(at) if each.label == label), None)
            if slider is None:
                continue  # at γ = 0 some go
            direction, move = _step(slider, directions.get(label, 1))
            directions[label] = direction
            move()
            began_s = time.perf_counter()
            at.run()
            if lap:
                laps.setdefault(label, []).append(time.perf_counter() - began_s)
            assert not at.exception, at.exception
    return laps


def _sliders(at: AppTest) -> Iterator[Any]:
    yield from at.select_slider
    yield from at.slider


def _step(slider: Any, direction: int) -> tuple[int, Callable[[], Any]]:
    """One step on, or back from an end; the move that a test makes."""
    if isinstance(slider, SelectSlider):
        options = [type(slider.value)(each) for each in slider.options]
        place = options.index(slider.value)
        direction = next_direction(place, 0, len(options) - 1, direction)
        return direction, lambda: slider.set_value(options[place + direction])
    direction = next_direction(slider.value, slider.min, slider.max, direction)
    value = min(max(slider.value + direction * slider.step, slider.min), slider.max)
    return direction, lambda: slider.set_value(value)
