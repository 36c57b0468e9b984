"""What specplan refuses becomes one sentence on the page, never a traceback."""

from collections.abc import Iterator
from contextlib import contextmanager

import streamlit as st

from simcore.errors import SpecplanError


@contextmanager
def shown_errors() -> Iterator[None]:
    """Show an error that specplan raises on purpose, and end this run of the page."""
    try:
        yield
    except SpecplanError as error:
        st.error(str(error))
        st.stop()
