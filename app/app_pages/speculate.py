"""What drafts are worth: survival, trees, time of a cycle, where it pays, who is left behind."""

import streamlit as st

from app.acceptance_section import show_orders, show_spread
from app.cache import stored_profile
from app.crossover_section import show_crossover
from app.drafts import all_survivals, draft_survival
from app.errors import shown_errors
from app.estimate_section import show_headline
from app.payoff_section import show_payoff
from app.point import choose_point, is_followed
from app.provenance_section import show_badges, show_provenance
from app.session import current_scenario
from app.survival_section import show_survival
from app.tree_section import show_dynamic, show_tree
from simcore.profile.store import StoredProfile
from simcore.report.table import escape_markdown
from simcore.scenario import Scenario

scenario = current_scenario()


def show_at_point(stored: StoredProfile, scenario: Scenario) -> None:
    """All that batch and context change, below their two sliders; the verdict stands above them."""
    with shown_errors():
        headline = st.container()
        batch_size, context_tokens = choose_point(stored, scenario)
        with headline:
            survival = show_headline(stored, scenario, batch_size, context_tokens)
        survivals = all_survivals(stored, scenario)
        show_survival(stored, scenario, survival, survivals, (batch_size, context_tokens))
        if survival is not None:
            show_tree(stored, scenario, survival)
        show_payoff(stored, scenario, survivals, context_tokens)


with shown_errors():
    stored = stored_profile(scenario.profile)
    st.header("What drafts are worth")
    st.markdown(escape_markdown(stored.profile.title))
    show_badges(stored, scenario)
    # Redrawn alone when the point is moved, unless the sidebar's drafts or policy follow it.
    (show_at_point if is_followed() else st.fragment(show_at_point))(stored, scenario)
    show_crossover(stored, scenario)
    show_spread(stored, scenario)
    show_orders(draft_survival(stored, scenario))
    show_dynamic(stored, scenario)
    show_provenance(stored)
