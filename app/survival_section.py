"""How drafts survive, against two common mistakes, and where the time of a cycle goes."""

import streamlit as st

from app import words
from app.drafts import every_position
from app.figure import show_kept
from simcore.planner.speedup import CycleSurvival
from simcore.planner.speedup_map import speedup_map
from simcore.policy_defaults import DraftShape
from simcore.profile.store import StoredProfile
from simcore.report.figures import cycle_time_figure, survival_figure
from simcore.report.speedup_figures import draft_names
from simcore.scenario import Scenario


def show_survival(
    stored: StoredProfile,
    scenario: Scenario,
    survival: CycleSurvival | None,
    survivals: tuple[CycleSurvival, ...],
    point: tuple[int, int],
) -> None:
    """Survival by position beside the split of a cycle; `point`: batch and context."""
    left, right = st.columns(2)
    with left:
        if survival is None:
            st.info("Nothing is drafted at γ = 0. Move γ above 0 to see how drafts survive.")
        else:
            _show_survival(stored, scenario, survival)
    with right:
        batch_size, context_tokens = point
        proposer = scenario.speculation.proposer or ""
        found = speedup_map(stored, proposer, survivals, context_tokens, (batch_size,))
        steps = {
            name: each
            for name, each in zip(draft_names(survivals), found.points[0], strict=True)
            if each is not None
        }
        if steps:
            show_kept(
                cycle_time_figure, tuple(steps.values()), tuple(steps), key="speculate.cycle_time"
            )
        else:
            st.info("No step of this batch was measured; choose a smaller one.")


def _show_survival(stored: StoredProfile, scenario: Scenario, survival: CycleSurvival) -> None:
    is_tree = DraftShape.of(scenario.speculation).is_tree
    counted = None if is_tree else every_position(stored, scenario)
    show_kept(survival_figure, survival, counted, key="speculate.survival")
    if counted is not None:
        st.caption(
            f"At cycle starts, as an engine runs: {survival.mean_emitted_tokens:.2f} tokens a "
            f"cycle. Counted at every output position: {counted.mean_emitted_tokens:.2f}.",
            help=words.EVERY_POSITION,
        )
    elif not is_tree:
        st.caption("The count at every output position needs traces; this profile has none.")
