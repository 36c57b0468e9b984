"""The sidebar: widgets in, one validated scenario out.

Keys carry the workload or profile that they belong to, so that choosing another one starts from
its own values. An opened scenario (link, upload, saved) is one more workload.
"""

from typing import Any

import streamlit as st

from app import words
from app.cache import bundled_workloads, profile_names, stored_profile
from app.session import opened
from app.workload_inputs import choose_load, edit_deployment, edit_workload
from simcore.errors import ProfileError, ScenarioError
from simcore.matching import matching_records, measured_gammas
from simcore.profile.schema import Contract, Sampling, Source
from simcore.profile.store import StoredProfile
from simcore.scenario import Scenario
from simcore.workload_kinds import DomainShare


def scenario_sidebar() -> Scenario:
    """Draw the sidebar; raises ScenarioError or ProfileError where the choice is refused."""
    with st.sidebar:
        stored = _choose_profile()
        base, key = _choose_workload(stored)
        changes = _choose_speculation(stored, base, key)
        changes |= choose_load(base, key)
        with st.expander("Workload details"):
            changes |= edit_workload(base, key, _holds_recordings(stored, changes))
        with st.expander("Deployment and objective"):
            changes |= edit_deployment(base, key)
    return base.with_(**changes)


DEFAULT_GAMMA = 3

# --- profile and workload ----------------------------------------------------------------------


def _choose_profile() -> StoredProfile:
    names = profile_names()
    if not names:
        raise ProfileError("no profile is bundled; expected at least one folder under profiles/")
    if st.session_state.get("sidebar.profile", names[0]) not in names:
        missing = st.session_state.pop("sidebar.profile")
        st.warning(
            f"There is no profile {missing!r} here; import it on the page Calibrate. Until then "
            "another one is shown."
        )
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


# --- speculation -------------------------------------------------------------------------------


def _choose_speculation(stored: StoredProfile, base: Scenario, key: str) -> dict[str, Any]:
    key = f"{key}.{stored.profile.name}"
    proposers = list(stored.profile.proposers)
    wanted = base.speculation.proposer
    proposer = st.selectbox(
        "Proposer",
        proposers,
        index=proposers.index(wanted) if wanted in proposers else 0,
        key=f"{key}.proposer",
        help=words.PROPOSER,
    )
    key = f"{key}.{proposer}"
    contract, sampling = _choose_sampling(stored, base, proposer, key)
    st.caption(f"Contract **{contract.value.replace('_', ' ')}**: {words.CONTRACT_HELP[contract]}")
    changes: dict[str, Any] = {
        "contract": contract.value,
        "sampling": sampling.model_dump(),
        "speculation.proposer": proposer,
        "workload.domains": {},
    }
    changes["workload.domains"] = _choose_domains(stored, base, base.with_(**changes), key)
    gammas = measured_gammas(matching_records(stored, base.with_(**changes), proposer))
    gamma = _choose_gamma(base, gammas, key)
    if gamma == 0:
        return changes | {"speculation": {"proposer": proposer}}
    return changes | {"speculation.num_speculative_tokens": gamma}


def _choose_sampling(
    stored: StoredProfile, base: Scenario, proposer: str, key: str
) -> tuple[Contract, Sampling]:
    measured = {
        words.sampling_label(record.sampling): (record.contract, record.sampling)
        for record in stored.profile.acceptance
        if record.proposer == proposer
    }
    if not measured:
        raise ProfileError(
            f"profile {stored.profile.name!r} holds no acceptance of {proposer!r}; choose another"
        )
    labels = list(measured)
    wanted = words.sampling_label(base.sampling)
    label = st.selectbox(
        "Sampling",
        labels,
        index=labels.index(wanted) if wanted in measured else 0,
        key=f"{key}.sampling",
        help=words.SAMPLING,
    )
    return measured[label]


def _choose_domains(
    stored: StoredProfile, base: Scenario, everywhere: Scenario, key: str
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
        key=f"{key}.{everywhere.contract.value}.domains",
        help=words.DOMAINS,
        placeholder="all, alike",
    )
    return {domain: shares.get(domain, 1.0) for domain in chosen}


def _choose_gamma(base: Scenario, gammas: tuple[int, ...], key: str) -> int:
    if not gammas:
        st.warning("These domains share no measured draft length; choose fewer domains.")
        return 0
    key, options = f"{key}.gamma", (0, *gammas)
    speculation = base.speculation
    is_open = speculation.proposer is None  # the scenario leaves the choice to its plan
    wanted = DEFAULT_GAMMA if is_open else speculation.num_speculative_tokens
    if st.session_state.get(key, 0) not in options:
        del st.session_state[key]  # other domains were measured at other lengths
    gamma: int = st.select_slider(
        "Draft length γ (tokens; 0: off)",
        options,
        value=wanted if wanted in options else gammas[-1],
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
