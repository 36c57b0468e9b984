"""The page Compare: the same numbers as simcore.compare."""

import pytest

pytest.importorskip("streamlit")

from streamlit.testing.v1 import AppTest

from app import library, link, words
from app.launch import ENTRY
from simcore.planner.compare import compare, draft_lengths
from simcore.report.comparison_text import comparison_rows, difference_sentences
from simcore.report.metric_words import meaning
from simcore.scenario import dump_scenario
from simcore.scenario_files import open_scenario

KEY = "compare.run"


@pytest.fixture
def scenario():
    return open_scenario("h100_chat").with_(**{"workload.num_requests": 150})


def _visit(scenario) -> AppTest:
    at = AppTest.from_file(str(ENTRY), default_timeout=60)
    at.query_params[link.PARAMETER] = link.encode(scenario)
    at.run().switch_page("app_pages/compare.py").run()
    assert not at.exception, at.exception
    return at


def _compare(at: AppTest, finish) -> AppTest:
    at.number_input(key="compare.seeds").set_value(2)
    next(each for each in at.button if each.label == "Compare").click().run()
    return finish(at, KEY)


def test_the_table_is_that_of_compare(scenario, finish):
    at = _visit(scenario)
    at.multiselect(key="compare.chosen").set_value(["off", "as in the sidebar", "eagle γ=7"])
    _compare(at, finish)
    assert not at.error, [each.value for each in at.error]
    services = {
        "off": draft_lengths(scenario, (), (0,))["off"],
        "as in the sidebar": scenario,
        "eagle γ=7": draft_lengths(scenario, (), (7,))["eagle γ=7"],
    }
    expected = compare(services, num_seeds=2)
    rows = comparison_rows(expected.services)
    shown = at.table[0].value
    assert list(shown.columns) == list(services)
    assert [(name, *shown.loc[name]) for name in shown.index] == rows
    text = "\n".join(each.value for each in at.markdown)
    for service in expected.services[1:]:
        assert service.differences
        for sentence in difference_sentences(service):
            assert f"- {sentence}" in text
    assert [each.value for each in at.warning] == list(expected.caveats)
    assert meaning("goodput_per_s") in text
    assert words.CHANGES in [each.value for each in at.caption]


def test_a_saved_deployment_serves_the_workload_in_force(scenario, finish):
    two = scenario.with_(**{"deployment.replicas": 2, "workload.num_requests": 99})
    library.save("scenario", "two replicas", dump_scenario(two))
    library.save("scenario", "broken", "seed: [")
    at = _visit(scenario)
    box = at.multiselect(key="compare.chosen")
    assert "saved: broken" not in box.options
    box.set_value(["as in the sidebar", "saved: two replicas"])
    _compare(at, finish)
    reference, other = at.session_state[KEY].result.services
    assert other.scenario.deployment.replicas == 2
    assert other.scenario.workload == reference.scenario.workload == scenario.workload


def test_one_service_alone_is_refused_in_a_sentence(scenario, finish):
    at = _visit(scenario)
    at.multiselect(key="compare.chosen").set_value(["off"])
    _compare(at, finish)
    assert "expected two to 4 services" in at.error[0].value
