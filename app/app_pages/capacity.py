"""How much the service bears within its objective, and what that costs."""

import streamlit as st

from app.cache import stored_profile
from app.capacity_section import show_capacity
from app.errors import shown_errors
from app.provenance_section import show_badges
from app.session import current_scenario
from simcore.report.slo_words import objective_words

scenario = current_scenario()

with shown_errors():
    stored = stored_profile(scenario.profile)
    st.header("How many requests, how many GPUs")
    show_badges(stored, scenario)
    st.markdown(f"Objective: {objective_words(scenario.slo)}.")
    show_capacity(stored, scenario)
