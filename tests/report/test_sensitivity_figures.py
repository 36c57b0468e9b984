"""The tornado: bars from the scenario's gain to each end, flips marked, no markup."""

import numpy as np
import pytest

from simcore.planner.sensitivity import sensitivity
from simcore.planner.sensitivity_document import Sensitivity
from simcore.report.sensitivity_figures import flip_words, tornado_figure
from simcore.report.sensitivity_text import sensitivity_text


@pytest.fixture(scope="module")
def found(stored, scenario):
    return sensitivity(scenario, stored=stored, num_seeds=0)


@pytest.fixture(scope="module")
def drawn(found):
    return tornado_figure(found)


def _changed(found, name, **changes):
    raw = found.model_dump(mode="json")
    for effect in raw["effects"]:
        if effect["name"] == name:
            effect.update(changes)
    return Sensitivity.model_validate(raw)


def test_bars_reach_from_the_scenarios_gain_to_that_of_each_end(found, drawn):
    for bars, end in zip(drawn.data[:2], ("low", "high"), strict=True):
        reached = np.array(bars.x) + bars.base
        expected = [getattr(each, end).speedup for each in reversed(found.effects)]
        assert reached == pytest.approx(expected)
        assert bars.base == pytest.approx(found.base.speedup)


def test_the_strongest_input_is_on_top_with_its_range(found, drawn):
    top = drawn.data[0].y[-1]
    assert top.startswith(found.effects[0].name)
    assert len(drawn.data[0].y) == len(found.effects)


def test_an_axis_has_ticks_inside_its_range(drawn):
    low, high = drawn.layout.xaxis.range
    ticks = np.log10(drawn.layout.xaxis.tickvals)
    assert len(ticks) >= 2
    assert ((ticks >= low) & (ticks <= high)).all()


def test_a_flip_within_the_range_is_marked_at_one(found):
    flip = {
        "value": 9.0,
        "is_within_range": True,
        "simulated_speedup": 1.01,
        "simulated_interval": [0.98, 1.04],
        "is_confirmed": True,
    }
    changed = _changed(found, "offered load", flip=flip)
    marks = [each for each in tornado_figure(changed).data if each.name == "flips within the range"]
    assert [list(each.x) for each in marks] == [[1.0]]
    assert "simulated there: 1.010, 0.980 to 1.040" in marks[0].customdata[0]


def test_an_end_that_one_service_cannot_carry_is_drawn_beyond_the_others_and_named(found):
    grown = {"value": 99.0, "speedup": None, "grows": "off", "reason": "off grows"}
    figure = tornado_figure(_changed(found, "offered load", high=grown, swing=None))
    high = figure.data[1]
    place = next(index for index, name in enumerate(high.y) if name.startswith("offered load"))
    assert high.text[place] == "off ∞"
    assert high.x[place] == max(high.x)


def test_no_flip_says_how_far_was_looked(found):
    for effect in found.effects:
        words = flip_words(effect)
        assert words.startswith("no flip within" if effect.flip is None else "flips at")


def test_hostile_names_are_escaped(found, hostile_text):
    raw = found.model_dump(mode="json")
    raw["proposer"] = hostile_text
    raw["effects"][0]["name"] = raw["effects"][0]["range_reason"] = hostile_text
    text = tornado_figure(Sensitivity.model_validate(raw)).to_json()
    assert "<script" not in text
    assert "<img" not in text


def test_the_text_holds_every_input_with_its_range(found):
    text = sensitivity_text(found)
    for effect in found.effects:
        assert effect.name in text
        assert f"Range of {effect.name}: {effect.range_reason}" in text
