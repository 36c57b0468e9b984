"""One static tree on recorded requests: what it emits, and what independence would promise."""

from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simcore.acceptance.topology.layout import layout
from simcore.acceptance.topology.node_value import expected_tokens, node_probabilities
from simcore.acceptance.topology.notation import choices
from simcore.acceptance.topology.replay import (
    TreeCycles,
    node_shares,
    pooled_rates,
    rank_rates,
)
from simcore.acceptance.topology.sglang_shape import sglang_shape
from simcore.acceptance.topology.sibling_rules import SiblingRule
from simcore.acceptance.tree import DraftTree
from simcore.metrics.estimate import CONFIDENCE
from simcore.planner.speedup import NUM_BOOTSTRAP
from simcore.planner.tree_search import TreeSearch
from simcore.profile.schema import Frozen
from simcore.tree_recording import TreeRecording


class Measured(Frozen):
    """A mean over cycles with its 95 % interval, by bootstrap over requests."""

    value: float
    interval: tuple[float, float]


class NodeView(Frozen):
    """One candidate: how often cycles go through it, and where to draw it."""

    node: int
    parent: int
    depth: int
    path: tuple[int, ...]
    probability: float = Field(description="share of cycles that accept it")
    positional_probability: float = Field(description="product of rates by depth and rank")
    x: float


class TreeView(Frozen):
    """A tree, replayed."""

    origin: dict[str, Any]
    parents: tuple[int, ...]
    choices: list[list[int]]
    num_nodes: int
    depth: int
    sglang: dict[str, int] = Field(description="smallest settings that can choose this tree")
    num_cycles: int
    mean_emitted_tokens: Measured = Field(description="replay; uncut cycles, bonus included")
    survival: tuple[Measured, ...] = Field(description="P(at least k drafts accepted)")
    positional_tokens: float = Field(
        description="product of rates by depth and rank, counted at the same cycle starts"
    )
    one_vector_tokens: float = Field(
        description="the same with one rate a rank for all depths, as Sequoia assumes"
    )
    nodes: tuple[NodeView, ...]


def view_tree(
    recording: TreeRecording, tree: DraftTree, rule: SiblingRule = SiblingRule.TOP_K
) -> TreeView:
    """Replay a tree from its own cycle starts, beside the product of its rates there.

    Raises TreeError where the recording is too shallow or does not decide the rule.
    """
    recording.check_depth(tree.depth)
    width = max(Counter(tree.parents).values())
    ranks = recording.children(rule, width)
    search = TreeSearch(recording, ranks, width)
    cycles = search.cycles(tree)
    at_starts = search.ranks_at(cycles)[:, : tree.depth]
    joint = node_shares(tree, at_starts)
    by_depth = node_probabilities(tree, rank_rates(at_starts, width))
    one_vector = np.tile(pooled_rates(at_starts, width), (tree.depth, 1))
    shape = sglang_shape(tree)
    return TreeView(
        origin=recording.origin(rule),
        parents=tree.parents,
        choices=choices(tree),
        num_nodes=tree.num_nodes,
        depth=tree.depth,
        sglang={
            "num_steps": shape.num_steps,
            "eagle_topk": shape.eagle_topk,
            "num_draft_tokens": shape.num_draft_tokens,
        },
        num_cycles=len(cycles.accepted),
        mean_emitted_tokens=emitted_tokens(cycles),
        survival=_survival(cycles, tree.depth),
        positional_tokens=expected_tokens(by_depth),
        one_vector_tokens=expected_tokens(node_probabilities(tree, one_vector)),
        nodes=tuple(
            NodeView(**vars(place), positional_probability=float(by_depth[place.node]))
            for place in layout(tree, joint.tolist())
        ),
    )


def emitted_tokens(cycles: TreeCycles) -> Measured:
    """Mean emitted tokens of an uncut cycle, the bonus included."""
    return _means(1.0 + cycles.accepted[:, None].astype(np.float64), cycles)[0]


def _survival(cycles: TreeCycles, depth: int) -> tuple[Measured, ...]:
    reached = cycles.accepted[:, None] >= np.arange(1, depth + 1)
    return _means(reached.astype(np.float64), cycles)


def _means(values: NDArray[np.float64], cycles: TreeCycles) -> tuple[Measured, ...]:
    """Means of the columns of `values` [num_cycles, k], resampling whole requests."""
    names, index = np.unique(cycles.request, return_inverse=True)
    sums = np.zeros((len(names), values.shape[1]))
    np.add.at(sums, index, values)
    counts = np.bincount(index).astype(np.float64)
    rng = np.random.default_rng(0)
    weights = rng.multinomial(len(names), np.full(len(names), 1 / len(names)), NUM_BOOTSTRAP)
    samples = (weights @ sums) / (weights @ counts)[:, None]
    tail = 50 * (1 - CONFIDENCE)
    low, high = np.percentile(samples, (tail, 100 - tail), axis=0)
    return tuple(
        Measured(value=float(mean), interval=(float(low[k]), float(high[k])))
        for k, mean in enumerate(sums.sum(axis=0) / counts.sum())
    )
