"""The frame of the dashboard: page setup, the shared sidebar, navigation.

The sidebar builds the one scenario that all pages read from `st.session_state["scenario"]`.
"""

import streamlit as st

from app.errors import shown_errors
from app.inputs import scenario_sidebar

st.set_page_config(page_title="specplan", layout="wide", initial_sidebar_state="expanded")
page = st.navigation([st.Page("app_pages/decide.py", title="Decide", default=True)])
with shown_errors():
    st.session_state["scenario"] = scenario_sidebar()
page.run()
