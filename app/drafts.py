"""What the records say of the drafts in force, worked out once a combination."""

from typing import Any

from app.cache import acceptance_key, once, once_large, survivals
from simcore.acceptance.request_spread import (
    PositionCount,
    RequestSpread,
    count_every_position,
    request_spread,
)
from simcore.acceptance.topology.dynamic_tree import DynamicShape
from simcore.acceptance.tree import DraftTree
from simcore.planner.speedup import CycleSurvival
from simcore.planner.tree_choice import TreeLimits, fastest_tree
from simcore.planner.tree_dynamic import DynamicView, view_dynamic
from simcore.planner.tree_recording import scenario_recording
from simcore.planner.tree_survival import tree_survival
from simcore.planner.tree_view import TreeView, view_tree
from simcore.policy_defaults import DraftShape
from simcore.profile.store import StoredProfile
from simcore.scenario import Scenario
from simcore.tree_recording import TreeRecording


def recording(stored: StoredProfile, scenario: Scenario) -> TreeRecording | None:
    """The recorded requests of the proposer in force; None where the profile holds no traces."""
    key = ("recording", *acceptance_key(stored, scenario))
    found: TreeRecording | None = once_large(key, lambda: scenario_recording(stored, scenario))
    return found


def draft_survival(stored: StoredProfile, scenario: Scenario) -> CycleSurvival | None:
    """Of the chain or tree in force; None when off, or at a draft length that nobody measured."""
    shape = DraftShape.of(scenario.speculation)
    if not shape.is_tree:
        return survivals(stored, scenario).get(shape.depth)
    key = ("tree", *acceptance_key(stored, scenario), scenario.speculation.model_dump_json())
    found: CycleSurvival = once(key, lambda: tree_survival(stored, scenario))
    return found


def all_survivals(stored: StoredProfile, scenario: Scenario) -> tuple[CycleSurvival, ...]:
    """Every measured chain, and the tree in force if it is one."""
    chains = tuple(survivals(stored, scenario).values())
    if not DraftShape.of(scenario.speculation).is_tree:
        return chains
    own = draft_survival(stored, scenario)
    return chains if own is None else (*chains, own)


def drawn_tree(stored: StoredProfile, scenario: Scenario) -> TreeView | None:
    """The static tree in force, replayed; None where it is a chain."""
    found = recording(stored, scenario)
    wanted = scenario.speculation
    if found is None or wanted.tree is None:
        return None
    tree = DraftTree(wanted.tree)
    key = ("view", *acceptance_key(stored, scenario), tree.parents, wanted.tree_rule.value)
    view: TreeView = once(key, lambda: view_tree(found, tree, wanted.tree_rule))
    return view


def best_tree(
    stored: StoredProfile, scenario: Scenario, limits: TreeLimits, point: tuple[int, int]
) -> DraftTree | None:
    """The static tree that emits fastest at this batch and context; None: plain decoding."""
    found = recording(stored, scenario)
    assert found is not None
    key = ("best", *acceptance_key(stored, scenario), limits, point)
    batch, context = point
    tree: DraftTree | None = once(
        key, lambda: fastest_tree(found, limits, batch_size=batch, context_tokens=context)
    )
    return tree


def dynamic_view(
    stored: StoredProfile, scenario: Scenario, shape: DynamicShape
) -> DynamicView | None:
    """A dynamic tree on the records, exact or in bounds; None without traces."""
    found = recording(stored, scenario)
    if found is None:
        return None
    key = ("dynamic", *acceptance_key(stored, scenario), shape)
    view: DynamicView = once(key, lambda: view_dynamic(found, shape))
    return view


def spread(stored: StoredProfile, scenario: Scenario) -> RequestSpread | None:
    """How requests differ at the chain length in force; None without traces."""
    made: RequestSpread | None = _of_traces("spread", request_spread, stored, scenario)
    return made


def every_position(stored: StoredProfile, scenario: Scenario) -> PositionCount | None:
    """The mistake of counting at every output position; None without traces."""
    made: PositionCount | None = _of_traces("positions", count_every_position, stored, scenario)
    return made


def _of_traces(name: str, made: Any, stored: StoredProfile, scenario: Scenario) -> Any:
    found = recording(stored, scenario)
    gamma = scenario.speculation.num_speculative_tokens
    if found is None:
        return None
    key = (name, *acceptance_key(stored, scenario), gamma)
    return once(key, lambda: made(found.traces, gamma))
