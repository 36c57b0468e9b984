"""Run the scenario with and without speculation, and show both side by side."""

from dataclasses import dataclass

import pandas as pd
import streamlit as st

from app import words
from app.figure import show_figure
from app.job import Advance, finished_job, start_job
from simcore.metrics.summary import Summary, summarise
from simcore.profile.store import StoredProfile
from simcore.report.run_figures import (
    latency_figure,
    time_figure,
    timeline_figure,
    tokens_figure,
)
from simcore.report.units import seconds
from simcore.scenario import Scenario
from simcore.serving.simulation import SimulationResult, simulate

KEY = "serve.runs"


@dataclass(frozen=True)
class Run:
    """One simulated variant and its summary."""

    label: str
    result: SimulationResult
    summary: Summary


@dataclass(frozen=True)
class Comparison:
    """Off first, then the chosen γ (unless that is off), of one scenario."""

    scenario: Scenario
    runs: tuple[Run, ...]


def show_simulation(stored: StoredProfile, scenario: Scenario) -> None:
    """The button, the progress of a run, and the results of the last one."""
    replicas = scenario.deployment.replicas
    st.markdown(
        f"{scenario.workload.num_requests:,} requests through {replicas} "
        f"{'replica' if replicas == 1 else 'replicas'}, with queueing, prefill and KV cache; once "
        "without speculation and once with."
    )
    if st.button("Simulate", type="primary", key="serve.simulate"):
        start_job(
            KEY, lambda advance: _compare(stored, scenario, advance), scenario, unit="requests"
        )
    job = finished_job(KEY)
    if job is None:
        if KEY not in st.session_state:
            st.info("Press Simulate to see queues, batches, KV and latencies of this service.")
        return
    if job.asked != scenario:
        st.warning("The inputs have changed since this run. Press Simulate to run again.")
    _show(job.result)


def _compare(stored: StoredProfile, scenario: Scenario, advance: Advance) -> Comparison:
    """Both runs meet the same requests. Raises ScenarioError."""
    gamma = scenario.speculation.num_speculative_tokens
    variants = {"off": scenario.with_(speculation={"proposer": scenario.speculation.proposer})}
    if gamma > 0:
        variants[f"{scenario.speculation.proposer}, {scenario.speculation.drafts}"] = scenario
    runs: list[Run] = []
    for label, variant in variants.items():
        before = len(runs)

        def one(done: int, total: int, before: int = before) -> None:
            advance(done + before * total, total * len(variants))

        result = simulate(variant, stored=stored, progress=one)
        runs.append(Run(label, result, summarise(result)))
    return Comparison(scenario, tuple(runs))


def _show(comparison: Comparison) -> None:
    runs = {run.label: run for run in comparison.runs}
    st.table(pd.DataFrame({label: _column(run.summary) for label, run in runs.items()}))
    for run in comparison.runs:
        _show_warnings(run)
    with st.expander("What these words mean"):
        st.markdown(words.GLOSSARY)
    chosen = st.segmented_control(
        "Pictures of",
        list(runs),
        default=list(runs)[-1],
        required=True,
        key=f"serve.pictures.{list(runs)[-1]}",
    )
    show_figure(timeline_figure(runs[chosen].result), key="serve.timeline")
    show_figure(latency_figure(runs[chosen].result), key="serve.latency")
    _show_changes(runs[chosen].result)
    left, right = st.columns(2)
    summaries = {label: run.summary for label, run in runs.items()}
    with left:
        show_figure(tokens_figure(summaries), key="serve.tokens")
    with right:
        show_figure(time_figure(summaries), key="serve.time")
    st.caption(words.origin_line(comparison.runs[-1].result.origin))


def _show_changes(result: SimulationResult) -> None:
    """Every fallback with its time and reason, where the policy made any."""
    changes = result.policy_changes
    if not len(changes):
        return
    with st.expander(f"{len(changes):,} changes of the draft length, with their reasons"):
        st.dataframe(changes, hide_index=True, width="stretch")


def _show_warnings(run: Run) -> None:
    if run.summary.is_saturated:
        st.warning(
            f"{run.label}: saturated. Requests arrive faster than the service finishes them, so "
            "latency grows with the length of the run."
        )
    if run.summary.extrapolated_step_fraction > 0:
        share = words.percent(run.summary.extrapolated_step_fraction)
        st.caption(
            f"{run.label}: {share} of the steps lie outside the measured cost box; their time is "
            "extrapolated."
        )


def _column(summary: Summary) -> dict[str, str]:
    length = summary.tokens.mean_acceptance_length
    kv = summary.kv
    return {
        "First token, TTFT: p50": seconds(summary.ttft.p50_s),
        "First token, TTFT: p95": seconds(summary.ttft.p95_s),
        "Time per token, TPOT: p50": seconds(summary.tpot.p50_s),
        "Time per token, TPOT: p95": seconds(summary.tpot.p95_s),
        "Whole request, E2E: mean": seconds(summary.e2e.mean_s),
        "Whole request, E2E: p50": seconds(summary.e2e.p50_s),
        "Whole request, E2E: p95": seconds(summary.e2e.p95_s),
        "Throughput": f"{summary.request_rate_per_s:#.3g} requests/s",
        "Output": f"{summary.output_rate_tokens_per_s:,.4g} tokens/s",
        "Goodput": _goodput(summary),
        "Mean acceptance length": "–" if length is None else f"{length:.2f} tokens a cycle",
        "Mean batch": f"{summary.mean_batch_size:.1f} requests",
        "KV cache at its fullest": (
            f"{words.percent(kv.peak_used_fraction)} of {kv.total_tokens:,} tokens a replica"
        ),
        "Requests finished": f"{summary.num_requests['finished']:,}",
    }


def _goodput(summary: Summary) -> str:
    if summary.goodput_per_s is None or summary.goodput_fraction is None:
        return "no objective set"
    share = words.percent(summary.goodput_fraction)
    return f"{summary.goodput_per_s:#.3g} requests/s ({share} in time)"
