"""The sidebar's last part: open, save and hand over the scenario in force."""

import streamlit as st

from app import library
from app.errors import refusal_kept, show_refusal, shown_errors
from app.link import refuse_files
from app.session import current_scenario, open_in_sidebar
from simcore.errors import ScenarioError
from simcore.report.table import escape_markdown
from simcore.scenario import dump_scenario, read_scenario

PREFIX = "library"
REFUSAL = f"{PREFIX}.refusal"
SAVED_HELP = "Saved scenarios are seen by everybody who uses this dashboard; they survive restarts."
UPLOAD_HELP = "A scenario file (YAML), as specplan writes and reads it."
MAX_SCENARIO_BYTES = 200_000


def show_library() -> None:
    """Draw it; opening takes effect before the sidebar is drawn again."""
    with st.sidebar.expander("Open and save"):
        show_refusal(REFUSAL)
        _show_save()
        _show_saved()
        st.file_uploader(
            "Open a scenario file",
            type=["yaml", "yml", "json"],
            key=f"{PREFIX}.upload",
            on_change=_open_upload,
            help=UPLOAD_HELP,
        )


def _show_save() -> None:
    scenario = current_scenario()
    with st.form(f"{PREFIX}.save", clear_on_submit=True, border=False):
        name = st.text_input(
            "Save this scenario as", key=f"{PREFIX}.name", max_chars=library.MAX_NAME
        )
        if st.form_submit_button("Save", width="stretch"):
            with shown_errors():
                kept = library.save("scenario", name, dump_scenario(scenario))
                st.success(f"Saved as {escape_markdown(kept)}.")
    st.download_button(
        "Download it (YAML)",
        lambda: dump_scenario(scenario),
        file_name="scenario.yaml",
        mime="application/yaml",
        key=f"{PREFIX}.download",
        on_click="ignore",
        width="stretch",
    )


def _show_saved() -> None:
    with shown_errors():
        found = {each.name: each for each in library.listed("scenario")}
    if not found:
        st.caption("Nothing is saved yet. " + SAVED_HELP)
        return
    name = st.selectbox(
        "Saved scenarios",
        list(found),
        key=f"{PREFIX}.chosen",
        format_func=lambda each: f"{each} ({found[each].saved_at[:16].replace('T', ' ')} UTC)",
        help=SAVED_HELP,
    )
    left, right = st.columns(2)
    left.button("Open", key=f"{PREFIX}.open", on_click=_open_saved, args=(name,), width="stretch")
    right.button(
        "Delete",
        key=f"{PREFIX}.delete",
        on_click=_delete,
        args=(name,),
        width="stretch",
    )


# --- callbacks: they run before the page is drawn again -------------------------------------------


def _open_saved(name: str) -> None:
    with refusal_kept(REFUSAL):
        _open(library.content_of("scenario", name), name)


def _delete(name: str) -> None:
    with refusal_kept(REFUSAL):
        library.delete("scenario", name)


def _open_upload() -> None:
    upload = st.session_state.get(f"{PREFIX}.upload")
    if upload is None:
        return
    with refusal_kept(REFUSAL):
        if (size := upload.size) > MAX_SCENARIO_BYTES:
            raise ScenarioError(
                f"{upload.name} has {size:,} bytes; expected a scenario of at most "
                f"{MAX_SCENARIO_BYTES:,}"
            )
        _open(upload.getvalue().decode("utf-8", errors="replace"), upload.name)


def _open(text: str, title: str) -> None:
    """Raises ScenarioError."""
    scenario = read_scenario(text, title)
    refuse_files(scenario, title)
    open_in_sidebar(scenario, title)
