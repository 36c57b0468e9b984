"""Where speculation pays: speed-up and break-even over batch and drafts."""

import streamlit as st

from app import words
from app.figure import show_kept
from simcore.planner.speedup import CycleSurvival
from simcore.planner.speedup_map import speedup_map
from simcore.profile.store import StoredProfile
from simcore.report.figures import break_even_figure, speedup_map_figure
from simcore.scenario import Scenario


def show_payoff(
    stored: StoredProfile,
    scenario: Scenario,
    survivals: tuple[CycleSurvival, ...],
    context_tokens: int,
) -> None:
    """One map over every measured draft; below it what a cycle must emit."""
    st.subheader("Where it pays", divider="gray", help=words.SPEEDUP)
    proposer = scenario.speculation.proposer or ""
    found = speedup_map(stored, proposer, survivals, context_tokens)
    show_kept(speedup_map_figure, found, key="speculate.map")
    show_kept(break_even_figure, found, key="speculate.break_even")
    st.caption("It pays where the thick line lies above the batch's own.", help=words.BREAK_EVEN)
