"""Bring what an engine measured: upload or paste, see what was understood, use it."""

import dataclasses
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pandas as pd
import streamlit as st
from pydantic import ValidationError

from app import import_words, words
from app.drafts import draft_survival
from app.errors import shown_errors
from app.figure import show_figure
from app.import_words import in_page_words, page_words
from app.session import (
    check_own_name,
    current_scenario,
    new_folder,
    own_profiles,
    use_profile,
)
from simcore.errors import EngineFileError
from simcore.matching import measured_as
from simcore.profile.archive import pack_profile
from simcore.profile.import_summary import describe_reading, missing_to_plan, summary_lines
from simcore.profile.importers import (
    AUTO,
    IMPORTERS,
    EngineFile,
    ImportOptions,
    Reading,
    checked_files,
    read_files,
)
from simcore.profile.merge import merge, write_merge
from simcore.profile.schema import Sampling
from simcore.profile.store import StoredProfile, load_profile
from simcore.report.import_figures import imported_survival_figure
from simcore.report.table import escape_markdown
from simcore.validation import describe_validation_error

KEY = "calibrate.import"
PASTED = "pasted text"
OTHER_KINDS = ("ngram", "draft_model", "eagle")


@dataclass(frozen=True)
class Preview:
    """What was understood of the files; nothing is written yet."""

    kind: str
    reading: Reading
    options: ImportOptions
    files: tuple[str, ...]
    stored: StoredProfile

    @property
    def described(self) -> dict[str, Any]:
        """As `specplan import --json` says it."""
        return describe_reading(self.kind, self.reading)

    def without_times(self) -> "Preview":
        """The same without its timed steps: they would take the place of the profile's."""
        reading = dataclasses.replace(self.reading, samples=None, whole_steps=False)
        return dataclasses.replace(self, reading=reading)


def show_import(stored: StoredProfile) -> None:
    """The form, the preview of the last files, and the button that puts them to use."""
    st.subheader("Import what your engine measured", divider="gray")
    st.markdown(
        "Metrics pages, logs, answers, benchmark files and acceptance traces of vLLM, SGLang, "
        "TensorRT-LLM, llama.cpp, GuideLLM and AIPerf. Files are read as data only."
    )
    with st.expander("Which files can be read"):
        st.table(
            pd.DataFrame(
                {
                    "written for": {kind: each.written_for for kind, each in IMPORTERS.items()},
                    "gives": {kind: each.gives for kind, each in IMPORTERS.items()},
                }
            )
        )
    _show_form(stored)
    preview: Preview | None = st.session_state.get(KEY)
    if preview is not None:
        _show_preview(preview)


def _show_form(stored: StoredProfile) -> None:
    with st.form(f"{KEY}.form"):
        uploads = st.file_uploader(
            "Files of one run (scrapes: oldest first)",
            accept_multiple_files=True,
            key=f"{KEY}.files",
            help=words.IMPORT_FILES,
        )
        pasted = st.text_area("Or paste one here", key=f"{KEY}.pasted", height=100)
        said = _options_inputs(stored)
        if st.form_submit_button("Show what is in it", type="primary"):
            st.session_state.pop(KEY, None)
            with shown_errors(), in_page_words():
                st.session_state[KEY] = _read(stored, uploads or [], pasted, said)


def _options_inputs(stored: StoredProfile) -> dict[str, Any]:
    """What engines do not write down."""
    first, second, third, fourth = st.columns(4, vertical_alignment="bottom")
    proposers = list(stored.profile.proposers)
    proposer = first.selectbox(
        import_words.PROPOSER,
        [*proposers, *(kind for kind in OTHER_KINDS if kind not in proposers)],
        key=f"{KEY}.{stored.profile.name}.proposer",
        help=words.PROPOSER,
        accept_new_options=True,
    )
    temperature = second.number_input(
        import_words.TEMPERATURE,
        min_value=0.0,
        value=0.0,
        step=0.1,
        key=f"{KEY}.temperature",
        help=words.SAMPLING,
    )
    domain = third.text_input(
        import_words.DOMAIN, value="all", key=f"{KEY}.domain", help=words.DOMAINS
    )
    gamma = fourth.number_input(
        import_words.GAMMA,
        min_value=0,
        max_value=64,
        value=0,
        key=f"{KEY}.gamma",
        help=words.GAMMA,
    )
    kind = first.selectbox("Kind of file", [AUTO, *IMPORTERS], key=f"{KEY}.kind")
    column = second.text_input(import_words.COLUMN, key=f"{KEY}.column", help=words.TRACE_COLUMN)
    counts = third.selectbox(import_words.COUNTS, ["", "accepted", "emitted"], key=f"{KEY}.counts")
    per = fourth.selectbox(import_words.PER, ["", "position", "cycle"], key=f"{KEY}.per")
    is_same = st.checkbox(
        f"The files are of {stored.profile.identity.target.name}, whatever name they give",
        key=f"{KEY}.{stored.profile.name}.same_target",
        help=words.SAME_TARGET,
    )
    known = {name: each.kind for name, each in stored.profile.proposers.items()}
    return {
        "kind": kind,
        "options": {
            "proposer": proposer,
            "proposer_kind": known.get(proposer, proposer if proposer in OTHER_KINDS else None),
            "domain": domain,
            "gamma": gamma or None,
            "sampling": Sampling(temperature=temperature),
            "column": column or None,
            "accepted_or_emitted": counts or None,
            "per": per or None,
            "target": stored.profile.identity.target.name if is_same else None,
        },
    }


def _read(stored: StoredProfile, uploads: list[Any], pasted: str, said: dict[str, Any]) -> Preview:
    """Raises EngineFileError for what cannot be understood."""
    files = [EngineFile(each.name, each.getvalue()) for each in uploads]
    if pasted.strip():
        files.append(EngineFile(PASTED, _whole_lines(pasted).encode()))
    if not files:
        raise EngineFileError("no file; expected at least one, uploaded or pasted")
    try:
        options = ImportOptions.model_validate(said["options"])
    except ValidationError as error:
        raise EngineFileError(f"options: {describe_validation_error(error)}") from None
    kind, reading = read_files(said["kind"], checked_files(files), options)
    return Preview(kind, reading, options, tuple(each.name for each in files), stored)


def _whole_lines(pasted: str) -> str:
    """Who marks and copies text often leaves its last line feed behind."""
    return pasted if pasted.endswith("\n") else pasted + "\n"


def _show_preview(preview: Preview) -> None:
    described = preview.described
    missing = missing_to_plan(preview.reading, preview.stored.profile)
    st.markdown(f"**Understood from {escape_markdown(', '.join(preview.files))}**")
    text = page_words("\n".join(summary_lines(described, missing)))
    st.code(text, language=None, wrap_lines=True)
    figure = imported_survival_figure(described)
    if figure is not None:
        show_figure(figure, key=f"{KEY}.survival")
    reading = preview.reading
    if not reading.records and reading.samples is None:
        st.info(words.NOTHING_TO_USE)
        return
    _show_use(preview)


def _show_use(preview: Preview) -> None:
    """The name of the new profile, and the button that makes it."""
    with st.form(f"{KEY}.use", border=False):
        left, middle, right = st.columns([2, 1, 1], vertical_alignment="bottom")
        name = left.text_input(
            "Name of the new profile",
            value=f"{preview.stored.profile.name}-imported",
            key=f"{KEY}.name",
            help=words.IMPORTED_PROFILE,
        )
        replace = middle.checkbox(
            import_words.REPLACE, key=f"{KEY}.replace", help=words.REPLACE_RECORDS
        )
        if (
            preview.reading.records
            and preview.reading.samples is not None
            and middle.checkbox(
                "Without step times",
                # Whole steps cannot price a profile of several proposers.
                value=preview.reading.whole_steps and len(preview.stored.profile.proposers) > 1,
                key=f"{KEY}.without_times",
                help=words.WITHOUT_TIMES,
            )
        ):
            preview = preview.without_times()
        if right.form_submit_button("Use it", type="primary", width="stretch"):
            with shown_errors(), in_page_words():
                _use(preview, name, replace)


def _use(preview: Preview, name: str, replace: bool) -> None:
    """Merge into a profile of this session and choose it. Raises EngineFileError, ProfileError."""
    check_own_name(name)
    merged = merge(
        preview.reading,
        preview.options,
        name=name,
        date=datetime.now(UTC).date().isoformat(),
        files=preview.files,
        into=_name_or_folder(preview.stored),
        replace_records=replace,
    )
    folder = new_folder()
    write_merge(merged, folder)
    stored = load_profile(folder)
    changes = _imported_changes(preview, stored)
    # Raises where nothing can be planned with it: the visitor stays with what works.
    draft_survival(stored, current_scenario().with_(profile=name, **changes))
    st.session_state.pop(KEY, None)
    use_profile(stored, changes)


def _imported_changes(preview: Preview, stored: StoredProfile) -> dict[str, Any]:
    """Go on with what was imported: its proposer and domains, and how their tokens were drawn."""
    domains = {found.domain or preview.options.domain for found in preview.reading.records}
    records = [
        record
        for record in stored.profile.acceptance
        if record.proposer == preview.options.proposer and record.domain in domains
    ]
    if not records:
        return {}
    contract, sampling = measured_as(records[-1])  # what is imported comes last
    return {
        "contract": contract.value,
        "sampling": sampling.model_dump(),
        "workload.domains": {
            record.domain: 1.0 for record in records if measured_as(record) == (contract, sampling)
        },
        "speculation": {
            "proposer": records[-1].proposer,
            "num_speculative_tokens": records[-1].gammas()[-1],
        },
    }


def _name_or_folder(stored: StoredProfile) -> str:
    """The name that a visitor knows; a folder of the server only where there is no other way."""
    name = stored.profile.name
    return str(stored.folder) if name in own_profiles() else name


def show_own_download(stored: StoredProfile) -> None:
    """A profile that this visitor made can be taken along as a folder in a zip file."""
    if stored.profile.name not in own_profiles():
        return
    st.download_button(
        "Download this profile (zip)",
        pack_profile(stored),
        file_name=f"{stored.profile.name}.zip",
        mime="application/zip",
        key=f"{KEY}.download",
        on_click="ignore",
    )
    st.caption(words.OWN_PROFILE)
