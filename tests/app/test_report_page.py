"""The page Report: the last plan as files, settings, alerts, load test and difference."""

import threading

import pytest

pytest.importorskip("streamlit")

from streamlit.testing.v1 import AppTest

from app import library, link, words
from app.job import Job
from app.launch import ENTRY
from app.plan_section import with_files
from simcore.planner.plan import make_plan
from simcore.planner.plan_diff import diff_plans
from simcore.planner.plan_file import parse_plan
from simcore.report.alerts import alerts_yaml
from simcore.report.diff_text import diff_text
from simcore.report.flags import engine_settings
from simcore.report.load_test import load_test, load_test_script
from simcore.scenario_files import open_scenario

PLAN = "decide.plan"


@pytest.fixture(scope="module")
def made() -> Job:
    """A plan of few requests. That the page Decide makes the same is proved there."""
    scenario = open_scenario("h100_chat").with_(**{"workload.num_requests": 150})
    job = Job(lambda _: with_files(make_plan(scenario, num_replications=2)), scenario, "runs")
    job.wait()
    return job


@pytest.fixture
def planned(made) -> AppTest:
    """A visit that has made a plan."""
    at = AppTest.from_file(str(ENTRY), default_timeout=60)
    at.query_params[link.PARAMETER] = link.encode(made.asked)
    at.session_state[PLAN] = made
    at.run().switch_page("app_pages/report.py").run()
    assert not at.exception, at.exception
    return at


def _view(at: AppTest, name: str) -> list[str]:
    at.segmented_control(key="report.view").set_value(name).run()
    assert not at.exception, at.exception
    assert not at.error
    return [each.value.strip() for each in at.code]


def test_without_a_plan_the_page_says_how_to_make_one():
    at = AppTest.from_file(str(ENTRY), default_timeout=60).run()
    at.switch_page("app_pages/report.py").run()
    assert not at.exception
    assert "no plan in this visit" in at.info[0].value


def test_a_plan_that_is_being_made_shows_its_progress_here_too():
    go_on = threading.Event()

    def work(advance):
        advance(3, 40)
        go_on.wait(20)
        advance(4, 40)

    at = AppTest.from_file(str(ENTRY), default_timeout=60)
    at.session_state[PLAN] = Job(work, None, "simulations")
    at.run().switch_page("app_pages/report.py").run()
    assert not at.info
    at.button(key=f"{PLAN}.cancel").click().run()
    go_on.set()
    at.run()
    assert [each.value for each in at.info] == ["Cancelled; nothing was kept."]


def test_every_part_is_that_of_the_plan_and_a_kept_plan_shows_what_changed(planned):
    plan = planned.session_state[PLAN].result.plan
    shown = _view(planned, "Engine settings")
    assert {each.command for each in engine_settings(plan).values()} <= set(shown)
    assert _view(planned, "Alerts") == [alerts_yaml(plan, "vllm").strip()]
    assert _view(planned, "Load test") == [load_test_script(load_test(plan)).strip()]
    planned.text_input(key="kept.plan.name").set_value("first")
    next(each for each in planned.button if each.label == "Keep").click().run()
    (kept,) = library.saved("plan")
    assert parse_plan(kept.content, kept.name) == plan
    assert _view(planned, "Against a saved plan") == [diff_text(diff_plans(plan, plan)).strip()]


def test_a_plan_of_other_inputs_than_the_sidebars_is_handed_over_with_a_warning(planned):
    assert not planned.warning
    planned.number_input(key="sidebar.h100_chat (1).seed").set_value(9).run()
    assert [each.value for each in planned.warning] == [words.PLAN_OF_OTHER_INPUTS]
    assert planned.session_state[PLAN].result.plan.scenario.seed != 9


def test_a_damaged_kept_plan_is_one_sentence_and_can_be_forgotten(planned):
    library.save("plan", "broken", "{}")
    planned.segmented_control(key="report.view").set_value("Against a saved plan").run()
    assert "broken holds no plan" in planned.error[0].value
    planned.button(key="kept.plan.open").click().run()
    assert "broken holds no plan" in planned.error[0].value
    planned.button(key="kept.plan.forget").click().run()
    assert library.saved("plan") == ()


def test_a_kept_plan_is_handed_over_in_the_next_visit(planned):
    next(each for each in planned.button if each.label == "Keep").click().run()
    plan = planned.session_state[PLAN].result.plan
    at = AppTest.from_file(str(ENTRY), default_timeout=60).run()
    at.switch_page("app_pages/report.py").run()
    at.button(key="kept.plan.open").click().run()
    assert at.session_state[PLAN].result.plan == plan
    assert at.session_state[PLAN].result.report == planned.session_state[PLAN].result.report
    shown = _view(at, "Engine settings")
    assert {each.command for each in engine_settings(plan).values()} <= set(shown)
    labels = {each.label for each in at.get("download_button")}
    assert "Download the report (HTML, one file)" in labels
