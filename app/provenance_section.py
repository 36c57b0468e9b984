"""Where the profile's numbers come from, and where they end."""

import pandas as pd
import streamlit as st

from app import words
from simcore.profile.schema import Profile
from simcore.profile.store import StoredProfile
from simcore.report.table import escape_markdown
from simcore.report.units import percent
from simcore.scenario import Scenario


def show_badges(stored: StoredProfile, scenario: Scenario) -> None:
    """Source, contract and sampling: always in sight, beside every result."""
    source, contract = stored.profile.source, scenario.contract
    with st.container(horizontal=True):
        st.badge(
            f"{source.value} profile",
            color=words.SOURCE_COLORS[source],
            help=words.SOURCE_HELP[source],
        )
        st.badge(
            f"{words.sampling_label(scenario.sampling)}: {contract.value.replace('_', ' ')}",
            color="gray",
            help=words.CONTRACT_HELP[contract],
        )


def show_provenance(stored: StoredProfile) -> None:
    """Identity, how it was obtained, errors of the fit and the measured box."""
    profile = stored.profile
    with st.expander("Provenance of the numbers"):
        st.markdown(words.SOURCE_HELP[profile.source])
        left, right = st.columns(2)
        with left:
            st.markdown("**What was run**")
            st.table(pd.DataFrame({"": identity_words(profile)}), hide_header=True)
        with right:
            st.markdown("**Measured box of the cost law** (beyond it, time is extrapolated)")
            st.table(pd.DataFrame({"": box_words(profile)}), hide_header=True)
            st.markdown("**Error of the cost law on samples that its fit did not see**")
            _show_errors(profile)
        _show_record(stored)


def identity_words(profile: Profile) -> dict[str, str]:
    """What was run, label -> text."""
    target, hardware = profile.identity.target, profile.identity.hardware
    engine = profile.identity.engine
    return {
        "Target model": target.name,
        "Revision": target.revision,
        "Numbers": f"{target.dtype}, quantization {target.quantization}",
        "Machine": f"{hardware.device_count} × {hardware.name}",
        "Engine": f"{engine.name} {engine.version}",
        "Tensor parallel": str(profile.identity.tensor_parallel),
        "Date": profile.provenance.date,
    }


def box_words(profile: Profile) -> dict[str, str]:
    """How far the cost law was measured, label -> text."""
    box = profile.cost.domain
    return {
        "Batch": f"up to {box.max_batch_size:,} requests",
        "Context": f"up to {box.max_context_tokens:,} tokens a request",
        "Checked in one pass": f"up to {box.max_query_tokens_per_request:,} tokens a request",
        "Step": f"up to {box.max_step_tokens:,} tokens",
    }


def _show_errors(profile: Profile) -> None:
    errors = profile.cost.held_out_error
    if not errors:
        st.caption("The source states none.")
        return
    rows = {
        phase: {
            "median": percent(error.median_rel),
            "90 % below": percent(error.p90_rel),
            "largest": percent(error.max_rel),
            "samples": f"{error.num_samples:,}",
        }
        for phase, error in errors.items()
    }
    st.table(pd.DataFrame.from_dict(rows, orient="index"))


def _show_record(stored: StoredProfile) -> None:
    provenance = stored.profile.provenance
    if provenance.command:
        st.markdown("**Command**")
        st.code(provenance.command, language="bash", wrap_lines=True)
    if provenance.versions:
        listed = ", ".join(f"{name} {version}" for name, version in provenance.versions.items())
        st.markdown(f"**Versions:** {listed}")
    for title, texts in (("Citations", provenance.citations), ("Notes", provenance.notes)):
        if texts:
            st.markdown(
                f"**{title}**\n\n" + "\n".join(f"- {escape_markdown(text)}" for text in texts)
            )
    st.caption(f"Profile {stored.profile.name}, sha256 of profile.json {stored.content_hash}")
