"""The frame of the dashboard: page setup, the shared sidebar, navigation.

The sidebar builds the one scenario that all pages read (`app.session.current_scenario`); the
address carries it, so that a copied link shows the same.
"""

import streamlit as st

from app.errors import show_error, shown_errors
from app.inputs import scenario_sidebar
from app.library_section import show_library
from app.opened_section import show_replaced
from app.session import open_link, open_pending, set_current
from simcore.errors import ScenarioError
from simcore.report.style import TEXT_CSS

st.set_page_config(page_title="specplan", layout="wide", initial_sidebar_state="expanded")
st.html(f"<style>{TEXT_CSS}</style>")  # figures' text in the page's colour, light or dark
page = st.navigation(
    [
        st.Page("app_pages/decide.py", title="Decide", default=True),
        st.Page("app_pages/speculate.py", title="Speculate"),
        st.Page("app_pages/serve.py", title="Serve"),
        st.Page("app_pages/capacity.py", title="Capacity"),
        st.Page("app_pages/compare.py", title="Compare"),
        st.Page("app_pages/calibrate.py", title="Calibrate"),
        st.Page("app_pages/truth.py", title="Truth"),
        st.Page("app_pages/report.py", title="Report"),
    ]
)
try:
    open_link()
    open_pending()
except ScenarioError as error:
    show_error(f"{error}. The page starts from its own workload instead.")
with shown_errors():
    set_current(scenario_sidebar())
    show_library()
    show_replaced()
page.run()
