"""EAGLE-2's dynamic trees on recorded requests: exact where places were recorded, else bounds."""

from typing import Any

from pydantic import Field

from simcore.acceptance.topology.dynamic_tree import (
    DynamicShape,
    depth_bounds,
    depths_from_orders,
)
from simcore.acceptance.topology.replay import cycle_count_bounds
from simcore.acceptance.topology.sibling_rules import SiblingRule
from simcore.errors import ScenarioError
from simcore.planner.tree_search import TreeSearch
from simcore.profile.schema import Frozen
from simcore.tree_recording import TreeRecording


class DynamicView(Frozen):
    """Emitted tokens a cycle of a dynamic tree, ends of requests cut."""

    origin: dict[str, Any]
    topk: int
    depth: int
    num_nodes: int = Field(description="verified, the root not counted")
    num_proposed: int = Field(description="nodes that the draft scores")
    is_exact: bool = Field(description="from recorded places; else the two are bounds")
    lower_tokens: float
    upper_tokens: float
    static_tokens: float = Field(description="the best static tree of so many nodes and levels")


def view_dynamic(recording: TreeRecording, shape: DynamicShape) -> DynamicView:
    """Replay a dynamic tree; its children are top candidates, so ranks decide (rule top_k).

    Without recorded places only the realised path's ranks and top confidences are known, not the
    rivals' confidences: the tokens then lie between the bounds for every course of the cycles.
    Raises TreeError where the recording is too shallow or holds no ranks.
    """
    recording.check_depth(shape.depth)
    ranks = recording.children(SiblingRule.TOP_K, shape.topk)
    order = recording.dynamic_order(shape.topk, shape.depth)
    if order is None:
        lower, upper = depth_bounds(shape, ranks, recording.confidence)
    else:
        lower = upper = depths_from_orders(order[:, : shape.depth], shape.num_nodes)
    silent = recording.traces.proposed == 0
    lower[silent] = upper[silent] = 0
    fewest, most = cycle_count_bounds(recording.traces, lower, upper)
    tokens = int((recording.traces.output_tokens - 1).sum())
    if not tokens:
        raise ScenarioError("no cycle in these traces: every recorded output has one token")
    search = TreeSearch(recording, ranks, shape.topk)
    static = search.settle(search.sequoia(shape.num_nodes, shape.depth))
    return DynamicView(
        origin=recording.origin(SiblingRule.TOP_K),
        topk=shape.topk,
        depth=shape.depth,
        num_nodes=shape.num_nodes,
        num_proposed=shape.num_proposed,
        is_exact=order is not None,
        lower_tokens=tokens / most,
        upper_tokens=tokens / fewest,
        static_tokens=tokens / len(search.cycles(static).accepted),
    )
