"""Loads that reruns share: profiles by file, survival by everything that it depends on."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import streamlit as st

from simcore.planner.estimate import estimate_survival
from simcore.planner.speedup import CycleSurvival
from simcore.profile.store import PROFILE_FILE, StoredProfile, bundled_profiles, load_profile
from simcore.scenario import Scenario


def stored_profile(name: str) -> StoredProfile:
    """The bundled profile, read again only when its file changes. Raises ProfileError."""
    folder = bundled_profiles()[name]
    return _load(folder, (folder / PROFILE_FILE).stat().st_mtime_ns)


def survivals(stored: StoredProfile, scenario: Scenario) -> dict[int, CycleSurvival]:
    """γ -> survival of the scenario's proposer; read from the traces once a combination."""
    key = (
        stored.content_hash,
        scenario.speculation.proposer,
        scenario.contract.value,
        scenario.sampling.model_dump_json(),
        tuple(sorted(scenario.workload.domains)),
        scenario.allow_mismatch,
    )
    return _survivals(key, stored, scenario)


def _read_survivals(
    key: tuple[Any, ...], _stored: StoredProfile, _scenario: Scenario
) -> dict[int, CycleSurvival]:
    """Only `key` is hashed; it names all that the result depends on."""
    proposer = _scenario.speculation.proposer
    assert proposer is not None
    return estimate_survival(_stored, _scenario, proposer)


def _read_profile(folder: Path, modified_ns: int) -> StoredProfile:
    return load_profile(folder)


# A StoredProfile is frozen: all visitors share one. Survivals are copied for each.
_load: Callable[[Path, int], StoredProfile] = st.cache_resource(
    max_entries=16, show_spinner="Reading the profile …"
)(_read_profile)
_survivals: Callable[[tuple[Any, ...], StoredProfile, Scenario], dict[int, CycleSurvival]] = (
    st.cache_data(max_entries=128, show_spinner="Reading the acceptance records …")(_read_survivals)
)
