"""What was measured: the profile in force, and the import of what an engine measured."""

import streamlit as st

from app.cache import stored_profile
from app.errors import shown_errors
from app.import_section import show_import, show_own_download
from app.profile_section import show_profile
from app.profile_upload_section import show_profile_upload
from app.provenance_section import show_badges, show_provenance
from app.session import current_scenario
from simcore.report.table import escape_markdown

scenario = current_scenario()

with shown_errors():
    stored = stored_profile(scenario.profile)
    st.header("What the numbers rest on")
    st.markdown(escape_markdown(stored.profile.title))
    show_badges(stored, scenario)
    show_provenance(stored)
    show_own_download(stored)
    show_import(stored)
    show_profile(stored)
    show_profile_upload()
