"""The sidebar: widgets in, one validated scenario out.

Keys carry the workload or profile that they belong to, so that choosing another one starts from
its own values. An opened scenario (link, upload, saved) is one more workload.
"""

from typing import Any

import streamlit as st

from app import words
from app.cache import bundled_workloads, profile_names, stored_profile
from app.errors import as_text
from app.point import follow_no_point
from app.session import opened, own_profiles
from app.speculation_inputs import choose_speculation
from app.workload_inputs import choose_load, edit_deployment, edit_workload
from simcore.errors import ProfileError, ScenarioError
from simcore.profile.schema import Source
from simcore.profile.store import StoredProfile
from simcore.scenario import Scenario


def scenario_sidebar() -> Scenario:
    """Draw the sidebar; raises ScenarioError or ProfileError where the choice is refused."""
    follow_no_point()
    with st.sidebar:
        stored = _choose_profile()
        base, key = _choose_workload(stored)
        changes = choose_speculation(stored, base, key)
        changes |= choose_load(base, key)
        with st.expander("Workload details"):
            changes |= edit_workload(base, key, _holds_recordings(stored, changes))
        with st.expander("Deployment and objective"):
            changes |= edit_deployment(base, key)
    return base.with_(**changes)


# --- profile and workload ----------------------------------------------------------------------


def _choose_profile() -> StoredProfile:
    names = profile_names()
    if not names:
        raise ProfileError("no profile is bundled; expected at least one folder under profiles/")
    if st.session_state.get("sidebar.profile", names[0]) not in names:
        missing = st.session_state.pop("sidebar.profile")
        st.warning(
            f"There is no profile {as_text(repr(missing))} here; import it on the page "
            "Calibrate. Until then another one is shown."
        )
    titles = {name: _profile_title(name) for name in names}
    name = st.selectbox(
        "Profile",
        names,
        index=names.index(_default_profile(names)),
        format_func=titles.__getitem__,
        key="sidebar.profile",
        help=words.PROFILE,
    )
    stored = stored_profile(name)
    source = stored.profile.source
    st.badge(source.value, color=words.SOURCE_COLORS[source], help=words.SOURCE_HELP[source])
    return stored


def _default_profile(names: list[str]) -> str:
    """The first measured one, else the first that can be read."""
    readable = {name: found for name in names if (found := _readable(name)) is not None}
    measured = [
        name for name, stored in readable.items() if stored.profile.source is Source.MEASURED
    ]
    return [*measured, *readable, *names][0]


def _readable(name: str) -> StoredProfile | None:
    try:
        return stored_profile(name)
    except ProfileError:
        return None  # choosing it says why


def _profile_title(name: str) -> str:
    stored = _readable(name)
    if stored is None:
        return f"{name} (cannot be read)"
    # What an import adds to keeps its title, so the visitor's own are told apart by name.
    return f"{name}: {stored.profile.title}" if name in own_profiles() else stored.profile.title


def _choose_workload(stored: StoredProfile) -> tuple[Scenario, str]:
    """What was opened, a bundled scenario of this profile, or another profile's; and its key."""
    name = stored.profile.name
    offered = _bundled_workloads(name)
    if (last := opened()) is not None and last.scenario.profile == name:
        offered = {last.label: last.scenario} | offered
    if not offered:
        raise ScenarioError("no workload is bundled; expected one under simcore/scenarios/")
    key = f"sidebar.{name}.workload"
    if st.session_state.get(key) not in offered:
        st.session_state.pop(key, None)  # what was opened before has given way to another
    chosen = st.selectbox("Workload", list(offered), key=key, help=words.WORKLOAD)
    return offered[chosen], f"sidebar.{chosen}"


def _bundled_workloads(profile: str) -> dict[str, Scenario]:
    """Scenarios made for this profile, or all others' with this one in its place."""
    found = bundled_workloads()
    own = {key: each for key, each in found.items() if each.profile == profile}
    return own or {
        key: each.with_(profile=profile, target=None, **{"workload.domains": {}})
        for key, each in found.items()
    }


def _holds_recordings(stored: StoredProfile, changes: dict[str, Any]) -> bool:
    return any(
        record.kind == "trace"
        for record in stored.profile.acceptance
        if record.proposer == changes["speculation"]["proposer"]
    )
