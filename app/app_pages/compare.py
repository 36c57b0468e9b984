"""Services side by side on common random numbers: differences with their intervals."""

import streamlit as st

from app.cache import stored_profile
from app.comparison_section import show_comparison
from app.errors import shown_errors
from app.provenance_section import show_badges
from app.session import current_scenario
from simcore.matching import usable_gammas

scenario = current_scenario()

with shown_errors():
    stored = stored_profile(scenario.profile)
    st.header("Which one serves better")
    show_badges(stored, scenario)
    proposer = scenario.speculation.proposer
    gammas = () if proposer is None else usable_gammas(stored, scenario, proposer)
    show_comparison(stored, scenario, gammas)
