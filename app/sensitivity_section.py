"""Which input, moved by how much, would turn the decision."""

import pandas as pd
import streamlit as st

from app import words
from app.figure import show_figure
from app.job import finished_job, start_job
from simcore.planner.sensitivity import DEFAULT_SEEDS, sensitivity
from simcore.planner.sensitivity_document import Sensitivity
from simcore.profile.store import StoredProfile
from simcore.report.sensitivity_figures import tornado_figure
from simcore.report.sensitivity_text import HEADER, sensitivity_rows, sensitivity_sentence
from simcore.scenario import Scenario

KEY = "decide.sensitivity"


def show_sensitivity(stored: StoredProfile, scenario: Scenario) -> None:
    """The form, the progress, and the last tornado."""
    st.subheader("What would change the decision?", divider="gray", help=words.SENSITIVITY)
    with st.form(f"{KEY}.form"):
        left, right = st.columns(2, vertical_alignment="bottom")
        seeds = left.number_input(
            "Simulations at every flip (0: closed form only)",
            min_value=0,
            max_value=100,
            value=DEFAULT_SEEDS,
            key=f"{KEY}.seeds",
            help=words.FLIPS,
        )
        if right.form_submit_button("Move every input", type="primary", width="stretch"):
            start_job(
                KEY,
                lambda advance: sensitivity(
                    scenario, stored=stored, num_seeds=int(seeds), progress=advance
                ),
                scenario,
                unit="inputs",
            )
    job = finished_job(KEY)
    if job is None:
        return
    if job.asked != scenario:
        st.warning("The inputs have changed since. Move every input again.")
    _show(job.result)


def _show(found: Sensitivity) -> None:
    st.markdown(f"**{sensitivity_sentence(found)}.**")
    show_figure(tornado_figure(found), key=f"{KEY}.figure")
    with st.expander("Every input with its range"):
        rows = pd.DataFrame(sensitivity_rows(found), columns=_unlike(HEADER))
        st.dataframe(rows, hide_index=True, width="stretch")
        ranges = [f"{each.name}: {each.range_reason}" for each in found.effects]
        left_out = [f"left out, {name}: {reason}" for name, reason in found.left_out.items()]
        st.markdown("\n".join(f"- {line}" for line in (*ranges, *left_out, *found.notes)))
    st.caption(words.origin_line(found.origin, is_simulated=False))


def _unlike(header: tuple[str, ...]) -> list[str]:
    """A table's columns need names of their own: both ends have an S."""
    return [
        f"S at {header[place - 1]}" if name == "S there" else name
        for place, name in enumerate(header)
    ]
