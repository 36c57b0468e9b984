"""Bring a whole profile: upload or paste, see what it is, use it for this visit."""

from typing import Any

import pandas as pd
import streamlit as st

from app import words
from app.errors import shown_errors
from app.profile_section import acceptance_table
from app.provenance_section import box_words, identity_words
from app.session import check_own_name, new_folder, use_profile
from simcore.profile.archive import HandedFile, unpack_profile
from simcore.profile.store import PROFILE_FILE, StoredProfile
from simcore.report.table import escape_markdown

KEY = "calibrate.profile"
OTHER_TARGET: dict[str, Any] = {"target": None, "workload.domains": {}, "speculation": {}}


def show_profile_upload() -> None:
    """The form, the preview of the last profile, and the button that puts it to use."""
    st.subheader("Open a profile of your own", divider="gray")
    with st.form(f"{KEY}.form"):
        uploads = st.file_uploader(
            "A profile: its zip, or profile.json with its tables",
            type=["zip", "json", "parquet"],
            accept_multiple_files=True,
            key=f"{KEY}.files",
            help=words.WHOLE_PROFILE,
        )
        pasted = st.text_area("Or paste a profile.json here", key=f"{KEY}.pasted", height=100)
        if st.form_submit_button("Show the profile", type="primary"):
            st.session_state.pop(KEY, None)
            with shown_errors():
                st.session_state[KEY] = _read(uploads or [], pasted)
    stored: StoredProfile | None = st.session_state.get(KEY)
    if stored is not None:
        _show_preview(stored)


def _read(uploads: list[Any], pasted: str) -> StoredProfile:
    """Raises ProfileError for anything but one whole profile of a name of its own."""
    files = [HandedFile(each.name, each.getvalue()) for each in uploads]
    if pasted.strip():
        files.append(HandedFile(PROFILE_FILE, pasted.encode()))
    stored = unpack_profile(files, new_folder())
    check_own_name(stored.profile.name)
    return stored


def _show_preview(stored: StoredProfile) -> None:
    profile = stored.profile
    st.markdown(f"**{escape_markdown(profile.title)}** ({profile.source.value})")
    left, right = st.columns(2)
    left.table(pd.DataFrame({"": identity_words(profile)}), hide_header=True)
    right.table(pd.DataFrame({"": box_words(profile)}), hide_header=True)
    st.dataframe(acceptance_table(stored), hide_index=True, width="stretch")
    if st.button("Use this profile", type="primary", key=f"{KEY}.use"):
        st.session_state.pop(KEY)
        use_profile(stored, OTHER_TARGET)
