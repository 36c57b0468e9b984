"""The sidebar's last part: open, save and hand over the scenario in force."""

import streamlit as st

from app import library
from app.errors import shown_errors
from app.link import refuse_files
from app.session import current_scenario, open_in_sidebar
from simcore.errors import ScenarioError
from simcore.scenario import Scenario, dump_scenario, read_scenario

PREFIX = "library"
SAVED_HELP = "Saved scenarios are seen by everybody who uses this dashboard; they survive restarts."
UPLOAD_HELP = "A scenario file (YAML), as specplan writes and reads it."
MAX_SCENARIO_BYTES = 200_000


def show_library() -> None:
    """Draw it; opening takes effect before the sidebar is drawn again."""
    with st.sidebar.expander("Open and save"):
        if (refusal := st.session_state.pop(f"{PREFIX}.refusal", None)) is not None:
            st.error(refusal)
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
                library.save("scenario", name, dump_scenario(scenario))
                st.success(f"Saved as {name.strip()}.")
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
        found = {each.name: each for each in library.saved("scenario")}
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
    left.button(
        "Open", key=f"{PREFIX}.open", on_click=_open_saved, args=(found[name],), width="stretch"
    )
    right.button(
        "Delete",
        key=f"{PREFIX}.delete",
        on_click=library.delete,
        args=("scenario", name),
        width="stretch",
    )


# --- callbacks: they run before the page is drawn again -------------------------------------------


def _open_saved(chosen: library.Saved) -> None:
    _open(chosen.content, chosen.name)


def _open_upload() -> None:
    upload = st.session_state.get(f"{PREFIX}.upload")
    if upload is None:
        return
    raw = upload.getvalue()
    if len(raw) > MAX_SCENARIO_BYTES:
        st.session_state[f"{PREFIX}.refusal"] = (
            f"{upload.name} has {len(raw):,} bytes; expected a scenario of at most "
            f"{MAX_SCENARIO_BYTES:,}"
        )
        return
    _open(raw.decode("utf-8", errors="replace"), upload.name)


def _open(text: str, title: str) -> None:
    try:
        open_in_sidebar(_read(text, title), title)
    except ScenarioError as error:
        st.session_state[f"{PREFIX}.refusal"] = str(error)


def _read(text: str, title: str) -> Scenario:
    scenario = read_scenario(text, title)
    refuse_files(scenario, title)
    return scenario
