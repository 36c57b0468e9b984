"""The service under load: queues, batches, KV, draft lengths in force, latencies, waste."""

import streamlit as st

from app.cache import stored_profile
from app.errors import shown_errors
from app.provenance_section import show_badges
from app.session import current_scenario
from app.simulation_section import show_simulation

scenario = current_scenario()

with shown_errors():
    stored = stored_profile(scenario.profile)
    st.header("What happens to the users")
    show_badges(stored, scenario)
    show_simulation(stored, scenario)
