"""Loads that reruns share: profiles by file, survival by everything that it depends on."""

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import streamlit as st

from app.session import own_profiles
from simcore.errors import ProfileError
from simcore.planner.estimate import estimate_survival
from simcore.planner.speedup import CycleSurvival
from simcore.profile.store import PROFILE_FILE, StoredProfile, bundled_profiles, load_profile
from simcore.scenario import Scenario, load_scenario
from simcore.scenario_files import bundled_scenarios


def profile_names() -> list[str]:
    """The profiles that this visitor may choose: the bundled ones and their own."""
    return list(dict.fromkeys([*bundled_profiles(), *own_profiles()]))


def stored_profile(name: str) -> StoredProfile:
    """The visitor's own or the bundled profile of this name. Raises ProfileError.

    A bundled one is read again only when its file changes.
    """
    if (own := own_profiles().get(name)) is not None:
        return own
    folder = bundled_profiles().get(name)
    if folder is None:
        raise ProfileError(
            f"no profile {name!r} here; expected one of {', '.join(profile_names())}: import it "
            "on the page Calibrate first"
        )
    return _load(folder, (folder / PROFILE_FILE).stat().st_mtime_ns)


def bundled_workloads() -> dict[str, Scenario]:
    """The bundled scenarios by name, each read again only when its file changes."""
    return {
        name: _load_scenario(path, path.stat().st_mtime_ns)
        for name, path in bundled_scenarios().items()
    }


def survivals(stored: StoredProfile, scenario: Scenario) -> dict[int, CycleSurvival]:
    """γ -> survival of the scenario's proposer; read from the traces once a combination."""
    proposer = scenario.speculation.proposer
    assert proposer is not None
    key = ("survivals", *acceptance_key(stored, scenario))
    found: dict[int, CycleSurvival] = once(
        key, lambda: estimate_survival(stored, scenario, proposer)
    )
    return found


def acceptance_key(stored: StoredProfile, scenario: Scenario) -> tuple[Any, ...]:
    """What the choice of acceptance records depends on."""
    return (
        stored.content_hash,
        scenario.speculation.proposer,
        scenario.contract.value,
        scenario.sampling.model_dump_json(),
        _sampling_by_domain(scenario),
        scenario.allow_mismatch,
    )


def once(key: tuple[Any, ...], make: Callable[[], Any]) -> Any:
    """What `make` gives, made once for all visitors; `key` names all that it depends on.

    Only for results that nobody changes, and of some kilobytes; else `once_large`.
    """
    return _once(key, make)


def once_large(key: tuple[Any, ...], make: Callable[[], Any]) -> Any:
    """The same for results of megabytes, of which fewer are kept."""
    return _once_large(key, make)


def _sampling_by_domain(scenario: Scenario) -> tuple[tuple[str, str], ...]:
    """The domains in order, each with its own sampling where it has one."""
    own = (
        (name, scenario.workload.share(name).sampling) for name in sorted(scenario.workload.domains)
    )
    return tuple((name, each.model_dump_json() if each else "") for name, each in own)


def _made(key: tuple[Any, ...], _make: Callable[[], Any]) -> Any:
    return _make()


# A StoredProfile and a Scenario are frozen: all visitors share one. Asked many times a run of the
# page, so without Streamlit's cache, which takes a third of a millisecond each time.
@lru_cache(maxsize=64)
def _load_scenario(path: Path, modified_ns: int) -> Scenario:
    return load_scenario(path)


@lru_cache(maxsize=16)
def _load(folder: Path, modified_ns: int) -> StoredProfile:
    return load_profile(folder)


def _made_large(key: tuple[Any, ...], _make: Callable[[], Any]) -> Any:
    return _make()  # Streamlit tells caches apart by their functions


SPINNER = "Walking the recorded requests …"
MOST_KEPT, MOST_LARGE_KEPT = 256, 24
_once = st.cache_resource(max_entries=MOST_KEPT, show_spinner=SPINNER)(_made)
_once_large = st.cache_resource(max_entries=MOST_LARGE_KEPT, show_spinner=SPINNER)(_made_large)
