"""What goes wrong becomes one sentence on the page, never a traceback; details go to the log."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import streamlit as st

from simcore.errors import SpecplanError

LOG = logging.getLogger(__name__)
FAULT = "something went wrong in specplan; the server's log has the details"


@contextmanager
def shown_errors() -> Iterator[None]:
    """Show an error and end this run of the page; a fault of specplan's own is logged."""
    try:
        yield
    except SpecplanError as error:
        st.error(str(error))
        st.stop()
    except Exception:
        LOG.exception("a page failed")
        st.error(f"{FAULT[0].upper()}{FAULT[1:]}.")
        st.stop()
