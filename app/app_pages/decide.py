"""First page: should this service speculate, with which draft length, up to which load?"""

import streamlit as st

from app.cache import stored_profile
from app.errors import shown_errors
from app.estimate_section import show_estimate
from app.load_section import show_load
from app.plan_section import show_plan
from app.provenance_section import show_badges, show_provenance
from app.sensitivity_section import show_sensitivity
from app.session import current_scenario
from simcore.report.table import escape_markdown

scenario = current_scenario()

with shown_errors():
    stored = stored_profile(scenario.profile)
    st.header("Should this service decode speculatively?")
    st.markdown(escape_markdown(stored.profile.title))
    show_badges(stored, scenario)
    show_estimate(stored, scenario)
    show_load(stored, scenario)
    show_plan(stored, scenario)
    show_sensitivity(stored, scenario)
    show_provenance(stored)
