"""Predicted against measured: how far specplan's own predictions were off."""

import pandas as pd
import streamlit as st

from app import words
from app.errors import shown_errors
from app.figure import show_figure
from simcore.planner.load.accuracy import load_accuracy
from simcore.report.truth_figures import truth_figure
from simcore.report.truth_text import (
    accuracy_rows,
    choice_rows,
    choices_sentence,
    error_rows,
    median_rows,
)
from simcore.truth import Study, truth


def show_study(study: Study) -> None:
    """One check: its decisions, errors beside noise, the picture, every figure."""
    st.subheader(study.title, divider="gray")
    st.markdown(f"**{choices_sentence(study.choices)}.** {words.TRUTH}")
    left, right = st.columns([4, 5])
    left.table(pd.DataFrame(median_rows(study)), hide_index=True)
    right.table(_unbroken(pd.DataFrame(choice_rows(study))), hide_index=True)
    show_figure(truth_figure(study), key=f"truth.{study.name}")
    with st.expander("Every figure of every cell"):
        st.dataframe(pd.DataFrame(error_rows(study)), hide_index=True, width="stretch")
    st.caption(f"{study.engine}; measured on {study.date} with `{study.command}`")


def _unbroken(rows: pd.DataFrame) -> pd.DataFrame:
    """A number and its sign stay in one line, however narrow the column."""
    return rows.map(lambda cell: cell.replace(" %", "\N{NO-BREAK SPACE}%"))


with shown_errors():
    st.header("How far to trust it")
    st.markdown(words.TRUTH_PAGE)
    for each in truth().studies:
        show_study(each)
    st.subheader("The closed form against the simulator", divider="gray")
    st.markdown(words.CLOSED_FORM)
    accuracy = load_accuracy()
    st.table(pd.DataFrame(accuracy_rows(accuracy)), hide_index=True)
    st.caption(
        f"specplan {accuracy.specplan_version}, seed {accuracy.seed}, "
        f"{accuracy.num_requests:,} requests a scenario; made on {accuracy.date} with "
        f"`{accuracy.command}`"
    )
