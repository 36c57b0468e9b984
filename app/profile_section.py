"""The profile in force: timed samples against the law, residuals, the measured box."""

import pandas as pd
import streamlit as st

from app import words
from app.figure import show_figure
from simcore.cost.fitted import fitted_samples
from simcore.profile.store import StoredProfile
from simcore.report.cost_figures import (
    cost_residuals_figure,
    cost_samples_figure,
    measured_box_figure,
)


def show_profile(stored: StoredProfile) -> None:
    """Pictures of the cost samples where the profile holds them, and its acceptance records."""
    st.subheader("What a step costs", divider="gray")
    if "cost" in stored.profile.tables:
        fitted = fitted_samples(stored.profile.cost, stored.cost_samples.to_pandas())
        left, right = st.columns(2)
        with left:
            show_figure(cost_samples_figure(fitted), key="calibrate.samples")
            show_figure(measured_box_figure(fitted), key="calibrate.box")
        with right:
            show_figure(cost_residuals_figure(fitted), key="calibrate.residuals")
            st.caption(words.RESIDUALS)
    else:
        st.info(
            f"This profile holds no timed samples ({stored.profile.source.value}): its cost law is "
            "taken from the source that Provenance names. Measure your own machine with "
            "`python -m calibration measure`, or import step times above."
        )
    st.subheader("How drafts fare", divider="gray")
    st.dataframe(acceptance_table(stored), hide_index=True, width="stretch")


def acceptance_table(stored: StoredProfile) -> pd.DataFrame:
    """One row a record: of what, under which sampling and contract, how far."""
    return pd.DataFrame(
        [
            {
                "proposer": record.proposer,
                "domain": record.domain,
                "sampling": words.sampling_label(record.sampling),
                "contract": record.contract.value.replace("_", " "),
                "kind": record.kind.replace("_", " "),
                "longest draft (tokens)": record.max_num_speculative_tokens,
                "requests": record.num_requests or None,
            }
            for record in stored.profile.acceptance
        ]
    )
