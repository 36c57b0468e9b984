"""Sidebar widgets for load, lengths, deployment and objective; each returns scenario changes."""

from typing import Any

import streamlit as st
from pydantic import BaseModel

from app import words
from simcore.report.units import digits
from simcore.scenario import Deployment, LognormalLengths, Scenario, Workload
from simcore.workload.load import mean_rate_per_s

MAX_LOAD_FACTOR = 16.0  # the slider ends at this times the workload's own rate
NUM_LOAD_STEPS = 320
MAX_WIDGET_INT = 2**53 - 1  # a browser holds no larger whole number


def choose_load(base: Scenario, key: str) -> dict[str, Any]:
    arrivals = base.workload.arrivals
    if arrivals.kind == "batch":
        st.caption("Offline batch: every request arrives at the start.")
        return {}
    if arrivals.kind != "poisson":
        st.caption(f"Arrivals of kind {arrivals.kind} come as the workload states them.")
        return {}
    top = MAX_LOAD_FACTOR * arrivals.rate_per_s
    step = top / NUM_LOAD_STEPS
    has_sessions = base.workload.sessions is not None
    rate = st.slider(
        "Load (sessions/s)" if has_sessions else "Load (requests/s)",
        min_value=step,
        max_value=top,
        value=arrivals.rate_per_s,
        step=step,
        key=f"{key}.rate",
        help=words.SESSION_LOAD if has_sessions else words.LOAD,
    )
    changes = {"workload.arrivals.rate_per_s": rate}
    if has_sessions:
        offered_per_s = mean_rate_per_s(base.with_(**changes).workload)
        st.caption(f"With every turn of a session: {digits(offered_per_s or 0.0)} requests/s.")
    return changes


def edit_workload(base: Scenario, prefix: str, has_recordings: bool) -> dict[str, Any]:
    changes: dict[str, Any] = {
        "workload.num_requests": st.number_input(
            "Requests to simulate",
            **_bounds(Workload, "num_requests"),
            value=base.workload.num_requests,
            step=500,
            key=f"{prefix}.num_requests",
            help=words.NUM_REQUESTS,
        ),
        "seed": _edit_seed(base, prefix),
    }
    lengths = base.workload.lengths
    if lengths.kind == "recorded":
        st.caption("Lengths and acceptance come from recorded requests together.")
        return changes
    if lengths.kind != "lognormal":
        st.caption(f"Lengths of kind {lengths.kind} come as the workload states them.")
        return changes
    if has_recordings and st.toggle(
        "Lengths of recorded requests", key=f"{prefix}.recorded", help=words.RECORDED
    ):
        return changes | {"workload.lengths": {"kind": "recorded"}}
    return changes | {"workload.lengths": _edit_lengths(prefix, lengths)}


def _bounds(section: type[BaseModel], name: str) -> dict[str, Any]:
    """What a field of a scenario may be: a link may bring any of it, and a widget must hold it."""
    found = section.model_fields[name].metadata
    least = [each.ge for each in found if hasattr(each, "ge")]
    most = [each.le for each in found if hasattr(each, "le")]
    return {"min_value": least[0], "max_value": most[0]}


def _edit_seed(base: Scenario, prefix: str) -> int:
    if base.seed > MAX_WIDGET_INT:
        st.caption(f"Seed {base.seed}, as the workload states it.")
        return base.seed
    chosen: int = st.number_input(
        "Seed", min_value=0, value=base.seed, step=1, key=f"{prefix}.seed", help=words.SEED
    )
    return chosen


def _edit_lengths(prefix: str, lengths: LognormalLengths) -> dict[str, Any]:
    edited: dict[str, Any] = {"kind": "lognormal"}
    for part, title, help_text in (
        ("prompt", "Prompt", words.PROMPT_TOKENS),
        ("output", "Answer", words.OUTPUT_TOKENS),
    ):
        before = getattr(lengths, part)
        key = f"{prefix}.{part}"
        edited[part] = {
            "mean_tokens": st.number_input(
                f"{title}, mean (tokens)",
                min_value=1.0,
                value=before.mean_tokens,
                step=10.0,
                format="%.0f",
                key=f"{key}.mean_tokens",
                help=help_text,
            ),
            "cv": st.number_input(
                f"{title}, spread (std / mean)",
                min_value=0.0,
                max_value=10.0,
                value=before.cv,
                step=0.1,
                format="%.1f",
                key=f"{key}.cv",
                help=words.CV,
            ),
            "max_tokens": st.number_input(
                f"{title}, longest (tokens)",
                min_value=1,
                value=before.max_tokens,
                step=64,
                key=f"{key}.max_tokens",
                help=words.MAX_TOKENS,
            ),
        }
    return edited


def edit_deployment(base: Scenario, prefix: str) -> dict[str, Any]:
    changes: dict[str, Any] = {
        "deployment.replicas": st.number_input(
            "Replicas",
            **_bounds(Deployment, "replicas"),
            value=base.deployment.replicas,
            key=f"{prefix}.replicas",
            help=words.REPLICAS,
        ),
        "deployment.max_num_seqs": st.number_input(
            "Running requests a replica (max_num_seqs)",
            **_bounds(Deployment, "max_num_seqs"),
            value=base.deployment.max_num_seqs,
            key=f"{prefix}.max_num_seqs",
            help=words.MAX_NUM_SEQS,
        ),
    }
    for name, title, help_text in (
        ("ttft_s", "Limit for TTFT (s)", words.TTFT),
        ("tpot_s", "Limit for TPOT (s)", words.TPOT),
        ("itl_s", "Limit for the longest gap, ITL (s)", words.ITL),
        ("e2e_s", "Limit for E2E (s)", words.E2E),
    ):
        limit = st.number_input(
            title,
            min_value=0.0,
            value=getattr(base.slo, name) or 0.0,
            step=0.01,
            format="%.3f",
            key=f"{prefix}.{name}",
            help=f"{help_text} {words.SLO}",
        )
        changes[f"slo.{name}"] = limit or None
    return changes | _edit_shares(base, prefix)


def _edit_shares(base: Scenario, prefix: str) -> dict[str, Any]:
    """How many requests must meet the limits; one of the two, or both."""
    percentile = st.number_input(
        "Each limit holds at percentile (0: not asked)",
        min_value=0.0,
        max_value=100.0,
        value=base.slo.percentile or 0.0,
        step=1.0,
        format="%.2f",
        key=f"{prefix}.percentile",
        help=words.PERCENTILE,
    )
    share = st.number_input(
        "Share that meets every limit (0: 0.95, or not asked)",
        min_value=0.0,
        max_value=1.0,
        value=base.slo.goodput_fraction or 0.0,
        step=0.01,
        format="%.3f",
        key=f"{prefix}.goodput_fraction",
        help=words.GOODPUT_FRACTION,
    )
    return {"slo.percentile": percentile or None, "slo.goodput_fraction": share or None}
