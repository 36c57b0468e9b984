"""The four maps: which two inputs they move, over which values, and how."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Literal

import numpy as np

from simcore.acceptance.topology.replay import RankArray, rank_rates
from simcore.acceptance.topology.sequoia import best_trees
from simcore.acceptance.topology.sibling_rules import SiblingRule
from simcore.acceptance.tree import DraftTree
from simcore.cost.price import decode_step
from simcore.errors import ScenarioError
from simcore.matching import matching_records
from simcore.planner.case import Case, chosen_gamma, known_gammas
from simcore.planner.crossover_document import Axis
from simcore.planner.moves import at_concurrency, at_load, offered_rate_per_s, with_prompts
from simcore.planner.shifted_acceptance import (
    conditional_rates,
    mean_rate,
    shift_to,
    shifted,
)
from simcore.planner.tree_choice import DEFAULT_WIDTH
from simcore.planner.tree_search import TreeSearch
from simcore.tree_recording import TreeRecording

LONGEST_CHAIN = 8
LIGHTEST_SHARE, HEAVIEST_SHARE = 0.03, 1.15  # of the rate that off can carry
ACCEPTANCE_RATES = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
BUDGETS = (1, 2, 4, 8, 16, 32, 64)
CONTEXT_SPAN = (1 / 32, 2.0)  # of the measured context


@dataclass(frozen=True)
class Grid:
    """Axes, and the case of any point on them."""

    x: Axis
    y: Axis
    off: Callable[[float], Case] = field(repr=False)  # x
    on: Callable[[float, float], Case] = field(repr=False)  # x, y
    crossed_along: Literal["x", "y"]
    notes: tuple[str, ...] = ()


Values = tuple[float, ...]


def load_gamma(case: Case, x_values: Values, y_values: Values, num_columns: int) -> Grid:
    """Offered load × draft length."""
    return Grid(
        x=_load_axis(case, x_values, num_columns),
        y=_gamma_axis(case, y_values),
        off=lambda rate: at_load(case.at_gamma(0), rate),
        on=lambda rate, gamma: at_load(_chain(case, gamma), rate),
        crossed_along="x",
    )


def batch_acceptance(case: Case, x_values: Values, y_values: Values, num_columns: int) -> Grid:
    """Batch held × acceptance, at one draft length. Raises ScenarioError for sessions."""
    _check_alone(case)
    gamma = chosen_gamma(case)
    rates = conditional_rates(case, gamma)
    seats = case.scenario.deployment.max_num_seqs
    batches = x_values or _whole(np.geomspace(1, seats, num_columns))
    own = mean_rate(rates)
    on = case.at_gamma(gamma)

    @cache
    def moved(rate: float) -> Case:
        if not 0.0 < rate < 1.0:
            raise ScenarioError(f"acceptance {rate:g}; expected above 0 and below 1")
        return shifted(on, gamma, shift_to(rates, rate))

    return Grid(
        x=Axis(name="running requests of a replica", unit="requests", values=batches, own=None),
        y=Axis(
            name="acceptance (accepted / tested drafts)",
            unit="share",
            values=y_values or ACCEPTANCE_RATES,
            own=own,
        ),
        off=lambda batch: at_concurrency(case.at_gamma(0), _at_least_one(batch)),
        on=lambda batch, rate: at_concurrency(moved(rate), _at_least_one(batch)),
        crossed_along="y",
        notes=(
            f"γ = {gamma}; the batch is held by clients that never think; acceptance is moved by "
            "one shift of the logits of all conditional rates at cycle starts (measured: "
            f"{own:.3f})",
        ),
    )


def context_gamma(case: Case, x_values: Values, y_values: Values, num_columns: int) -> Grid:
    """Length of the prompts × draft length, at the scenario's batch. ScenarioError for sessions."""
    _check_alone(case)
    batch = _own_batch(case)
    mean = float(case.basis.requests.prompt_tokens.mean())
    most = case.stored.profile.cost.domain.max_context_tokens
    shortest, longest = CONTEXT_SPAN
    tokens = x_values or _whole(np.geomspace(shortest * most, longest * most, num_columns))

    @cache
    def longer(prompt_tokens: float) -> Case:
        return at_concurrency(with_prompts(case, prompt_tokens / mean), batch)

    return Grid(
        x=Axis(name="mean prompt", unit="tokens", values=tokens, own=mean),
        y=_gamma_axis(case, y_values),
        off=lambda prompt: longer(prompt).at_gamma(0),
        on=lambda prompt, gamma: _chain(longer(prompt), gamma),
        crossed_along="x",
        notes=(
            f"{batch} requests running on a replica, held by clients that never think; acceptance "
            "is taken as measured at every length of the prompt",
        ),
    )


def budget_load(case: Case, x_values: Values, y_values: Values, num_columns: int) -> Grid:
    """Offered load × nodes of the best tree. Raises ScenarioError or TreeError without ranks."""
    forest = _Forest(case, max(int(each) for each in (*y_values, 1)))
    budgets = y_values or tuple(float(each) for each in BUDGETS)

    @cache
    def planted(nodes: float) -> Case:
        tree = forest.best(_at_least_one(nodes))
        return case.at_gamma(0).with_(
            **{
                "speculation.num_speculative_tokens": tree.depth,
                "speculation.tree": list(tree.parents),
            }
        )

    own = case.scenario.speculation.tree
    return Grid(
        x=_load_axis(case, x_values, num_columns),
        y=Axis(
            name="draft tokens of a cycle (tree)",
            unit="nodes",
            values=budgets,
            own=None if own is None else float(len(own)),
        ),
        off=lambda rate: at_load(case.at_gamma(0), rate),
        on=lambda rate, nodes: at_load(planted(nodes), rate),
        crossed_along="x",
        notes=(
            "trees by Sequoia's programme on the recorded ranks, each budget at the depth that "
            f"emits fastest with {forest.batch} requests running",
        ),
    )


GRIDS: dict[str, Callable[[Case, Values, Values, int], Grid]] = {
    "load_gamma": load_gamma,
    "batch_acceptance": batch_acceptance,
    "context_gamma": context_gamma,
    "budget_load": budget_load,
}


def _check_alone(case: Case) -> None:
    if case.scenario.workload.sessions is not None:
        raise ScenarioError(
            "a held batch needs requests that come by themselves, and these are turns of sessions; "
            "map load_gamma, or leave workload.sessions out"
        )


def _load_axis(case: Case, values: Values, num_columns: int) -> Axis:
    if not values:
        most = case.at_gamma(0).estimate().max_rate_per_s
        shares = np.geomspace(LIGHTEST_SHARE, HEAVIEST_SHARE, num_columns)
        values = tuple((most * shares).tolist())
    own = offered_rate_per_s(case)
    return Axis(name="offered load", unit="requests/s", values=values, own=own)


def _gamma_axis(case: Case, values: Values) -> Axis:
    longest = min(max(known_gammas(case)), LONGEST_CHAIN)
    own = case.scenario.speculation.num_speculative_tokens
    return Axis(
        name="draft length γ",
        unit="tokens",
        values=values or tuple(float(gamma) for gamma in range(1, longest + 1)),
        own=float(own) if own else None,
    )


def _chain(case: Case, gamma: float) -> Case:
    if gamma != int(gamma) or gamma < 0:
        raise ScenarioError(f"draft length {gamma:g}; expected a whole number of at least 0")
    return case.at_gamma(int(gamma))


def _own_batch(case: Case) -> int:
    """Running requests of a busy replica without speculation, at the scenario's own load."""
    off = case.at_gamma(0).estimate()
    batch = off.batch_size / max(off.busy_fraction, 1e-9) if off.is_stable else off.max_batch_size
    return max(round(min(batch, case.scenario.deployment.max_num_seqs)), 1)


def _whole(values: np.ndarray) -> Values:
    return tuple(float(each) for each in np.unique(np.rint(np.maximum(values, 1))))


def _at_least_one(value: float) -> int:
    if value != int(value) or value < 1:
        raise ScenarioError(f"got {value:g}; expected a whole number of at least 1")
    return int(value)


class _Forest:
    """The best tree of every budget on the recordings of a case."""

    def __init__(self, case: Case, most_nodes: int) -> None:
        traces = case.basis.traces
        if traces is None:
            raise ScenarioError(
                f"profile {case.stored.profile.name!r} holds survival figures for "
                f"{case.proposer!r}, no recorded ranks, so no tree can be valued; map load_gamma, "
                "or measure traces"
            )
        records = matching_records(case.stored, case.scenario, case.proposer)
        recording = TreeRecording(case.stored, case.proposer, records, traces)
        self.case, self.batch = case, _own_batch(case)
        self.most_nodes = max(most_nodes, *BUDGETS)
        self.max_depth = traces.max_gamma
        width = min(DEFAULT_WIDTH, self.most_nodes)
        self.search = TreeSearch(recording, recording.children(SiblingRule.TOP_K, width), width)

    def best(self, nodes: int) -> DraftTree:
        """The tree of so many nodes at the depth that emits fastest, rates at its own starts."""
        tree = self.search.settle(lambda ranks: self._fastest(ranks, nodes))
        assert tree is not None  # `_fastest` never gives plain decoding
        return tree

    def _fastest(self, ranks: RankArray, nodes: int) -> DraftTree:
        depth_limit = min(nodes, self.max_depth)
        best = best_trees(rank_rates(ranks[:, :depth_limit], self.search.width), nodes, depth_limit)
        tokens = best.expected_tokens[nodes, 1:]
        matched = float((ranks[:, 0] >= 0).mean())
        seconds = [self._cycle_s(depth, nodes * matched) for depth in range(1, depth_limit + 1)]
        return best.tree(nodes, int(np.argmax(tokens / np.array(seconds))) + 1)

    def _cycle_s(self, depth: int, draft_tokens: float) -> float:
        on = self.case.at_gamma(depth)
        requests = self.case.basis.requests
        context = float(requests.prompt_tokens.mean() + requests.output_tokens.mean() / 2.0)
        tables = self.case.basis.law_tables(on.scenario)
        try:
            return decode_step(tables, self.batch, context, depth, draft_tokens).total_s
        except ScenarioError:  # past the captured sizes, where no step was measured
            return float("inf")
