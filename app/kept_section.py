"""Keep a result by name, and open one that was kept: it survives restarts."""

from collections.abc import Callable
from typing import Any, TypeVar

import streamlit as st
from pydantic import ValidationError

from app import library, words
from app.errors import refusal_kept, show_refusal, shown_errors
from app.job import start_job
from simcore.errors import SpecplanError
from simcore.profile.schema import Frozen
from simcore.report.table import escape_markdown
from simcore.validation import describe_validation_error
from simcore.version import specplan_version

Document = TypeVar("Document", bound=Frozen)
Read = Callable[[str, str], tuple[Any, Any]]  # content, name -> what was asked, the result


def show_keep(kind: library.Kind, name: str, content: Callable[[], str]) -> None:
    """A name and a button; `content` is asked for when it is pressed."""
    with st.form(f"kept.{kind}.form", border=False):
        left, right = st.columns([3, 1], vertical_alignment="bottom")
        chosen = left.text_input(
            "Keep this result as",
            value=name,
            key=f"kept.{kind}.name",
            max_chars=library.MAX_NAME,
            help=words.KEEP,
        )
        if right.form_submit_button("Keep", width="stretch"):
            with shown_errors():
                st.success(f"Kept as {escape_markdown(library.save(kind, chosen, content()))}.")


def show_kept_results(
    kind: library.Kind, key: str, read: Callable[[str, str], tuple[Any, Any]]
) -> None:
    """What was kept of this kind; opened, it takes the place of the last job under `key`.

    `read` raises SpecplanError for what it cannot read.
    """
    show_refusal(f"kept.{kind}.refusal")
    with shown_errors():
        found = {each.name: each for each in library.listed(kind)}
    if not found:
        return
    with st.expander(f"Kept results ({len(found)})"):
        left, middle, right = st.columns([3, 1, 1], vertical_alignment="bottom")
        name = left.selectbox(
            "Kept result",
            list(found),
            format_func={name: _title(each) for name, each in found.items()}.__getitem__,
            key=f"kept.{kind}.chosen",
            help=words.KEEP,
        )
        middle.button(
            "Open",
            key=f"kept.{kind}.open",
            on_click=_open,
            args=(kind, key, read, name),
            width="stretch",
        )
        right.button(
            "Forget",
            key=f"kept.{kind}.forget",
            on_click=_forget,
            args=(kind, name),
            width="stretch",
        )


def read_kept(form: type[Document], content: str, name: str) -> Document:
    """A kept document. Raises SpecplanError where it is damaged or of another version."""
    try:
        return form.model_validate_json(content)
    except ValidationError as error:
        raise SpecplanError(
            f"{name} cannot be opened: {describe_validation_error(error)}; expected a result that "
            "this version kept: make it again"
        ) from None


def _title(each: library.Listed) -> str:
    """With the version that kept it where this one may reckon otherwise."""
    other = each.specplan_version
    by = "" if other == specplan_version() else f", specplan {other}"
    return f"{each.name} ({each.saved_at[:16].replace('T', ' ')} UTC{by})"


# --- callbacks: they run before the page is drawn again -------------------------------------------


def _open(kind: library.Kind, key: str, read: Read, name: str) -> None:
    with refusal_kept(f"kept.{kind}.refusal"):
        asked, result = read(library.content_of(kind, name), name)
        start_job(key, lambda _advance: result, asked).wait()


def _forget(kind: library.Kind, name: str) -> None:
    with refusal_kept(f"kept.{kind}.refusal"):
        library.delete(kind, name)
