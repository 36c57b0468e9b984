"""What one acceptance rate hides: requests differ, and the order of rates counts."""

import streamlit as st

from app import words
from app.drafts import spread
from app.figure import show_kept
from simcore.acceptance.order import rate_orders
from simcore.acceptance.survival import conditional_from_survival
from simcore.planner.speedup import CycleSurvival
from simcore.policy_defaults import DraftShape
from simcore.profile.store import StoredProfile
from simcore.report.figures import rate_orders_figure, request_spread_figure
from simcore.scenario import Scenario

FIRST, SECOND = 0.9, 0.3  # a pair of rates whose orders lie far apart


def show_spread(stored: StoredProfile, scenario: Scenario) -> None:
    """Requests' own means against independent draws, the slowest of them, and memory."""
    st.subheader("Requests differ", divider="gray", help=words.SPREAD)
    shape = DraftShape.of(scenario.speculation)
    if shape.is_tree or shape.depth == 0:
        st.info("Choose a chain with γ above 0 to see how requests differ.")
        return
    found = spread(stored, scenario)
    if found is None:
        st.info(
            "This picture needs traces: what every cycle of every recorded request accepted. This "
            "profile holds survival figures, which say nothing of single requests."
        )
        return
    left, right = st.columns([2, 1])
    with left:
        show_kept(request_spread_figure, found, key="speculate.spread")
    with right:
        st.metric(
            "Slowest 1 % of requests, tokens a cycle",
            f"{found.slowest_recorded:.2f}",
            help=words.SLOWEST,
            border=True,
        )
        st.metric(
            "The same if cycles were independent",
            f"{found.slowest_independent:.2f}",
            help=words.SPREAD,
            border=True,
        )
        lag = found.lag1.pooled
        st.metric(
            "Lag-1 correlation of cycles",
            "–" if lag is None else f"{lag:.2f}",
            help=words.LAG1,
            border=True,
        )
        st.caption(f"{len(found.recorded):,} recorded requests.")


@st.fragment  # type: ignore[untyped-decorator]  # streamlit is not followed
def show_orders(survival: CycleSurvival | None) -> None:
    """Two rates of one's own, and the profile's, in both orders."""
    st.subheader("The order of rates counts", divider="gray", help=words.ORDERS)
    left, right = st.columns(2)
    with left:
        first, second = st.columns(2)
        rates = [
            column.slider(f"Rate {index}", 0.0, 1.0, value, 0.05, key=f"speculate.rate{index}")
            for index, (column, value) in enumerate(((first, FIRST), (second, SECOND)), start=1)
        ]
        orders = rate_orders(rates)
        show_kept(rate_orders_figure, orders, key="speculate.orders")
        st.caption(
            f"The high rate first: {orders.falling.mean_emitted_tokens:.2f} tokens a cycle. The "
            f"low one first: {orders.rising.mean_emitted_tokens:.2f}. Their mean, "
            f"{orders.mean_rate:.2f}, would say {orders.iid_tokens:.2f} of both."
        )
    with right:
        if survival is None or survival.gamma == 1:
            st.info("Move γ above 1 to see the profile's own rates in both orders.")
            return
        own = rate_orders(conditional_from_survival(survival.survival))
        st.markdown("**This profile's own rates by position**, sorted both ways")
        show_kept(rate_orders_figure, own, key="speculate.own_orders")
        st.caption(
            f"As measured they give {own.given.mean_emitted_tokens:.2f} tokens a cycle, sorted "
            f"falling {own.falling.mean_emitted_tokens:.2f}, rising "
            f"{own.rising.mean_emitted_tokens:.2f}."
        )
