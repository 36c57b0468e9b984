"""Results that are kept are there for the next visit, after a restart too."""

import pytest

pytest.importorskip("streamlit")

from streamlit.testing.v1 import AppTest

from app import library, link
from app.launch import ENTRY
from simcore.scenario_files import open_scenario

WORK = {  # kind -> page, key of its job, label of its button, key of its number of seeds
    "simulation": ("serve", "serve.runs", "Simulate", None),
    "comparison": ("compare", "compare.run", "Compare", "compare.seeds"),
}


def _visit(page: str, requests: int = 150) -> AppTest:
    scenario = open_scenario("h100_chat").with_(**{"workload.num_requests": requests})
    at = AppTest.from_file(str(ENTRY), default_timeout=60)
    at.query_params[link.PARAMETER] = link.encode(scenario)
    at.run().switch_page(f"app_pages/{page}.py").run()
    assert not at.exception, at.exception
    return at


def _press(at: AppTest, label: str) -> AppTest:
    next(each for each in at.button if each.label == label).click().run()
    assert not at.exception, at.exception
    return at


def _tables(at: AppTest) -> list[dict]:
    return [each.value.to_dict() for each in at.table]


@pytest.mark.parametrize("kind", list(WORK))
def test_a_kept_result_shows_the_same_numbers_in_the_next_visit(kind, finish):
    page, key, label, seeds = WORK[kind]
    first = _visit(page)
    if seeds:
        first.number_input(key=seeds).set_value(2)
    finish(_press(first, label), key)
    before = _tables(first)
    assert before
    first.text_input(key=f"kept.{kind}.name").set_value("for Monday")
    _press(first, "Keep")
    assert [each.name for each in library.saved(kind)] == ["for Monday"]

    second = _visit(page)
    assert _tables(second) == []
    _press(second, "Open")
    assert not second.error, [each.value for each in second.error]
    assert _tables(second) == before
    assert [each.value for each in second.warning] == [each.value for each in first.warning]
    assert [each.value for each in second.metric] == [each.value for each in first.metric]
    other = _visit(page, requests=160)
    _press(other, "Open")
    assert any("inputs have changed" in each.value for each in other.warning)
    _press(other, "Forget")
    assert library.saved(kind) == ()


def test_a_kept_run_gives_its_scenario_back(finish):
    first = _visit("serve")
    finish(_press(first, "Simulate"), "serve.runs")
    _press(first, "Keep")
    second = _visit("serve", requests=160)
    _press(second, "Open")
    assert "Only the numbers" in second.info[0].value
    _press(second, "Open its scenario")
    assert second.session_state["scenario"] == first.session_state["scenario"]
    finish(_press(second, "Simulate"), "serve.runs")
    assert _tables(second) == _tables(first)
    assert len(second.get("plotly_chart")) == 4


def test_a_result_of_another_version_says_so_before_it_is_opened(monkeypatch):
    library.save("simulation", "of now", "{}")
    monkeypatch.setattr(library, "specplan_version", lambda: "0.0.1")
    library.save("simulation", "of then", "{}")
    of_then, of_now = sorted(
        _visit("serve").selectbox(key="kept.simulation.chosen").options, reverse=True
    )
    assert of_then.startswith("of then")
    assert of_then.endswith("UTC, specplan 0.0.1)")
    assert of_now.endswith("UTC)")


@pytest.mark.parametrize(
    ("kind", "page", "content"),
    [
        ("simulation", "serve", ""),
        ("comparison", "compare", '{"asked": 3}'),
        ("capacity", "capacity", "[1]"),
    ],
)
def test_a_damaged_kept_result_is_one_sentence_and_can_be_forgotten(kind, page, content):
    library.save(kind, "broken", content)
    at = _press(_visit(page), "Open")
    assert "broken cannot be opened" in at.error[0].value
    assert len(at.error) == 1
    _press(at, "Forget")
    assert library.saved(kind) == ()
