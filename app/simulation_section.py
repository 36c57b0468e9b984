"""Run the scenario with and without speculation, and show both side by side."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import pandas as pd
import streamlit as st

from app import words
from app.figure import Picture, picture, show_figure, show_picture
from app.job import Advance, finished_job, start_job
from app.kept_section import read_kept, show_keep, show_kept_results
from app.session import open_next
from simcore.metrics.summary import Summary, summarise
from simcore.profile.schema import Frozen
from simcore.profile.store import StoredProfile
from simcore.report.metric_words import meaning
from simcore.report.run_figures import (
    latency_figure,
    time_figure,
    timeline_figure,
    tokens_figure,
)
from simcore.report.units import digits, percent, rate, seconds
from simcore.scenario import Scenario
from simcore.serving.simulation import SimulationResult, simulate

KEY = "serve.runs"
CARDS: dict[str, tuple[str, Callable[[Summary], str]]] = {  # short: they stand four in a row
    "TTFT p95": ("ttft.p95_s", lambda each: seconds(each.ttft.p95_s)),
    "TPOT p50": ("tpot.p50_s", lambda each: seconds(each.tpot.p50_s)),
    "E2E p50": ("e2e.p50_s", lambda each: seconds(each.e2e.p50_s)),
    "Requests/s": ("request_rate_per_s", lambda each: digits(each.request_rate_per_s)),
}


@dataclass(frozen=True)
class Run:
    """One simulated variant and its summary."""

    label: str
    result: SimulationResult | None  # None: only its numbers were kept
    summary: Summary

    @cached_property
    def pictures(self) -> dict[str, Picture]:
        """Key -> what is drawn of the result alone: made once, however often the page runs."""
        assert self.result is not None
        return {
            "serve.timeline": picture(timeline_figure(self.result)),
            "serve.latency": picture(latency_figure(self.result)),
        }


class Kept(Frozen):
    """The numbers of runs by label, and their scenario."""

    asked: Scenario
    runs: dict[str, Summary]


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
    show_kept_results("simulation", KEY, _read)
    job = finished_job(KEY)
    if job is None:
        if KEY not in st.session_state:
            st.info("Press Simulate to see queues, batches, KV and latencies of this service.")
        return
    if job.asked != scenario:
        st.warning("The inputs have changed since this run. Press Simulate to run again.")
    _show(job.result)
    runs = {run.label: run.summary for run in job.result.runs}
    kept = Kept(asked=job.asked, runs=runs)
    show_keep("simulation", job.asked.name, kept.model_dump_json)


def _compare(stored: StoredProfile, scenario: Scenario, advance: Advance) -> Comparison:
    """Both runs meet the same requests. Raises ScenarioError."""
    gamma = scenario.speculation.num_speculative_tokens
    variants = {"off": scenario.with_(speculation={"proposer": scenario.speculation.proposer})}
    if gamma > 0:
        variants[f"{scenario.speculation.proposer}, {scenario.speculation.served}"] = scenario
    runs: list[Run] = []
    for label, variant in variants.items():
        before = len(runs)

        def one(done: int, total: int, before: int = before) -> None:
            advance(done + before * total, total * len(variants))

        result = simulate(variant, stored=stored, progress=one)
        runs.append(Run(label, result, summarise(result)))
    return Comparison(scenario, tuple(runs))


def _read(content: str, name: str) -> tuple[Scenario, Comparison]:
    """Raises SpecplanError."""
    kept = read_kept(Kept, content, name)
    runs = tuple(Run(label, None, summary) for label, summary in kept.runs.items())
    return kept.asked, Comparison(kept.asked, runs)


def _show(comparison: Comparison) -> None:
    runs = {run.label: run for run in comparison.runs}
    _show_cards(comparison)
    rows = {label: _rows(run.summary) for label, run in runs.items()}
    cells = {
        label: {name: text for name, (_, text) in each.items()} for label, each in rows.items()
    }
    st.table(pd.DataFrame(cells))
    st.caption(words.ONE_RUN)
    with st.expander("What these numbers mean"):
        metrics = (metric for metric, _ in rows["off"].values())
        st.markdown("\n".join(f"- {text}" for text in dict.fromkeys(map(meaning, metrics))))
    for run in comparison.runs:
        _show_warnings(run)
    chosen = st.segmented_control(
        "Pictures of",
        list(runs),
        default=list(runs)[-1],
        required=True,
        key=f"serve.pictures.{list(runs)[-1]}",
    )
    _show_run(runs[chosen], comparison.scenario)
    left, right = st.columns(2)
    summaries = {label: run.summary for label, run in runs.items()}
    with left:
        show_figure(tokens_figure(summaries), key="serve.tokens")
    with right:
        show_figure(time_figure(summaries), key="serve.time")
    st.caption(words.origin_line(comparison.runs[-1].summary.origin))


def _show_cards(comparison: Comparison) -> None:
    """The numbers that users feel, each with its definition, off beside them."""
    off, last = comparison.runs[0].summary, comparison.runs[-1].summary
    for column, (name, (metric, text)) in zip(st.columns(len(CARDS)), CARDS.items(), strict=True):
        with column.container(border=True, height="stretch", gap="small"):
            st.metric(name, text(last), help=meaning(metric))
            if len(comparison.runs) > 1:
                st.caption(f"Off: {text(off)}")


def _show_run(run: Run, scenario: Scenario) -> None:
    """Pictures over time; of a kept run only the way to get them."""
    if run.result is None:
        st.info(words.ONLY_NUMBERS)
        if st.button("Open its scenario", key="serve.open"):
            open_next(scenario, scenario.name)
        return
    for key, drawn in run.pictures.items():
        show_picture(drawn, key=key)
    _show_changes(run.result)


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
        share = percent(run.summary.extrapolated_step_fraction)
        st.caption(
            f"{run.label}: {share} of the steps lie outside the measured cost box; their time is "
            "extrapolated."
        )


def _rows(summary: Summary) -> dict[str, tuple[str, str]]:
    """Label -> the summary's field, and its number as it is written."""
    length, kv = summary.tokens.mean_acceptance_length, summary.kv
    return {
        "First token, TTFT: p50": ("ttft.p50_s", seconds(summary.ttft.p50_s)),
        "First token, TTFT: p95": ("ttft.p95_s", seconds(summary.ttft.p95_s)),
        "Time per token, TPOT: p50": ("tpot.p50_s", seconds(summary.tpot.p50_s)),
        "Time per token, TPOT: p95": ("tpot.p95_s", seconds(summary.tpot.p95_s)),
        "Whole request, E2E: mean": ("e2e.mean_s", seconds(summary.e2e.mean_s)),
        "Whole request, E2E: p50": ("e2e.p50_s", seconds(summary.e2e.p50_s)),
        "Whole request, E2E: p95": ("e2e.p95_s", seconds(summary.e2e.p95_s)),
        "Throughput": ("request_rate_per_s", rate(summary.request_rate_per_s)),
        "Output": (
            "output_rate_tokens_per_s",
            f"{summary.output_rate_tokens_per_s:,.4g} tokens/s",
        ),
        "Goodput": ("goodput_per_s", _goodput(summary)),
        "Mean acceptance length": (
            "tokens.mean_acceptance_length",
            "–" if length is None else f"{length:.2f} tokens a cycle",
        ),
        "Mean batch": ("mean_batch_size", f"{summary.mean_batch_size:.1f} requests"),
        "KV cache at its fullest": (
            "kv.peak_used_fraction",
            f"{percent(kv.peak_used_fraction)} of {kv.total_tokens:,} tokens a replica",
        ),
        "Requests finished": ("num_requests", f"{summary.num_requests['finished']:,}"),
    }


def _goodput(summary: Summary) -> str:
    if summary.goodput_per_s is None or summary.goodput_fraction is None:
        return "no objective set"
    return f"{rate(summary.goodput_per_s)} ({percent(summary.goodput_fraction)} in time)"
