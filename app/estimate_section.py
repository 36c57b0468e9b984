"""The instant part of the page: headline numbers and pictures from the closed form."""

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from app import words
from app.cache import survivals
from app.figure import show_figure
from simcore.acceptance.survival import iid_mean_emitted_tokens
from simcore.planner.estimate import Estimate, estimate
from simcore.planner.speedup import CycleSurvival, SpeedupPoint
from simcore.profile.store import StoredProfile
from simcore.report.figures import cycle_time_figure, speedup_figure, survival_figure
from simcore.report.units import seconds
from simcore.scenario import Scenario

BATCH_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
MAX_BATCH_SIZES = 6  # as many as a picture has colours for
DEFAULT_CONTEXT_TOKENS = 512


def show_estimate(stored: StoredProfile, scenario: Scenario) -> None:
    """Headline, survival, cycle time and speed-up over γ; no simulation."""
    headline = st.container()
    batch_size, context_tokens = _choose_point(stored, scenario)
    found = survivals(stored, scenario)
    proposer = scenario.speculation.proposer
    assert proposer is not None
    made = estimate(
        stored,
        scenario,
        proposer,
        batch_sizes=_batch_sizes(stored),
        context_tokens=context_tokens,
        survivals=found,
    )
    gamma = scenario.speculation.num_speculative_tokens
    with headline:
        if gamma == 0:
            _show_off(made.points[1][0])
        else:
            point = next(each for each in made.points[1] if each.gamma == gamma)
            _show_headline(proposer, made.survivals[gamma], point)
    _show_figures(made, gamma, batch_size)


def _batch_sizes(stored: StoredProfile) -> tuple[int, ...]:
    """Powers of two inside the measured box; every other one where a picture could not hold all."""
    limit = stored.profile.cost.domain.max_batch_size
    sizes = tuple(size for size in BATCH_SIZES if size <= limit)
    return sizes if len(sizes) <= MAX_BATCH_SIZES else sizes[::2]


def _choose_point(stored: StoredProfile, scenario: Scenario) -> tuple[int, int]:
    lengths = scenario.workload.lengths
    usual = lengths.prompt.mean_tokens if lengths.kind == "lognormal" else DEFAULT_CONTEXT_TOKENS
    limit = stored.profile.cost.domain.max_context_tokens
    left, right = st.columns(2)
    batch_size = left.select_slider(
        "Batch size of the cycle-time picture (requests)",
        _batch_sizes(stored),
        key=f"decide.{stored.profile.name}.batch_size",
        help=words.BATCH,
    )
    context_tokens = right.slider(
        "Context of a request (tokens)",
        min_value=1,
        max_value=limit,
        value=min(int(usual), limit),
        key=f"decide.{stored.profile.name}.context_tokens",
        help=words.CONTEXT,
    )
    return batch_size, context_tokens


def _show_off(point: SpeedupPoint) -> None:
    st.subheader("Speculation is off: one token a step.")
    left, right = st.columns(2)
    left.metric("Tokens a step and request", "1", help=words.EMITTED, border=True)
    right.metric(
        "Plain step, batch 1", seconds(point.plain.total_s), help=words.PLAIN_STEP, border=True
    )


def _show_headline(proposer: str, survival: CycleSurvival, point: SpeedupPoint) -> None:
    ending = "as without" if point.speedup > 1.0 else "as without: it does not pay"
    st.subheader(
        f"With {proposer} at γ = {survival.gamma}, one request alone decodes "
        f"{point.speedup:.2f} × as fast {ending}."
    )
    emitted, speedup, alpha, all_accepted = st.columns(4)
    iid = iid_mean_emitted_tokens(survival.acceptance_rate, survival.gamma)
    _card(
        emitted,
        "Tokens a cycle, E[Y]",
        f"{survival.mean_emitted_tokens:.2f}",
        f"At batch 1 it pays above {point.break_even_tokens:.2f}.",
        words.EMITTED,
    )
    _card(
        speedup,
        "Speed-up S, batch 1",
        f"{point.speedup:.2f} ×",
        f"Plain step {seconds(point.plain.total_s)}, cycle {seconds(point.cycle.total_s)}.",
        words.SPEEDUP,
    )
    _card(
        alpha,
        "Acceptance rate α",
        f"{survival.acceptance_rate:.3f}",
        f"As IID it would predict {iid:.2f} tokens a cycle.",
        words.ALPHA,
    )
    _card(
        all_accepted,
        f"All {survival.gamma} drafts accepted" if survival.gamma > 1 else "Draft accepted",
        words.percent(survival.survival[-1]),
        _interval(survival),
        words.SURVIVAL,
    )


def _interval(survival: CycleSurvival) -> str:
    if survival.lower == survival.upper:
        return "The source states no interval."
    low, high = words.percent(survival.lower[-1]), words.percent(survival.upper[-1])
    return f"95 % interval: {low} to {high}."


def _card(column: DeltaGenerator, *texts: str) -> None:
    label, value, beside, help_text = texts
    with column.container(border=True, height="stretch", gap="small"):
        st.metric(label, value, help=help_text)
        st.caption(beside)


def _show_figures(made: Estimate, gamma: int, batch_size: int) -> None:
    left, right = st.columns(2)
    with left:
        if gamma == 0:
            st.info("Nothing is drafted at γ = 0. Move γ above 0 to see how drafts survive.")
        else:
            show_figure(survival_figure(made.survivals[gamma]), key="decide.survival")
    with right:
        show_figure(cycle_time_figure(made.points[batch_size]), key="decide.cycle_time")
    show_figure(speedup_figure(made), key="decide.speedup")
    if any(point.is_extrapolated for points in made.points.values() for point in points):
        st.caption(
            "Some points lie outside the measured box of the cost law (see Provenance): their time "
            "is extrapolated."
        )
