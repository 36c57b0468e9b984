"""What one visitor's pages share: the scenario in force, and one that was opened."""

import shutil
import tempfile
import uuid
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import streamlit as st

from app import link
from simcore.errors import ProfileError
from simcore.profile.store import StoredProfile, bundled_profiles
from simcore.scenario import Scenario

SCENARIO, OPENED, PENDING = "scenario", "opened", "pending"
PROFILES, SEEN_LINK, FOLDER = "profiles", "seen_link", "session_folder"


@dataclass(frozen=True)
class Opened:
    """A scenario that came by link, upload or from the saved ones; `number` tells two apart."""

    scenario: Scenario
    title: str
    number: int

    @property
    def label(self) -> str:
        """Its entry in the sidebar's list of workloads."""
        return f"{self.title} ({self.number})"


def current_scenario() -> Scenario:
    """The one scenario that every page reads."""
    scenario: Scenario = st.session_state[SCENARIO]
    return scenario


def set_current(scenario: Scenario) -> None:
    """Put it in force, and in the address: a copied link reproduces the view."""
    st.session_state[SCENARIO] = scenario
    text = link.encode(scenario)
    st.session_state[SEEN_LINK] = text
    if st.query_params.get(link.PARAMETER) != text:
        st.query_params[link.PARAMETER] = text


def opened() -> Opened | None:
    """The scenario that was opened last, if any."""
    found: Opened | None = st.session_state.get(OPENED)
    return found


def open_in_sidebar(scenario: Scenario, title: str) -> None:
    """Let the sidebar start from `scenario`; call it before the sidebar is drawn, or rerun."""
    before = opened()
    made = Opened(scenario, title, 1 if before is None else before.number + 1)
    st.session_state[OPENED] = made
    st.session_state["sidebar.profile"] = scenario.profile
    st.session_state[f"sidebar.{scenario.profile}.workload"] = made.label


def open_next(scenario: Scenario, title: str) -> None:
    """The same from a page: the sidebar stands already, so the page is drawn again."""
    st.session_state[PENDING] = (scenario, title)
    st.rerun()


def open_pending() -> None:
    """Open what a page asked for; call it before the sidebar is drawn."""
    if (found := st.session_state.pop(PENDING, None)) is not None:
        open_in_sidebar(*found)


def open_link() -> None:
    """Open the address's scenario, once: later the address follows the page.

    Raises ScenarioError.
    """
    text = st.query_params.get(link.PARAMETER)
    if text is None or text == st.session_state.get(SEEN_LINK):
        return
    st.session_state[SEEN_LINK] = text
    scenario = link.decode(text)
    open_in_sidebar(scenario, scenario.name)


def own_profiles() -> dict[str, StoredProfile]:
    """Profiles that this visitor brought, by name; nobody else sees them."""
    found: dict[str, StoredProfile] = st.session_state.setdefault(PROFILES, {})
    return found


def use_profile(stored: StoredProfile, changes: dict[str, Any] | None = None) -> None:
    """Give this visitor a profile of their own, and go on with their scenario on it, changed.

    Where a link was opened that waits for a profile of this name, its scenario comes back instead.
    """
    name, last = stored.profile.name, opened()
    is_awaited = last is not None and last.scenario.profile == name and name not in own_profiles()
    own_profiles()[name] = stored
    if last is not None and is_awaited:
        open_next(last.scenario, last.title)
    open_next(current_scenario().with_(profile=name, **(changes or {})), name)


class _Folder:
    """A folder that goes when the session that holds it does."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="specplan-"))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


def check_own_name(name: str) -> None:
    """Raise ProfileError for the name of a bundled profile: links and lists would mean another."""
    if name in bundled_profiles():
        raise ProfileError(
            f"profile {name!r} is bundled already; choose it in the sidebar, or give yours another "
            "name"
        )


def new_folder() -> Path:
    """Of one profile, until the visit ends; nothing that still reads an older one meets it."""
    return _own_folder() / uuid.uuid4().hex


def _own_folder() -> Path:
    if FOLDER not in st.session_state:
        st.session_state[FOLDER] = _Folder()
    folder: _Folder = st.session_state[FOLDER]
    return folder.path
