"""Batch and context that closed-form results are for: chosen on the page Speculate, used by all."""

import streamlit as st

from app import words
from simcore.planner.speedup_map import map_batch_sizes
from simcore.profile.store import StoredProfile
from simcore.scenario import Scenario

DEFAULT_CONTEXT_TOKENS = 512
FOLLOWED = "point.followed"


def point_in_force(stored: StoredProfile, scenario: Scenario) -> tuple[int, int]:
    """(batch, context tokens) of this visitor for this profile; one request alone at first."""
    batch, context = _keys(stored)
    return (
        st.session_state.get(batch, _kept(batch, 1)),
        st.session_state.get(context, _kept(context, _usual_context(stored, scenario))),
    )


def follow_point(stored: StoredProfile, scenario: Scenario) -> tuple[int, int]:
    """The same for the sidebar: what is in force then depends on it, so moving it runs all anew."""
    st.session_state[FOLLOWED] = True
    return point_in_force(stored, scenario)


def is_followed() -> bool:
    """Whether the sidebar that stands now followed the point."""
    return FOLLOWED in st.session_state


def follow_no_point() -> None:
    """Forget it; call it before the sidebar is drawn."""
    st.session_state.pop(FOLLOWED, None)


def choose_point(stored: StoredProfile, scenario: Scenario) -> tuple[int, int]:
    """The two sliders."""
    batch, context = point_in_force(stored, scenario)
    limit = stored.profile.cost.domain.max_context_tokens
    left, right = st.columns(2)
    batch = left.select_slider(
        "Batch (requests that decode together)",
        map_batch_sizes(stored.profile.cost.domain.max_batch_size),
        value=batch,
        key=_keys(stored)[0],
        help=words.BATCH,
    )
    context = right.slider(
        "Context of a request (tokens)",
        min_value=1,
        max_value=limit,
        value=context,
        key=_keys(stored)[1],
        help=words.CONTEXT,
    )
    for key, value in zip(_keys(stored), (batch, context), strict=True):
        st.session_state[f"{key}.kept"] = value  # a widget's own is forgotten on other pages
    return batch, context


def _keys(stored: StoredProfile) -> tuple[str, str]:
    prefix = f"point.{stored.profile.name}"
    return f"{prefix}.batch_size", f"{prefix}.context_tokens"


def _kept(key: str, default: int) -> int:
    value: int = st.session_state.get(f"{key}.kept", default)
    return value


def _usual_context(stored: StoredProfile, scenario: Scenario) -> int:
    lengths = scenario.workload.lengths
    usual = lengths.prompt.mean_tokens if lengths.kind == "lognormal" else DEFAULT_CONTEXT_TOKENS
    return min(int(usual), stored.profile.cost.domain.max_context_tokens)
