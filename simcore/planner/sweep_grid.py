"""Every combination of a sweep's values as a scenario, or as the reason why there is none.

With draft length 0 policy and tree mean nothing, and a tree has its own depth: combinations that
come to the same service are one configuration.
"""

import itertools
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from simcore.acceptance.topology.notation import parse_tree
from simcore.acceptance.tree import DraftTree
from simcore.errors import ScenarioError, SpecplanError
from simcore.planner.break_even import at_rate
from simcore.planner.compare import SHARED
from simcore.planner.run_key import run_key
from simcore.planner.sweep_estimates import LoadEstimates
from simcore.planner.sweep_profiles import Profiles
from simcore.planner.sweep_space import LOAD, TREE, SweepSpace, TreeChoice
from simcore.planner.sweep_trees import TreeChooser
from simcore.scenario import Scenario

GAMMA, PROPOSER, POLICY = (
    "speculation.num_speculative_tokens",
    "speculation.proposer",
    "speculation.policy",
)
CHAIN = {"speculation.tree": None, "speculation.dynamic_tree": None}
OFF: dict[str, Any] = {
    GAMMA: 0,
    POLICY: {"kind": "fixed"},
    "speculation.num_proposed_tokens": None,
    **CHAIN,
}

Labels = dict[str, Any]  # axis -> value as a table shows it


@dataclass(frozen=True)
class Configuration:
    """One service under one load."""

    labels: Labels
    question: str  # what is asked of the service; configurations with the same one compete
    scenario: Scenario  # under the sweep's first seed
    profile_sha256: str


@dataclass(frozen=True)
class Omission:
    """A combination that is not simulated, and why."""

    labels: Labels
    reason: str


@dataclass
class Grid:
    """The combinations of a sweep."""

    configurations: list[Configuration] = field(default_factory=list)
    invalid: list[Omission] = field(default_factory=list)
    merged: list[Omission] = field(default_factory=list)  # the same service as another


def expand(space: SweepSpace, estimates: LoadEstimates) -> Grid:
    """All combinations, the last axis fastest. Raises ScenarioError where none can be."""
    grid, seen = Grid(), dict[str, Labels]()
    profiles, trees = estimates.profiles, TreeChooser(estimates)
    names = list(space.axes)
    for values in itertools.product(*(space.values(name) for name in names)):
        combination = dict(zip(names, values, strict=True))
        try:
            made = _configuration(space, combination, profiles, trees)
            key = run_key(made.scenario, made.profile_sha256)
        except SpecplanError as error:
            grid.invalid.append(Omission(shown(combination), str(error)))
            continue
        if key in seen:
            same = f"the same service as {json.dumps(seen[key], ensure_ascii=False)}"
            grid.merged.append(Omission(shown(combination), same))
            continue
        seen[key] = made.labels
        grid.configurations.append(made)
    if not grid.configurations:
        first = grid.invalid[0]
        raise ScenarioError(
            f"none of the {len(grid.invalid)} combinations can be simulated; the first, "
            f"{json.dumps(first.labels, ensure_ascii=False)}: {first.reason}"
        )
    return grid


def _configuration(
    space: SweepSpace, combination: dict[str, Any], profiles: Profiles, trees: TreeChooser
) -> Configuration:
    changes = {name: each for name, each in combination.items() if name not in (LOAD, TREE)}
    if isinstance(changes.get(POLICY), str):
        changes[POLICY] = {"kind": changes[POLICY]}
    rate_per_s, tree = combination.get(LOAD), combination.get(TREE, "chain")
    if TREE in combination:
        changes |= CHAIN
    if tree == "chain":
        gamma = changes.get(GAMMA, space.scenario.speculation.num_speculative_tokens)
        scenario = _changed(space.scenario, changes if gamma else _off(space, changes), rate_per_s)
    else:
        plain = _changed(space.scenario, changes | OFF, rate_per_s)
        found = _tree(tree, plain, trees)
        changes |= _off(space, changes) if found is None else _of_tree(found)
        scenario = _changed(space.scenario, changes, rate_per_s)
    return Configuration(
        labels=_labels(combination, scenario),
        question=json.dumps(
            scenario.model_dump(mode="json", include=set(SHARED)),
            sort_keys=True,
            ensure_ascii=False,
        ),
        scenario=scenario,
        profile_sha256=profiles[scenario.profile].content_hash,
    )


def _changed(base: Scenario, changes: dict[str, Any], rate_per_s: float | None) -> Scenario:
    try:
        scenario = base.with_(**changes)
    except (KeyError, TypeError, AttributeError):
        raise ScenarioError(
            f"an axis of {list(changes)} names no field of a scenario; see "
            "docs/reference/scenario.md"
        ) from None
    if rate_per_s is None:
        return scenario
    if not isinstance(rate_per_s, int | float) or not rate_per_s > 0.0:
        raise ScenarioError(f"{LOAD} {rate_per_s!r}; expected requests a second above 0")
    return at_rate(scenario, float(rate_per_s))


def _off(space: SweepSpace, changes: dict[str, Any]) -> dict[str, Any]:
    """Plain decoding; once for all proposers, unless each brings recorded lengths of its own."""
    found = changes | OFF
    policy_parameters = [name for name in found if name.startswith(f"{POLICY}.")]
    for name in policy_parameters:
        del found[name]
    lengths = changes.get("workload.lengths", space.scenario.workload.lengths)
    kind = lengths["kind"] if isinstance(lengths, Mapping) else getattr(lengths, "kind", None)
    if PROPOSER in space.axes and kind != "recorded":
        found[PROPOSER] = space.values(PROPOSER)[0]
    return found


def _tree(value: object, plain: Scenario, trees: TreeChooser) -> DraftTree | None:
    if isinstance(value, str):
        return parse_tree(value)
    return trees.choose(TreeChoice.model_validate(value), plain)


def _of_tree(tree: DraftTree) -> dict[str, Any]:
    return {GAMMA: tree.depth, "speculation.tree": list(tree.parents)}


def _labels(combination: dict[str, Any], scenario: Scenario) -> Labels:
    """As shown, with what came of draft length, proposer, policy and tree."""
    speculation = scenario.speculation
    actual: Labels = {
        GAMMA: speculation.num_speculative_tokens,
        PROPOSER: speculation.proposer,
        POLICY: combination.get(POLICY) if speculation.num_speculative_tokens else "fixed",
        TREE: combination.get(TREE) if speculation.tree is not None else "chain",
    }
    found = {name: actual.get(name, value) for name, value in combination.items()}
    if speculation.num_speculative_tokens == 0:
        for name in found:
            if name.startswith(f"{POLICY}."):
                found[name] = None
    return shown(found)


def shown(combination: Mapping[str, Any]) -> Labels:
    """Values as a table holds them: numbers and text as they are, the rest as compact JSON."""
    return {name: _shown(value) for name, value in combination.items()}


def _shown(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, TreeChoice) or (isinstance(value, Mapping) and "nodes" in value):
        return str(TreeChoice.model_validate(value))
    if isinstance(value, Mapping) and set(value) == {"kind"}:
        return value["kind"]
    return json.dumps(value, ensure_ascii=False, default=str)
