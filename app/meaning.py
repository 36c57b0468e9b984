"""What the numbers of a table mean, below it."""

from collections.abc import Iterable, Mapping

import streamlit as st

from simcore.report.metric_words import meanings_of


def show_meanings(rows: Iterable[str], others: Mapping[str, str] | None = None) -> None:
    """The definition of every row, closed at first; `others`: of rows that are no headline."""
    with st.expander("What these numbers mean"):
        st.markdown("\n".join(f"- {text}" for text in meanings_of(rows, others)))
