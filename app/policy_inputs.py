"""Sidebar widgets for the policy and the acceptance model; the workload's own are kept."""

from typing import Any

import streamlit as st

from app import words
from app.drafts import all_survivals
from app.point import follow_point
from simcore.planner.speedup_map import batch_size_table, break_even_acceptance, speedup_map
from simcore.policy_defaults import (
    MILD,
    SEVERE,
    DraftShape,
    default_policy,
    fits,
    memory_ladder,
    offered_kinds,
)
from simcore.profile.store import StoredProfile
from simcore.scenario import Scenario
from simcore.speculation import (
    AcceptanceGate,
    AdaptiveEMA,
    FixedPolicy,
    GoodputPolicy,
    MemoryPressure,
    Policy,
)

OWN, OFF = "own", "off"
WITHOUT_SETTINGS = ("fixed", "oracle")


def choose_policy(
    stored: StoredProfile, base: Scenario, asked: Scenario, key: str
) -> dict[str, Any] | None:
    """The policy as a scenario holds it; None: off. `asked` names the drafts that it drives."""
    own, shape = base.speculation.policy, DraftShape.of(asked.speculation)
    is_own_offered = not isinstance(own, FixedPolicy) and fits(own, shape)
    kinds = [OWN] if is_own_offered else []
    kinds += [*offered_kinds(shape), OFF]
    key = f"{key}.policy"
    if st.session_state.get(key, kinds[0]) not in kinds:
        del st.session_state[key]  # chosen for drafts of another shape
    kind = st.selectbox(
        "Policy",
        kinds,
        index=0 if is_own_offered or own.kind not in kinds else kinds.index(own.kind),
        format_func=lambda each: (
            f"{words.POLICIES[own.kind]}, of the workload" if each == OWN else words.POLICIES[each]
        ),
        key=key,
        help=words.POLICY,
    )
    st.caption(words.POLICY_HELP[own.kind if kind == OWN else kind])
    if kind == OWN:
        return own.model_dump(mode="json")
    if kind == OFF:
        return None
    if kind in WITHOUT_SETTINGS:
        return default_policy(kind, shape).model_dump(mode="json")
    with st.expander("Settings of the policy"):
        policy = _edited(stored, asked, kind, shape, f"{key}.{kind}.{shape.depth}")
    return policy.model_dump(mode="json")


def _edited(
    stored: StoredProfile, asked: Scenario, kind: str, shape: DraftShape, key: str
) -> Policy:
    if kind == "batch_size_table":
        return _edit_table(stored, asked, shape, key)
    if kind == "acceptance_gate":
        return _edit_gate(stored, asked, shape, key)
    policy = default_policy(kind, shape)
    if isinstance(policy, AdaptiveEMA):
        return _edit_adaptive(policy, shape, key)
    if isinstance(policy, GoodputPolicy):
        return policy.model_copy(
            update={
                "ema_alpha": _share("Weight of the newest", policy.ema_alpha, key, words.EMA_ALPHA),
                "hysteresis": _share("Least gain", policy.hysteresis, key, words.HYSTERESIS),
            }
        )
    if isinstance(policy, MemoryPressure):
        mild = _share("Half the drafts below", MILD, key, words.MILD)
        severe = _share("None below", SEVERE, key, words.SEVERE)
        return policy.model_copy(update={"ladder": memory_ladder(shape, mild, severe)})
    return policy


def _edit_table(stored: StoredProfile, asked: Scenario, shape: DraftShape, key: str) -> Policy:
    least = st.number_input(
        "Least speed-up", 0.5, 4.0, 1.0, 0.05, key=f"{key}.least", help=words.LEAST_SPEEDUP
    )
    survivals = [
        each
        for each in all_survivals(stored, asked)
        if (each.num_draft_tokens is not None) == shape.is_tree and each.gamma <= shape.depth
    ]
    proposer = asked.speculation.proposer or ""
    found = speedup_map(stored, proposer, survivals, follow_point(stored, asked)[1])
    most = asked.deployment.max_num_seqs
    table = batch_size_table(found, most, least_speedup=least)
    st.dataframe(
        [{"batch from": a, "to": b, "drafts": length} for a, b, length in table],
        hide_index=True,
        width="stretch",
    )
    return default_policy("batch_size_table", shape, table=table)


def _edit_gate(stored: StoredProfile, asked: Scenario, shape: DraftShape, key: str) -> Policy:
    batch, context = follow_point(stored, asked)
    own = [s for s in all_survivals(stored, asked) if s.gamma == shape.depth][-1:]
    proposer = asked.speculation.proposer or ""
    points = [
        point
        for row in speedup_map(stored, proposer, own, context, (batch,)).points
        for point in row
        if point is not None
    ]
    nodes = asked.speculation.num_draft_tokens
    threshold = break_even_acceptance(points[0], nodes) if points else 0.5
    policy = default_policy("acceptance_gate", shape, threshold=threshold)
    assert isinstance(policy, AcceptanceGate)
    window = st.number_input(
        "Window (steps)", 1, 100_000, policy.window_steps, key=f"{key}.window", help=words.WINDOW
    )
    bound = _share("Off below", policy.threshold, f"{key}.{batch}.{context}", words.THRESHOLD)
    return policy.model_copy(update={"window_steps": int(window), "threshold": bound})


def _edit_adaptive(policy: AdaptiveEMA, shape: DraftShape, key: str) -> Policy:
    candidates = st.multiselect(
        "Draft lengths",
        list(range(shape.depth + 1)),
        default=policy.candidates,
        key=f"{key}.candidates",
        help=words.CANDIDATES,
    )
    interval = st.number_input(
        "Update interval (steps)",
        1,
        10_000,
        policy.update_interval,
        key=f"{key}.interval",
        help=words.UPDATE_INTERVAL,
    )
    return policy.model_copy(
        update={
            "candidates": tuple(sorted(candidates)) or policy.candidates,
            "update_interval": int(interval),
            "ema_alpha": _share("Weight of the newest", policy.ema_alpha, key, words.EMA_ALPHA),
        }
    )


def _share(label: str, value: float, key: str, help_text: str) -> float:
    chosen: float = st.slider(label, 0.01, 0.99, value, 0.01, key=f"{key}.{label}", help=help_text)
    return chosen


def choose_acceptance(
    stored: StoredProfile, base: Scenario, asked: Scenario, key: str
) -> dict[str, Any]:
    """Acceptance model and the share of requests that decode plainly."""
    own = base.speculation
    has_traces = any(
        record.kind == "trace"
        for record in stored.profile.acceptance
        if record.proposer == asked.speculation.proposer
    )
    models = ["auto"] + ["trace"] * has_traces
    if not DraftShape.of(asked.speculation).is_tree:
        models += ["positional", "heterogeneous", "iid"]
    if st.session_state.get(f"{key}.acceptance", "auto") not in models:
        del st.session_state[f"{key}.acceptance"]
    with st.expander("Acceptance model"):
        model = st.selectbox(
            "Accepted drafts are drawn by",
            models,
            index=models.index(own.acceptance) if own.acceptance in models else 0,
            format_func=words.ACCEPTANCE_MODELS.get,
            key=f"{key}.acceptance",
            help=words.ACCEPTANCE,
        )
        plain = st.slider(
            "Requests that cannot speculate",
            0.0,
            1.0,
            own.plain_fraction,
            key=f"{key}.plain_fraction",
            help=words.PLAIN_FRACTION,
        )
    return {"acceptance": model, "plain_fraction": plain}
