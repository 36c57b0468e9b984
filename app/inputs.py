"""The sidebar: widgets in, one validated scenario out.

Keys carry the workload or profile that they belong to, so that choosing another one starts from
its own values.
"""

from typing import Any

import streamlit as st

from app import words
from app.cache import bundled_workloads, stored_profile
from app.workload_inputs import choose_load, edit_deployment, edit_workload
from simcore.errors import ProfileError, ScenarioError
from simcore.matching import matching_records, measured_gammas
from simcore.profile.schema import Contract, Sampling, Source
from simcore.profile.store import StoredProfile, bundled_profiles
from simcore.scenario import Scenario
from simcore.workload_kinds import DomainShare

DEFAULT_GAMMA = 3


def scenario_sidebar() -> Scenario:
    """Draw the sidebar; raises ScenarioError or ProfileError where the choice is refused."""
    with st.sidebar:
        stored = _choose_profile()
        base = _choose_workload(stored)
        changes = _choose_speculation(stored, base)
        changes |= choose_load(base)
        with st.expander("Workload details"):
            changes |= edit_workload(base, _holds_recordings(stored, changes))
        with st.expander("Deployment and objective"):
            changes |= edit_deployment(base)
    return base.with_(**changes)


# --- profile and workload ----------------------------------------------------------------------


def _choose_profile() -> StoredProfile:
    names = list(bundled_profiles())
    if not names:
        raise ProfileError("no profile is bundled; expected at least one folder under profiles/")
    name = st.selectbox(
        "Profile",
        names,
        index=names.index(_default_profile(names)),
        format_func=_profile_title,
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
    return f"{name} (cannot be read)" if stored is None else stored.profile.title


def _choose_workload(stored: StoredProfile) -> Scenario:
    """A bundled scenario of this profile, or another profile's with this one in its place."""
    found, name = bundled_workloads(), stored.profile.name
    offered = {key: each for key, each in found.items() if each.profile == name} or {
        key: each.with_(profile=name, target=None, **{"workload.domains": {}})
        for key, each in found.items()
    }
    if not offered:
        raise ScenarioError("no workload is bundled; expected one under simcore/scenarios/")
    chosen = st.selectbox(
        "Workload", list(offered), key=f"sidebar.{name}.workload", help=words.WORKLOAD
    )
    return offered[chosen]


# --- speculation -------------------------------------------------------------------------------


def _choose_speculation(stored: StoredProfile, base: Scenario) -> dict[str, Any]:
    name = stored.profile.name
    proposers = list(stored.profile.proposers)
    wanted = base.speculation.proposer
    proposer = st.selectbox(
        "Proposer",
        proposers,
        index=proposers.index(wanted) if wanted in proposers else 0,
        key=f"sidebar.{name}.proposer",
        help=words.PROPOSER,
    )
    contract, sampling = _choose_sampling(stored, proposer)
    st.caption(f"Contract **{contract.value.replace('_', ' ')}**: {words.CONTRACT_HELP[contract]}")
    changes: dict[str, Any] = {
        "contract": contract.value,
        "sampling": sampling.model_dump(),
        "speculation.proposer": proposer,
        "speculation.num_speculative_tokens": 0,
        "speculation.policy": {"kind": "fixed"},
        "workload.domains": {},
    }
    if base.speculation.policy.kind != "fixed":
        policy = base.speculation.policy.kind.replace("_", " ")
        st.caption(f"The workload's own policy, {policy}, is left out: lengths here are fixed.")
    changes["workload.domains"] = _choose_domains(stored, base, base.with_(**changes))
    gammas = measured_gammas(matching_records(stored, base.with_(**changes), proposer))
    changes["speculation.num_speculative_tokens"] = _choose_gamma(name, proposer, gammas)
    return changes


def _choose_sampling(stored: StoredProfile, proposer: str) -> tuple[Contract, Sampling]:
    measured = {
        words.sampling_label(record.sampling): (record.contract, record.sampling)
        for record in stored.profile.acceptance
        if record.proposer == proposer
    }
    if not measured:
        raise ProfileError(
            f"profile {stored.profile.name!r} holds no acceptance of {proposer!r}; choose another"
        )
    label = st.selectbox(
        "Sampling",
        list(measured),
        key=f"sidebar.{stored.profile.name}.{proposer}.sampling",
        help=words.SAMPLING,
    )
    return measured[label]


def _choose_domains(
    stored: StoredProfile, base: Scenario, everywhere: Scenario
) -> dict[str, float | DomainShare]:
    """Domain -> share; empty means every domain alike."""
    proposer = everywhere.speculation.proposer
    assert proposer is not None
    records = matching_records(stored, everywhere, proposer)
    domains = sorted({record.domain for record in records})
    shares = base.workload.domains
    kept = [domain for domain in domains if domain in shares]
    chosen = st.multiselect(
        "Domains",
        domains,
        default=kept or domains,
        key=f"sidebar.{base.name}.{proposer}.{everywhere.contract.value}.domains",
        help=words.DOMAINS,
        placeholder="all, alike",
    )
    return {domain: shares.get(domain, 1.0) for domain in chosen}


def _choose_gamma(profile: str, proposer: str, gammas: tuple[int, ...]) -> int:
    if not gammas:
        st.warning("These domains share no measured draft length; choose fewer domains.")
        return 0
    key, options = f"sidebar.{profile}.{proposer}.gamma", (0, *gammas)
    if st.session_state.get(key, 0) not in options:
        del st.session_state[key]  # other domains were measured at other lengths
    gamma: int = st.select_slider(
        "Draft length γ (tokens; 0: off)",
        options,
        value=DEFAULT_GAMMA if DEFAULT_GAMMA in gammas else gammas[-1],
        key=key,
        help=words.GAMMA,
    )
    return gamma


def _holds_recordings(stored: StoredProfile, changes: dict[str, Any]) -> bool:
    return any(
        record.kind == "trace"
        for record in stored.profile.acceptance
        if record.proposer == changes["speculation.proposer"]
    )
