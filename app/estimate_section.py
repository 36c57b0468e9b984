"""Headline numbers of the drafts in force, from the closed form; no simulation."""

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from app import words
from app.drafts import draft_survival
from app.point import point_in_force
from simcore.acceptance.survival import iid_mean_emitted_tokens
from simcore.errors import ScenarioError
from simcore.planner.speedup import OFF, CycleSurvival, SpeedupPoint
from simcore.planner.speedup_map import speedup_map
from simcore.profile.store import StoredProfile
from simcore.report.table import escape_markdown
from simcore.report.units import percent, seconds
from simcore.scenario import Scenario


def show_estimate(stored: StoredProfile, scenario: Scenario) -> None:
    """The verdict for one request alone."""
    show_headline(stored, scenario, 1, point_in_force(stored, scenario)[1])


def show_headline(
    stored: StoredProfile, scenario: Scenario, batch_size: int, context_tokens: int
) -> CycleSurvival | None:
    """Verdict and cards; the survival behind them, None when off or where nobody measured it."""
    proposer = scenario.speculation.proposer
    assert proposer is not None
    gamma = scenario.speculation.num_speculative_tokens
    survival = draft_survival(stored, scenario) if gamma else None
    if gamma and survival is None:
        st.subheader(f"γ = {gamma} was not measured: the closed form has no answer.")
        st.info(words.NOT_MEASURED)
        return None
    point = _point(stored, proposer, survival, batch_size, context_tokens)
    if survival is None:
        _show_off(point)
    else:
        _show_on(proposer, survival, point)
    return survival


def _point(
    stored: StoredProfile,
    proposer: str,
    survival: CycleSurvival | None,
    batch_size: int,
    context_tokens: int,
) -> SpeedupPoint:
    """One point; when off, only its plain step means anything."""
    found = speedup_map(stored, proposer, (survival or OFF,), context_tokens, (batch_size,))
    point = found.at(batch_size)
    if point is None:
        raise ScenarioError(
            f"a batch of {batch_size} lies past the last captured size and no step was measured "
            "outside graphs; choose a smaller batch"
        )
    return point


def _show_off(point: SpeedupPoint) -> None:
    st.subheader("Speculation is off: one token a step.")
    left, right = st.columns(2)
    left.metric("Tokens a step and request", "1", help=words.EMITTED, border=True)
    right.metric(
        f"Plain step, batch {point.batch_size}",
        seconds(point.plain.total_s),
        help=words.PLAIN_STEP,
        border=True,
    )


def _show_on(proposer: str, survival: CycleSurvival, point: SpeedupPoint) -> None:
    ending = {True: "", False: ": it does not pay", None: ": indistinguishable"}[point.pays]
    batch = point.batch_size
    who = "one request alone decodes" if batch == 1 else f"{batch} requests together decode"
    st.subheader(
        f"With {escape_markdown(proposer)} {_drafts(survival)}, {who} {point.speedup:.2f} × "
        f"as fast as without{ending}.{_sentence(point.speedup_interval) or words.NO_INTERVAL}"
    )
    emitted, speedup, alpha, all_accepted = st.columns(4)
    iid = iid_mean_emitted_tokens(survival.acceptance_rate, survival.gamma)
    _card(
        emitted,
        "Tokens a cycle, E[Y]",
        f"{survival.mean_emitted_tokens:.2f}",
        f"{_sentence(survival.mean_interval)} {_break_even(point)}".strip(),
        words.EMITTED,
    )
    _card(
        speedup,
        f"Speed-up S, batch {batch}",
        f"{point.speedup:.2f} ×",
        f"Plain step {seconds(point.plain.total_s)}, cycle {seconds(point.cycle.total_s)}."
        + (" Extrapolated." if point.is_extrapolated else ""),
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
        percent(survival.survival[-1]),
        _interval(survival),
        words.SURVIVAL,
    )


def _break_even(point: SpeedupPoint) -> str:
    if point.break_even_tokens > 1.0:
        return f"At batch {point.batch_size} it pays above {point.break_even_tokens:.2f}."
    # No cycle emits less than one token: "above 0.98" would only puzzle.
    return f"At batch {point.batch_size} a cycle takes no longer than a plain step: any draft pays."


def _drafts(survival: CycleSurvival) -> str:
    if survival.num_draft_tokens is None:
        return f"at γ = {survival.gamma}"
    return f"and a tree of {survival.num_draft_tokens} candidates, {survival.gamma} deep"


def _sentence(interval: tuple[float, float] | None) -> str:
    return "" if interval is None else f" 95 % interval: {interval[0]:.2f} to {interval[1]:.2f}."


def _interval(survival: CycleSurvival) -> str:
    if survival.lower == survival.upper:
        return "The source states no interval."
    low, high = percent(survival.lower[-1]), percent(survival.upper[-1])
    return f"95 % interval: {low} to {high}."


def _card(column: DeltaGenerator, *texts: str) -> None:
    label, value, beside, help_text = texts
    with column.container(border=True, height="stretch", gap="small"):
        st.metric(label, value, help=help_text)
        st.caption(beside)
