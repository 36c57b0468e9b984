"""Counts beside recorded requests: the two do not mix, and a visit goes on with what it brought."""

import pytest

pytest.importorskip("streamlit")
pytest.importorskip("playwright")  # the story's acts need it

from streamlit.testing.v1 import AppTest

from app.launch import ENTRY
from simcore.matching import domains_by_sort
from tests.app.story import ACCEPTED_BY_POSITION, DOMAIN, METRICS, PROFILE

RECORDED = ["chat", "code", "rewrite", "story"]


@pytest.fixture
def imported() -> AppTest:
    """A visit that brought counts of the proposer in force."""
    at = AppTest.from_file(str(ENTRY), default_timeout=60).run()
    at.selectbox(key="sidebar.profile").set_value(PROFILE).run()
    at.switch_page("app_pages/calibrate.py").run()
    at.text_area(key="calibrate.import.pasted").set_value(METRICS)
    at.text_input(key="calibrate.import.domain").set_value(DOMAIN)
    next(each for each in at.button if each.label == "Show what is in it").click().run()
    next(each for each in at.button if each.label == "Use it").click().run()
    assert not at.exception, at.exception
    return at


def _domains(at: AppTest):
    return next(each for each in at.multiselect if each.label == "Domains")


def test_the_visit_goes_on_with_what_was_imported(imported):
    assert not imported.error, [each.value for each in imported.error]
    scenario = imported.session_state["scenario"]
    assert scenario.workload.domains == {DOMAIN: 1.0}
    assert scenario.speculation.proposer == "ngram"
    assert scenario.speculation.num_speculative_tokens == len(ACCEPTED_BY_POSITION)
    assert _domains(imported).options == sorted([*RECORDED, DOMAIN])


def test_nothing_chosen_means_all_of_one_sort(imported):
    _domains(imported).set_value([]).run()
    assert not imported.error
    assert list(imported.session_state["scenario"].workload.domains) == RECORDED


def test_both_sorts_at_once_are_refused_in_a_sentence_and_can_be_taken_back(imported):
    _domains(imported).set_value([DOMAIN, "chat"]).run()
    assert "expected one sort" in imported.error[0].value
    _domains(imported).set_value(["chat"]).run()
    assert not imported.error
    assert list(imported.session_state["scenario"].workload.domains) == ["chat"]


def test_the_domains_of_a_profile_are_sorted_by_what_they_hold(imported):
    scenario = imported.session_state["scenario"]
    stored = imported.session_state["profiles"][scenario.profile]
    assert domains_by_sort(stored, scenario, "ngram") == (tuple(RECORDED), (DOMAIN,))
    assert domains_by_sort(stored, scenario, "draft_model") == (tuple(RECORDED), ())
