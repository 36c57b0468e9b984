"""Make the plan, show the decision, and hand over the report."""

import io
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

import streamlit as st

from app import words
from app.figure import show_figure
from app.job import Advance, finished_job, start_job
from simcore.planner.document import Plan
from simcore.planner.plan import DEFAULT_REPLICATIONS, make_plan
from simcore.profile.store import StoredProfile
from simcore.report.figures import candidates_figure, load_figure
from simcore.report.recommendation_view import recommendation_sentences
from simcore.report.table import escape_markdown
from simcore.report.view import served_name
from simcore.report.write import write_report
from simcore.scenario import Scenario

KEY = "decide.plan"
REPORT_FILE = "report.html"


@dataclass(frozen=True)
class PlanWithFiles:
    """A plan and its report."""

    plan: Plan
    report: bytes
    archive: bytes


def show_plan(stored: StoredProfile, scenario: Scenario) -> None:
    """The form, and the last plan."""
    st.header("Make the plan", divider="gray")
    st.markdown(
        "Compares off with every measured draft length at this load, and policies made for this "
        "service at three loads; recommends one, and finds the load where it stops paying."
    )
    with st.form("decide.plan_form"):
        left, right = st.columns(2, vertical_alignment="bottom")
        replications = left.number_input(
            "Repeated simulations a candidate",
            min_value=2,
            max_value=1000,
            value=DEFAULT_REPLICATIONS,
            key="decide.replications",
            help=words.REPLICATIONS,
        )
        every = right.checkbox(
            "Compare every proposer",
            help=words.EVERY_PROPOSER,
            key="decide.every_proposer",
        )
        pressed = st.form_submit_button("Make the plan", type="primary")
    if pressed:
        start_job(
            KEY,
            lambda advance: _make(stored, scenario, int(replications), every, advance),
            scenario,
        )
    job = finished_job(KEY)
    if job is not None:
        if job.asked != scenario:
            st.warning("The inputs have changed since this plan. Make the plan again.")
        _show(job.result)


def _make(
    stored: StoredProfile, scenario: Scenario, replications: int, every: bool, advance: Advance
) -> PlanWithFiles:
    if every:
        scenario = scenario.with_(speculation={})
    return with_files(
        make_plan(scenario, stored=stored, num_replications=replications, progress=advance)
    )


def with_files(plan: Plan) -> PlanWithFiles:
    """The plan with its report, all files written."""
    with tempfile.TemporaryDirectory() as folder:
        files = write_report(plan, Path(folder) / "plan")
        report = next(path for path in files if path.name == REPORT_FILE).read_bytes()
        archive = _zip(files)
    return PlanWithFiles(plan, report, archive)


def _zip(files: list[Path]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in files:
            archive.write(path, path.name)
    return buffer.getvalue()


def _show(made: PlanWithFiles) -> None:
    plan = made.plan
    decision = plan.decision
    if decision.choice == "speculate":
        st.success(f"**Ship {served_name(plan)}.** {decision.reason}")
    else:
        st.info(f"**Leave speculation off.** {decision.reason}")
    st.markdown(f"Break-even: {plan.break_even.reason}.")
    for sentence in recommendation_sentences(plan)[1:]:
        st.markdown(escape_markdown(sentence))
    left, right = st.columns(2)
    with left:
        show_figure(candidates_figure(plan), key="decide.candidates")
    with right:
        show_figure(load_figure(plan), key="decide.load")
    if plan.caveats:
        st.markdown("**Before you sign**\n\n" + "\n".join(f"- {text}" for text in plan.caveats))
    show_downloads(made)
    st.caption(words.origin_line(plan.origin))


def show_downloads(made: PlanWithFiles) -> None:
    """The report alone, and everything that goes with it."""
    report, archive = st.columns(2)
    report.download_button(
        "Download the report (HTML, one file)",
        made.report,
        file_name=REPORT_FILE,
        mime="text/html",
        key="decide.download_report",
        on_click="ignore",
        width="stretch",
    )
    archive.download_button(
        "Download all files (zip)",
        made.archive,
        file_name="specplan-plan.zip",
        mime="application/zip",
        key="decide.download_archive",
        on_click="ignore",
        width="stretch",
    )
