"""How the drafts of the scenario's tree survive, and a chain drawn as a tree."""

import numpy as np

from simcore.acceptance.survival import (
    mean_emitted_tokens,
    pooled_acceptance_rate,
    survival_from_cycles,
)
from simcore.acceptance.topology.layout import layout
from simcore.acceptance.topology.replay import cycles_of
from simcore.acceptance.tree import chain
from simcore.errors import ScenarioError
from simcore.matching import acceptance_model
from simcore.planner.speedup import CycleSurvival, bootstrap_survival
from simcore.planner.tree_view import NodeView
from simcore.profile.store import StoredProfile
from simcore.scenario import Scenario


def tree_survival(stored: StoredProfile, scenario: Scenario) -> CycleSurvival:
    """Survival by depth at the tree's own cycle starts, by replay; static and dynamic trees.

    The rate is accepted / tested levels. Raises ScenarioError or TreeError, with the reason, where
    the profile does not decide the tree.
    """
    wanted = scenario.speculation
    assert wanted.proposer is not None
    depth = wanted.num_speculative_tokens
    model = acceptance_model(stored, scenario, wanted.proposer, depth)
    traces = model.traces
    assert traces is not None  # trees are replayed
    cycles = cycles_of(traces, model.tables.accepted[0].astype(np.int64))
    if not len(cycles.accepted):
        raise ScenarioError("no cycle in these traces: every recorded output has one token")
    proposed = traces.proposed[cycles.rows] > 0
    survival = survival_from_cycles(cycles.accepted, depth)
    lower, upper, mean_interval = bootstrap_survival(cycles.accepted, cycles.request, depth)
    return CycleSurvival(
        gamma=depth,
        survival=tuple(survival.tolist()),
        lower=tuple(lower.tolist()),
        upper=tuple(upper.tolist()),
        mean_emitted_tokens=mean_emitted_tokens(survival),
        mean_proposed_tokens=wanted.num_draft_tokens * float(proposed.mean()),
        acceptance_rate=pooled_acceptance_rate(cycles.accepted, depth * proposed),
        num_requests=len(np.unique(cycles.request)),
        num_draft_tokens=wanted.num_draft_tokens,
        mean_interval=mean_interval,
    )


def chain_nodes(survival: CycleSurvival) -> tuple[NodeView, ...]:
    """The drafts of a chain as nodes of a tree; beside survival the power of one rate α."""
    rates = survival.acceptance_rate ** np.arange(1, survival.gamma + 1)
    return tuple(
        NodeView(**vars(place), positional_probability=float(rates[place.node]))
        for place in layout(chain(survival.gamma), survival.survival)
    )
