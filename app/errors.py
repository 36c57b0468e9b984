"""What goes wrong becomes one sentence on the page, never a traceback; details go to the log."""

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager

import streamlit as st

from simcore.errors import SpecplanError

LOG = logging.getLogger(__name__)
FAULT = "something went wrong in specplan; the server's log has the details"


MARKS = re.compile(r"[\[\]$<]")  # of links, pictures, formulas


def show_error(text: str) -> None:
    """A sentence as it stands: what it quotes of a visitor's input is text and fetches nothing."""
    st.error(as_text(text))


def as_text(text: str) -> str:
    """Markdown that shows a sentence as it stands."""
    return MARKS.sub(r"\\\g<0>", text)


@contextmanager
def shown_errors() -> Iterator[None]:
    """Show an error and end this run of the page; a fault of specplan's own is logged."""
    try:
        yield
    except SpecplanError as error:
        show_error(str(error))
        st.stop()
    except Exception:
        LOG.exception("a page failed")
        st.error(f"{FAULT[0].upper()}{FAULT[1:]}.")
        st.stop()


@contextmanager
def refusal_kept(key: str) -> Iterator[None]:
    """The same in a callback, which draws nothing: `show_refusal` shows it on the next run."""
    try:
        yield
    except SpecplanError as error:
        st.session_state[key] = str(error)
    except Exception:
        LOG.exception("a callback failed")
        st.session_state[key] = f"{FAULT[0].upper()}{FAULT[1:]}."


def show_refusal(key: str) -> None:
    """Once what a callback was refused."""
    if (refusal := st.session_state.pop(key, None)) is not None:
        show_error(refusal)
