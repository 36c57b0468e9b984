"""The trees of a sweep that follow from recordings: of a budget, or the best for a load."""

import json
from collections.abc import Callable
from functools import partial

from simcore.acceptance.tree import DraftTree
from simcore.errors import ScenarioError
from simcore.planner.sweep_estimates import LoadEstimates
from simcore.planner.sweep_space import TreeChoice
from simcore.planner.tree_choice import TreeLimits, fastest_tree, tree_of_budget
from simcore.planner.tree_recording import tree_recording
from simcore.scenario import Scenario
from simcore.tree_recording import TreeRecording

MAX_ROUNDS = 4


class TreeChooser:
    """Chooses trees; recordings, and trees that were asked for before, are kept."""

    def __init__(self, estimates: LoadEstimates) -> None:
        self._estimates = estimates
        self._recordings: dict[str, TreeRecording] = {}
        self._trees: dict[object, DraftTree | None] = {}

    def choose(self, choice: TreeChoice, plain: Scenario) -> DraftTree | None:
        """The tree for the service that `plain` is without drafts; None where no tree pays.

        The best tree depends on the batch, and that on the tree: both are found in turn, from the
        batch of plain decoding on. Raises ScenarioError or TreeError where nothing was recorded
        that decides it.
        """
        name, recording = self._recording(plain)
        limits = TreeLimits(choice.nodes, choice.depth)
        rule = plain.speculation.tree_rule
        if not choice.optimal:
            return self._kept(
                (name, limits, rule), partial(tree_of_budget, recording, limits, rule)
            )
        context = self._estimates.mean_context_tokens(plain)
        tree, met = None, set[DraftTree | None]()
        for _ in range(MAX_ROUNDS):
            batch = self._batch_size(plain if tree is None else with_tree(plain, tree))
            tree = self._kept(
                (name, limits, rule, batch, context),
                partial(
                    fastest_tree,
                    recording,
                    limits,
                    rule,
                    batch_size=batch,
                    context_tokens=context,
                ),
            )
            if tree in met:
                break
            met.add(tree)
        return tree

    def _batch_size(self, scenario: Scenario) -> int:
        """Running requests of one replica while it is busy, as the estimate expects them."""
        found = self._estimates(scenario)
        return max(1, round(float(found.batch_size / max(found.busy_fraction, 1e-9))))

    def _kept(self, key: object, make: Callable[[], DraftTree | None]) -> DraftTree | None:
        if key not in self._trees:
            self._trees[key] = make()
        return self._trees[key]

    def _recording(self, scenario: Scenario) -> tuple[str, TreeRecording]:
        proposer = scenario.speculation.proposer
        if proposer is None:
            raise ScenarioError("a tree needs a proposer; name one in the scenario or an axis")
        temperature, domains = scenario.sampling.temperature, tuple(scenario.workload.domains)
        name = json.dumps([scenario.profile, proposer, temperature, domains])
        if name not in self._recordings:
            self._recordings[name] = tree_recording(
                self._estimates.profiles[scenario.profile],
                proposer,
                temperature=temperature,
                domains=domains,
            )
        return name, self._recordings[name]


def with_tree(scenario: Scenario, tree: DraftTree) -> Scenario:
    """The same service, drafting this tree in every step."""
    return scenario.with_(
        **{
            "speculation.num_speculative_tokens": tree.depth,
            "speculation.tree": list(tree.parents),
        }
    )
