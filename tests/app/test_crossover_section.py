"""Maps on the page Speculate and the tornado on the page Decide: those of simcore."""

import pytest

pytest.importorskip("streamlit")

from streamlit.testing.v1 import AppTest

from app import link
from app.launch import ENTRY
from simcore.planner.crossover import crossover_map
from simcore.planner.sensitivity import sensitivity
from simcore.profile.store import load_profile
from simcore.report.map_text import break_even_words
from simcore.report.sensitivity_text import sensitivity_rows, sensitivity_sentence
from simcore.scenario_files import open_scenario

MAP, TORNADO = "speculate.crossover", "decide.sensitivity"


def _visit(name: str, page: str) -> AppTest:
    at = AppTest.from_file(str(ENTRY), default_timeout=60)
    at.query_params[link.PARAMETER] = link.encode(open_scenario(name))
    at.run().switch_page(f"app_pages/{page}.py").run()
    assert not at.exception, at.exception
    return at


def _press(at: AppTest, label: str) -> AppTest:
    return next(each for each in at.button if each.label == label).click().run()


def _markdown(at: AppTest) -> str:
    return "\n".join(each.value for each in at.markdown)


@pytest.mark.parametrize("kind", ["load_gamma", "batch_acceptance", "context_gamma", "budget_load"])
def test_a_map_is_that_of_crossover_map(kind, finish):
    at = _visit("cpu_chat", "speculate")
    before = len(at.get("plotly_chart"))
    at.selectbox(key=f"{MAP}.kind").set_value(kind)
    at.selectbox(key=f"{MAP}.metric").set_value("tpot")
    finish(_press(at, "Draw the map"), MAP)
    scenario = at.session_state["scenario"]
    expected = crossover_map(load_profile(scenario.profile), scenario, kind, metric="tpot")
    assert at.session_state[MAP].result == expected
    assert len(at.get("plotly_chart")) == before + 1
    for line in break_even_words(expected):
        assert line in _markdown(at)
    captions = "\n".join(each.value for each in at.caption)
    assert "In closed form from profile smollm2_135m_cpu" in captions


def test_a_map_that_the_profile_cannot_answer_is_one_sentence(finish):
    at = _visit("h100_chat", "speculate")
    at.selectbox(key=f"{MAP}.kind").set_value("budget_load")
    finish(_press(at, "Draw the map"), MAP)
    assert "no recorded ranks" in at.error[0].value


def test_the_tornado_is_that_of_sensitivity(finish):
    at = _visit("h100_chat", "decide")
    at.number_input(key=f"{TORNADO}.seeds").set_value(0)
    before = len(at.get("plotly_chart"))
    finish(_press(at, "Move every input"), TORNADO)
    expected = sensitivity(at.session_state["scenario"], num_seeds=0)
    assert at.session_state[TORNADO].result == expected
    assert len(at.get("plotly_chart")) == before + 1
    assert sensitivity_sentence(expected) in _markdown(at)
    (table,) = (each.value for each in at.dataframe)
    assert [tuple(row) for row in table.itertuples(index=False)] == sensitivity_rows(expected)
    key = next(each.key for each in at.number_input if each.key.endswith(".seed"))
    at.number_input(key=key).set_value(9).run()
    assert any("Move every input again" in each.value for each in at.warning)
