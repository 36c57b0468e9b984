"""What is handed over: the report, engine settings, alerts, the load test, what changed."""

import streamlit as st

from app.errors import shown_errors
from app.report_section import show_report

with shown_errors():
    st.header("Hand it over")
    show_report()
