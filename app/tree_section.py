"""The drafts of a cycle as a tree, and what a dynamic tree would emit."""

import streamlit as st

from app import words
from app.drafts import drawn_tree, dynamic_view
from app.figure import show_kept
from simcore.acceptance.topology.dynamic_tree import DynamicShape
from simcore.planner.speedup import CycleSurvival
from simcore.planner.tree_survival import chain_nodes
from simcore.planner.tree_view import TreeView
from simcore.profile.schema import LOOKUP_KINDS
from simcore.profile.store import StoredProfile
from simcore.report.figures import tree_figure
from simcore.scenario import Scenario

DEFAULT_TOPK, DEFAULT_DEPTH, DEFAULT_NODES = 4, 4, 8


def show_tree(stored: StoredProfile, scenario: Scenario, survival: CycleSurvival) -> None:
    """Every candidate with the share of cycles that accept it."""
    st.subheader("The candidates of one cycle", divider="gray")
    if scenario.speculation.dynamic_tree is not None:
        st.info("A dynamic tree has another shape in every cycle; there is no one to draw.")
        return
    view = drawn_tree(stored, scenario)
    if view is None:
        show_kept(
            tree_figure, chain_nodes(survival), survival.mean_emitted_tokens, key="speculate.tree"
        )
        st.caption("A chain: each share is the survival of its position. " + words.TOPOLOGY)
        return
    show_kept(tree_figure, view.nodes, view.mean_emitted_tokens.value, key="speculate.tree")
    low, high = view.mean_emitted_tokens.interval
    st.caption(
        f"Replayed on {view.num_cycles:,} cycles: {view.mean_emitted_tokens.value:.2f} tokens a "
        f"cycle (95 % interval {low:.2f} to {high:.2f}). The product of rates by depth and rank "
        f"says {view.positional_tokens:.2f}, one rate a rank for all depths "
        f"{view.one_vector_tokens:.2f}. SGLang: {_sglang(view.sglang)}.",
        help=words.TREE_FIGURES,
    )
    if _only_first_guesses(view):
        kind = stored.profile.proposers[scenario.speculation.proposer or ""].kind
        st.info(words.LOOKUP_TREE if kind in LOOKUP_KINDS else words.IDLE_TREE)


def _only_first_guesses(view: TreeView) -> bool:
    """Whether no cycle ever went on through a second guess, in a tree that has some."""
    others = [node.probability for node in view.nodes if any(node.path)]
    return bool(others) and max(others) == 0.0


def show_dynamic(stored: StoredProfile, scenario: Scenario) -> None:
    """On request: a dynamic tree, exact where its order was recorded, else in bounds."""
    st.subheader("A dynamic tree (EAGLE-2)", divider="gray")
    if not st.toggle("Work it out", key="speculate.dynamic", help=words.BOUNDS):
        return
    longest = max(record.max_num_speculative_tokens for record in stored.profile.acceptance)
    first, second, third = st.columns(3)
    topk = first.number_input("topk", 1, 16, DEFAULT_TOPK, key="speculate.dynamic.topk")
    depth = second.number_input(
        "Depth", 1, longest, min(DEFAULT_DEPTH, longest), key="speculate.dynamic.depth"
    )
    nodes = third.number_input(
        "Candidates to verify", 1, 64, DEFAULT_NODES, key="speculate.dynamic.nodes"
    )
    view = dynamic_view(stored, scenario, DynamicShape(int(topk), int(depth), int(nodes)))
    if view is None:
        st.info("A dynamic tree needs traces with ranks; this profile holds survival figures.")
        return
    emits = (
        f"**{view.lower_tokens:.2f}** tokens a cycle, from the recorded order"
        if view.is_exact
        else f"between **{view.lower_tokens:.2f}** and **{view.upper_tokens:.2f}** tokens a cycle: "
        "the order of its nodes was not recorded"
    )
    st.markdown(
        f"It emits {emits}. The best static tree of as many candidates and levels emits "
        f"**{view.static_tokens:.2f}**. Ends of requests are cut in all of them."
    )


def _sglang(settings: dict[str, int]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in settings.items())
