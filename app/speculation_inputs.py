"""Sidebar widgets for proposer, sampling, domains and drafts; they return scenario changes."""

from typing import Any

import streamlit as st

from app import words
from app.drafts import best_tree, recording
from app.point import follow_point
from app.policy_inputs import choose_acceptance, choose_policy
from simcore.acceptance.topology.dynamic_tree import DynamicShape
from simcore.acceptance.topology.notation import parse_tree
from simcore.acceptance.tree import DraftTree
from simcore.errors import ProfileError
from simcore.matching import (
    domains_by_sort,
    matching_records,
    measured_gammas,
    usable_gammas,
)
from simcore.planner.tree_choice import TreeLimits
from simcore.policy_defaults import DraftShape
from simcore.profile.schema import Contract, Sampling
from simcore.profile.store import StoredProfile
from simcore.scenario import Scenario
from simcore.speculation import DynamicTree, Speculation
from simcore.workload_kinds import DomainShare

DEFAULT_GAMMA = 3
DEFAULT_WIDTH, MAX_WIDTH = 2, 16
DEFAULT_BUDGET, MAX_BUDGET = 8, 64
CHAIN, WIDE, BEST, DYNAMIC, OWN = "chain", "wide", "best", "dynamic", "own"
TOPOLOGIES = {
    CHAIN: "Chain of γ tokens",
    WIDE: "Tree, width × depth",
    BEST: "Best tree of a budget",
    DYNAMIC: "Dynamic tree (EAGLE-2)",
    OWN: "Tree of the workload",
}


def choose_speculation(stored: StoredProfile, base: Scenario, key: str) -> dict[str, Any]:
    """Proposer, sampling with its contract, domains, drafts, policy and acceptance model."""
    key = f"{key}.{stored.profile.name}"
    proposers = list(stored.profile.proposers)
    wanted = base.speculation.proposer
    proposer = st.selectbox(
        "Proposer",
        proposers,
        index=proposers.index(wanted) if wanted in proposers else 0,
        key=f"{key}.proposer",
        help=words.PROPOSER,
    )
    key = f"{key}.{proposer}"
    contract, sampling = _choose_sampling(stored, base, proposer, key)
    st.caption(f"Contract **{contract.value.replace('_', ' ')}**: {words.CONTRACT_HELP[contract]}")
    changes: dict[str, Any] = {
        "contract": contract.value,
        "sampling": sampling.model_dump(),
        "speculation": {"proposer": proposer},
        "workload.domains": {},
    }
    changes["workload.domains"] = _choose_domains(stored, base, base.with_(**changes), key)
    asked = base.with_(**changes)
    drafts = _choose_drafts(stored, base.speculation, asked, key)
    if not drafts["num_speculative_tokens"]:
        return changes | {"speculation": _off(base.speculation, proposer)}
    drafts |= {"proposer": proposer, "tree_rule": base.speculation.tree_rule.value}
    asked = asked.with_(speculation=drafts)
    policy = choose_policy(stored, base, asked, key)
    if policy is None:
        return changes
    rest = choose_acceptance(stored, base, asked, key)
    return changes | {"speculation": drafts | {"policy": policy} | rest}


def _off(own: Speculation, proposer: str) -> dict[str, Any]:
    """Nothing drafted; the workload's own words for it where it has some."""
    if own.num_speculative_tokens == 0:
        return own.model_dump(mode="json") | {"proposer": proposer}
    return {"proposer": proposer}


def _choose_sampling(
    stored: StoredProfile, base: Scenario, proposer: str, key: str
) -> tuple[Contract, Sampling]:
    measured = {
        words.sampling_label(record.sampling): (record.contract, record.sampling)
        for record in stored.profile.acceptance
        if record.proposer == proposer
    }
    if not measured:
        raise ProfileError(
            f"profile {stored.profile.name!r} holds no acceptance of {proposer!r}; choose another"
        )
    labels = list(measured)
    wanted = words.sampling_label(base.sampling)
    label = st.selectbox(
        "Sampling and contract",
        labels,
        index=labels.index(wanted) if wanted in measured else 0,
        key=f"{key}.sampling",
        help=words.SAMPLING,
    )
    return measured[label]


def _choose_domains(
    stored: StoredProfile, base: Scenario, everywhere: Scenario, key: str
) -> dict[str, float | DomainShare]:
    """Domain -> share; empty means every domain alike.

    Recorded and counted domains do not mix, so nothing chosen means those of one sort.
    """
    proposer = everywhere.speculation.proposer
    assert proposer is not None
    traced, counted = domains_by_sort(stored, everywhere, proposer)
    domains, alike = sorted([*traced, *counted]), list(traced or counted)
    shares = base.workload.domains
    kept = [domain for domain in domains if domain in shares]
    chosen = st.multiselect(
        "Domains",
        domains,
        default=kept or alike,
        key=f"{key}.{everywhere.contract.value}.domains",
        help=words.DOMAINS,
        placeholder="all, alike",
    )
    named = chosen or (alike if traced and counted else [])
    return {domain: shares.get(domain, 1.0) for domain in named}


# --- drafts --------------------------------------------------------------------------------------


def _choose_drafts(
    stored: StoredProfile, own: Speculation, asked: Scenario, key: str
) -> dict[str, Any]:
    """num_speculative_tokens and the tree, if any."""
    gammas = _gammas(stored, own, asked)
    if not gammas:
        st.warning("These domains share no measured draft length; choose fewer domains.")
        return {"num_speculative_tokens": 0}
    kinds = [OWN] if DraftShape.of(own).is_tree else []
    kinds += [CHAIN, WIDE, BEST, DYNAMIC]
    kind = st.selectbox(
        "Shape of the drafts",
        kinds,
        format_func=TOPOLOGIES.get,
        key=f"{key}.topology",
        help=words.TOPOLOGY,
    )
    if kind == OWN:
        return _own_tree(own)
    if kind != CHAIN and recording(stored, asked) is None:
        st.info(words.NEEDS_RANKS)
        kind = CHAIN
    if kind == WIDE:
        return _choose_wide(gammas, key)
    if kind == BEST:
        return _choose_best(stored, asked, gammas, key)
    if kind == DYNAMIC and (found := _choose_dynamic(stored, asked, key)) is not None:
        return found
    return {"num_speculative_tokens": _choose_gamma(own, gammas, key)}


def _gammas(stored: StoredProfile, own: Speculation, asked: Scenario) -> tuple[int, ...]:
    """Measured lengths, and the workload's own where its fitted model answers for it."""
    assert asked.speculation.proposer is not None
    proposer = asked.speculation.proposer
    measured = measured_gammas(matching_records(stored, asked, proposer))
    wanted = own.num_speculative_tokens
    if not measured or wanted in (0, *measured):
        return measured
    fitted = asked.with_(**{"speculation.acceptance": own.acceptance})
    usable = usable_gammas(stored, fitted, proposer)
    return tuple(sorted({*measured, wanted})) if wanted in usable else measured


def _own_tree(own: Speculation) -> dict[str, Any]:
    st.caption(
        f"{own.num_draft_tokens} candidates, {own.num_speculative_tokens} deep, as the workload "
        "states them."
    )
    names = {"num_speculative_tokens", "tree", "dynamic_tree", "num_proposed_tokens"}
    return own.model_dump(mode="json", include=names)


def _choose_gamma(own: Speculation, gammas: tuple[int, ...], key: str) -> int:
    key, options = f"{key}.gamma", (0, *gammas)
    is_open = own.proposer is None  # the scenario leaves the choice to its plan
    wanted = DEFAULT_GAMMA if is_open else own.num_speculative_tokens
    if st.session_state.get(key, 0) not in options:
        del st.session_state[key]  # other domains were measured at other lengths
    gamma: int = st.select_slider(
        "Draft length γ (tokens; 0: off)",
        options,
        value=wanted if wanted in options else gammas[-1],
        key=key,
        help=words.GAMMA,
    )
    return gamma


def _choose_wide(gammas: tuple[int, ...], key: str) -> dict[str, Any]:
    left, right = st.columns(2)
    width = left.number_input(
        "Width", 1, MAX_WIDTH, DEFAULT_WIDTH, key=f"{key}.width", help=words.WIDTH
    )
    depth = right.number_input(
        "Depth", 1, gammas[-1], min(DEFAULT_GAMMA, gammas[-1]), key=f"{key}.depth", help=words.DEPTH
    )
    return _static(parse_tree(f"{width}x{depth}"))


def _choose_best(
    stored: StoredProfile, asked: Scenario, gammas: tuple[int, ...], key: str
) -> dict[str, Any]:
    budget = st.number_input(
        "Budget (candidates)", 1, MAX_BUDGET, DEFAULT_BUDGET, key=f"{key}.budget", help=words.BUDGET
    )
    point = follow_point(stored, asked)
    tree = best_tree(stored, asked, TreeLimits(int(budget), gammas[-1]), point)
    where = f"batch {point[0]:,} and context {point[1]:,} tokens (page Speculate)"
    if tree is None:
        st.info(f"No tree within the budget pays at {where}: plain decoding is faster.")
        return {"num_speculative_tokens": 0}
    st.caption(f"Fastest at {where}: {tree.num_nodes} candidates, {tree.depth} deep.")
    return _static(tree)


def _static(tree: DraftTree) -> dict[str, Any]:
    if tree.width == 1:  # a chain: every acceptance model and policy knows it
        return {"num_speculative_tokens": tree.depth}
    return {"num_speculative_tokens": tree.depth, "tree": tree.parents}


def _choose_dynamic(stored: StoredProfile, asked: Scenario, key: str) -> dict[str, Any] | None:
    """None, with the reason, where the records do not decide a dynamic tree."""
    found = recording(stored, asked)
    settings = stored.profile.proposers[asked.speculation.proposer or ""].settings
    topk, depth = (int(settings.get(name, 0)) for name in ("tree_topk", "tree_depth"))
    if found is None or not topk or found.dynamic_order(topk, depth) is None:
        st.info(words.NEEDS_ORDER)
        return None
    most = DynamicShape(topk, depth, 1).num_proposed
    budget = st.number_input(
        f"Candidates to verify (topk {topk}, depth {depth} as recorded)",
        1,
        min(MAX_BUDGET, most),
        min(DEFAULT_BUDGET, most),
        key=f"{key}.dynamic_budget",
        help=words.BUDGET,
    )
    tree = DynamicTree(topk=topk, num_draft_tokens=int(budget))
    return {"num_speculative_tokens": depth, "dynamic_tree": tree.model_dump()}
