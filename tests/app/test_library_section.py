"""Opening and saving scenarios from the sidebar."""

import pytest

pytest.importorskip("streamlit")

from streamlit.testing.v1 import AppTest

from app import library
from app.launch import ENTRY
from simcore.scenario import dump_scenario, load_scenario
from simcore.scenario_files import open_scenario


def _visit() -> AppTest:
    at = AppTest.from_file(str(ENTRY), default_timeout=60).run()
    assert not at.exception, at.exception
    return at


def test_a_saved_scenario_is_opened_by_the_next_visitor():
    first = _visit()
    key = next(each.key for each in first.number_input if each.key.endswith(".seed"))
    first.number_input(key=key).set_value(31).run()
    first.text_input(key="library.name").set_value("for the night")
    next(each for each in first.button if each.label == "Save").click().run()
    second = _visit()
    assert second.session_state["scenario"].seed != 31
    second.button(key="library.open").click().run()
    assert not second.exception
    assert second.session_state["scenario"] == first.session_state["scenario"]
    second.button(key="library.delete").click().run()
    assert library.saved("scenario") == ()


def test_an_opened_scenario_can_be_left_and_another_opened():
    names = {"one": 11, "two": 12}
    for name, seed in names.items():
        asked = open_scenario("h100_chat").with_(seed=seed)
        library.save("scenario", name, dump_scenario(asked))
    at = _visit()
    for name, seed in names.items():
        at.selectbox(key="library.chosen").set_value(name).run()
        at.button(key="library.open").click().run()
        assert at.session_state["scenario"].seed == seed
    at.selectbox(key="sidebar.llama31_8b_h100.workload").set_value("h100_chat").run()
    assert at.session_state["scenario"].seed == 1


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("seed: [", "expected a scenario in YAML"),
        ("- 1", "expected a mapping"),
        ("profile: x", "missing; add it"),
    ],
)
def test_a_saved_text_that_is_no_scenario_is_one_sentence(content, said):
    library.save("scenario", "broken", content)
    at = _visit()
    before = at.session_state["scenario"]
    at.button(key="library.open").click().run()
    assert not at.exception
    assert any(said in each.value for each in at.error), [each.value for each in at.error]
    assert at.session_state["scenario"] == before


def test_what_is_downloaded_is_the_scenario_in_force(tmp_path):
    at = _visit()
    path = tmp_path / "scenario.yaml"
    path.write_text(dump_scenario(at.session_state["scenario"]), encoding="utf-8")
    assert load_scenario(path) == at.session_state["scenario"]
