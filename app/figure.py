"""How a figure stands on a page: its title above it as text, which wraps where space is narrow."""

import html
from collections.abc import Callable, Hashable
from functools import lru_cache

import plotly.graph_objects as go
import streamlit as st

from simcore.report.table import escape_markdown

CONFIG = {"displaylogo": False, "modeBarButtons": [["toImage", "zoom2d", "resetScale2d"]]}
MOST_KEPT = 256
# Streamlit mounts a changed figure anew and hands the same one over again at once. Plotly draws it
# twice, unless a revision says that the data are the same and no template looks like another one.
SAME_DATA = 0


def show_figure(figure: go.Figure, *, key: str) -> None:
    """Draw `figure` over the whole width, in its own colours: they suit light and dark alike."""
    _draw(*_without_title(figure), key)


def show_kept(make: Callable[..., go.Figure], *inputs: Hashable, key: str) -> None:
    """Draw `make(*inputs)`, made once for all visitors: most pictures of a page stay as they are
    when something on it is moved. `inputs` are compared by value."""
    _draw(*_made(make, *inputs), key)


def _draw(title: str, figure: go.Figure, key: str) -> None:
    with st.container(gap="small"):
        st.markdown(f"**{escape_markdown(title)}**")
        st.plotly_chart(figure, key=key, theme=None, config=CONFIG, alt=title)


def _without_title(figure: go.Figure) -> tuple[str, go.Figure]:
    title = html.unescape((figure.layout.title.text or "").replace("<br>", " "))
    figure.update_layout(title_text="", margin_t=32, datarevision=SAME_DATA)
    figure._layout.pop("template", None)  # no public setter takes it away
    return title, figure


@lru_cache(maxsize=MOST_KEPT)
def _made(make: Callable[..., go.Figure], *inputs: Hashable) -> tuple[str, go.Figure]:
    return _without_title(make(*inputs))
