"""Run the scenario with and without speculation, and show both side by side."""

from dataclasses import dataclass

import pandas as pd
import streamlit as st

from app import words
from app.errors import shown_errors
from app.figure import show_figure
from simcore.metrics.summary import Summary, summarise
from simcore.profile.store import StoredProfile
from simcore.report.run_figures import latency_figure, timeline_figure
from simcore.report.units import seconds
from simcore.scenario import Scenario
from simcore.serving.simulation import SimulationResult, simulate

COMPILING = (
    "Starting. On first use the simulator compiles its kernels (about 10 s, then kept on disk)."
)
KEY = "decide.comparison"


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
    """The button, and the results of the last run."""
    st.header("Simulate the service", divider="gray")
    replicas = scenario.deployment.replicas
    st.markdown(
        f"{scenario.workload.num_requests:,} requests through {replicas} "
        f"{'replica' if replicas == 1 else 'replicas'}, with queueing, prefill and KV cache; once "
        "without speculation and once with."
    )
    if st.button("Simulate", type="primary", key="decide.simulate"):
        st.session_state.pop(KEY, None)
        with shown_errors():
            st.session_state[KEY] = _compare(stored, scenario)
    comparison: Comparison | None = st.session_state.get(KEY)
    if comparison is not None:
        if comparison.scenario != scenario:
            st.warning("The inputs have changed since this run. Press Simulate to run again.")
        _show(comparison)


def _compare(stored: StoredProfile, scenario: Scenario) -> Comparison:
    gamma = scenario.speculation.num_speculative_tokens
    proposer = scenario.speculation.proposer
    variants = {"off": scenario.with_(**{"speculation.num_speculative_tokens": 0})}
    if gamma > 0:
        variants[f"{proposer}, γ = {gamma}"] = scenario
    bar = st.progress(0.0, text=COMPILING)
    runs = []
    for label, variant in variants.items():

        def advance(done: int, total: int, label: str = label) -> None:
            bar.progress(done / total, text=f"{label}: {done:,} of {total:,} requests ended")

        result = simulate(variant, stored=stored, progress=advance)
        runs.append(Run(label, result, summarise(result)))
    bar.empty()
    return Comparison(scenario, tuple(runs))


def _show(comparison: Comparison) -> None:
    st.table(pd.DataFrame({run.label: _column(run.summary) for run in comparison.runs}))
    for run in comparison.runs:
        _show_warnings(run)
    with st.expander("What these words mean"):
        st.markdown(words.GLOSSARY)
    labels = [run.label for run in comparison.runs]
    chosen = st.segmented_control(
        "Pictures of",
        labels,
        default=labels[-1],
        required=True,
        key=f"decide.pictures.{labels[-1]}",
    )
    for run in comparison.runs:
        if run.label == chosen:
            show_figure(latency_figure(run.result), key="decide.latency")
            show_figure(timeline_figure(run.result), key="decide.timeline")
    st.caption(words.origin_line(comparison.runs[-1].result.origin))


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
