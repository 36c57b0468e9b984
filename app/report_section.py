"""The last plan as it is handed over: preview, files, settings to copy, and what changed since."""

import streamlit as st

from app import library, words
from app.errors import show_error, shown_errors
from app.job import finished_job
from app.kept_section import show_keep, show_kept_results
from app.plan_section import KEY as PLAN_KEY
from app.plan_section import PlanWithFiles, show_downloads, with_files
from app.session import current_scenario
from simcore.errors import SpecplanError
from simcore.planner.document import Plan
from simcore.planner.plan_diff import diff_plans
from simcore.planner.plan_file import parse_plan
from simcore.report.alerts import alerts_yaml
from simcore.report.diff_text import diff_text
from simcore.report.engine import EngineSettings
from simcore.report.flags import engine_settings
from simcore.report.load_test import load_test, load_test_script
from simcore.scenario import Scenario

ALERT_ENGINES = ("vllm", "sglang")
PREVIEW_HEIGHT = 900  # pixels
PREFIX = "report"


def show_report() -> None:
    """Everything of the last plan of this session; without one, how to make it."""
    show_kept_results("plan", PLAN_KEY, _read)
    if PLAN_KEY not in st.session_state:
        st.info(words.NO_PLAN)
        st.page_link("app_pages/decide.py", label="Make the plan on the page Decide")
        return
    job = finished_job(PLAN_KEY)
    if job is None:
        return
    made: PlanWithFiles = job.result
    if job.asked not in (None, current_scenario()):
        st.warning(words.PLAN_OF_OTHER_INPUTS)
    show_downloads(made)
    show_keep("plan", made.plan.scenario.name, made.plan.model_dump_json)
    view = st.segmented_control(
        "Show",
        ["Report", "Engine settings", "Alerts", "Load test", "Against a saved plan"],
        default="Report",
        required=True,
        key=f"{PREFIX}.view",
    )
    with shown_errors():
        _show_view(str(view), made)


def _show_view(view: str, made: PlanWithFiles) -> None:
    if view == "Report":
        st.iframe(made.report.decode("utf-8"), height=PREVIEW_HEIGHT)
    elif view == "Engine settings":
        for settings in engine_settings(made.plan).values():
            _show_settings(settings)
    elif view == "Alerts":
        engine = st.segmented_control(
            "Engine", ALERT_ENGINES, default="vllm", required=True, key=f"{PREFIX}.alerts"
        )
        st.code(alerts_yaml(made.plan, str(engine)), language="yaml")
    elif view == "Load test":
        st.code(load_test_script(load_test(made.plan)), language="bash", wrap_lines=True)
    else:
        _show_diff(made.plan)


def _show_settings(settings: EngineSettings) -> None:
    """Ready to paste; what the engine cannot do stands above the nearest that it can."""
    st.subheader(f"{settings.engine} {settings.version}", divider="gray")
    if settings.refusal is not None:
        st.warning(f"{settings.refusal} Below is the nearest that it can do.")
    st.code(settings.command, language="bash", wrap_lines=True)
    for file in settings.files:
        st.markdown(f"`{file.name}`")
        st.code(file.content, language=file.name.rsplit(".", 1)[-1])
    if settings.notes:
        st.markdown("\n".join(f"- {note}" for note in settings.notes))


def _read(content: str, name: str) -> tuple[Scenario, PlanWithFiles]:
    """Raises PlanError."""
    plan = parse_plan(content, name)
    return plan.scenario, with_files(plan)


def _show_diff(plan: Plan) -> None:
    """What changed from a kept plan to this one."""
    kept = [each.name for each in library.listed("plan")]
    if not kept:
        st.info("No plan is kept yet. Keep one, change something, plan again, and compare.")
        return
    name = st.selectbox("From the kept plan", kept, key=f"{PREFIX}.kept")
    try:
        before = parse_plan(library.content_of("plan", name), name)
    except SpecplanError as error:
        show_error(str(error))
    else:
        st.code(diff_text(diff_plans(before, plan)), language=None, wrap_lines=True)
