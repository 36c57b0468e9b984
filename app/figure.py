"""How a figure stands on a page: its title above it as text, which wraps where space is narrow."""

import html

import plotly.graph_objects as go
import streamlit as st

from simcore.report.table import escape_markdown

CONFIG = {"displaylogo": False, "modeBarButtons": [["toImage", "zoom2d", "resetScale2d"]]}


def show_figure(figure: go.Figure, *, key: str) -> None:
    """Draw `figure` over the whole width, in its own colours: they suit light and dark alike."""
    title = html.unescape((figure.layout.title.text or "").replace("<br>", " "))
    figure.update_layout(title_text="", margin_t=32)
    with st.container(gap="small"):
        st.markdown(f"**{escape_markdown(title)}**")
        st.plotly_chart(figure, key=key, theme=None, config=CONFIG, alt=title)
