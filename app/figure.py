"""How a figure stands on a page: its title above it as text, which wraps where space is narrow."""

import html
from collections.abc import Callable, Hashable
from functools import lru_cache

import plotly.graph_objects as go
import streamlit as st

from simcore.report.table import escape_markdown

CONFIG = {"displaylogo": False, "modeBarButtons": [["toImage", "zoom2d", "resetScale2d"]]}
Picture = tuple[str, go.Figure]  # a title, and the figure without it
MOST_KEPT = 256
# Streamlit mounts a changed figure anew and hands the same one over again at once. Plotly draws it
# twice, unless a revision says that the data are the same and no template looks like another one.
SAME_DATA = 0


def show_figure(figure: go.Figure, *, key: str) -> None:
    """Draw `figure` over the whole width, in its own colours: they suit light and dark alike."""
    show_picture(picture(figure), key=key)


def show_picture(drawn: Picture, *, key: str) -> None:
    """The same for a figure that was made before."""
    title, figure = drawn
    with st.container(gap="small"):
        st.markdown(f"**{escape_markdown(title)}**")
        st.plotly_chart(figure, key=key, theme=None, config=CONFIG, alt=title)


def show_kept(make: Callable[..., go.Figure], *inputs: Hashable, key: str) -> None:
    """Draw `make(*inputs)`, made once for all visitors: most pictures of a page stay as they are
    when something on it is moved. `inputs` are compared by value."""
    show_picture(_made(make, *inputs), key=key)


def picture(figure: go.Figure) -> Picture:
    """As a page draws it, its title apart; `figure` is changed, and may be drawn many times."""
    title = html.unescape((figure.layout.title.text or "").replace("<br>", " "))
    figure.update_layout(title_text="", margin_t=32, datarevision=SAME_DATA)
    figure._layout.pop("template", None)  # no public setter takes it away
    return title, figure


@lru_cache(maxsize=MOST_KEPT)
def _made(make: Callable[..., go.Figure], *inputs: Hashable) -> Picture:
    return picture(make(*inputs))
