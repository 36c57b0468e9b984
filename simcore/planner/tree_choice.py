"""The best static tree for a profile: of a given size, or of the size that its cost law favours."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simcore.acceptance.topology.notation import choices
from simcore.acceptance.topology.replay import RankArray, TreeCycles, rank_rates
from simcore.acceptance.topology.sequoia import BestTrees, best_trees
from simcore.acceptance.topology.sibling_rules import SiblingRule
from simcore.acceptance.tree import DraftTree
from simcore.cost.price import LawTables, decode_step, law_tables
from simcore.errors import ScenarioError, TreeError
from simcore.planner.tree_search import Chooser, TreeSearch
from simcore.planner.tree_view import Measured, TreeView, emitted_tokens, view_tree
from simcore.profile.schema import Frozen
from simcore.tree_recording import TreeRecording

MAX_BEST_NODES = 512
DEFAULT_WIDTH = 32  # most children of a node, as in Sequoia's shipped vector
METHODS = ("sequoia", "frequent", "chain")


class TreeLimits(NamedTuple):
    """How large a tree may be; nodes and levels without the root."""

    num_nodes: int
    depth: int
    width: int = DEFAULT_WIDTH


class TreeCandidate(Frozen):
    """One way to choose a tree."""

    method: str
    choices: list[list[int]]
    num_nodes: int
    depth: int
    mean_emitted_tokens: Measured = Field(description="on the requests that it was chosen on")
    held_out_tokens: float | None = Field(
        description="chosen on half of the requests, replayed on the other, both ways"
    )


class PricedSize(Frozen):
    """The best tree of one size under the cost law."""

    num_nodes: int
    depth: int
    mean_emitted_tokens: float = Field(description="by the programme, at the chosen tree's starts")
    cycle_s: float
    tokens_per_s: float = Field(description="of one request while it decodes")
    speedup: float = Field(description="over plain decoding at the same batch and context")
    is_extrapolated: bool = Field(description="outside the box that the cost law was fitted in")


class TreePrice(Frozen):
    """What the cost law says of sizes, at one batch and context."""

    batch_size: int
    context_tokens: int
    plain_step_s: float
    sizes: tuple[PricedSize, ...]
    chosen_num_nodes: int = Field(description="0: no tree emits faster than plain decoding")


class BestTree(Frozen):
    """What `specplan tree best` says."""

    origin: dict[str, Any]
    max_nodes: int
    max_depth: int
    price: TreePrice | None
    candidates: tuple[TreeCandidate, ...] = Field(description="empty where no tree pays")
    tree: TreeView | None = Field(description="the programme's tree; null where none pays")


def choose_tree(
    recording: TreeRecording,
    limits: TreeLimits,
    rule: SiblingRule = SiblingRule.TOP_K,
    *,
    batch_size: int | None = None,
    context_tokens: int | None = None,
) -> BestTree:
    """The best tree within `limits`; with a batch, of the size that emits fastest there.

    `context_tokens` of one request; None: the recorded prompt and half of the output, on average.
    Raises TreeError where the limits or the rule do not fit the recording.
    """
    search = _search(recording, limits, rule)
    price = None
    if batch_size is None:
        tree = search.settle(search.sequoia(limits.num_nodes, limits.depth))
    else:
        context = _mean_context(recording) if context_tokens is None else context_tokens
        price, tree = _price(search, limits, batch_size, context)
    candidates: tuple[TreeCandidate, ...] = ()
    if tree is not None:
        size = (limits.num_nodes, limits.depth) if price is None else (tree.num_nodes, tree.depth)
        candidates = tuple(_candidate(search, method, *size) for method in METHODS)
    return BestTree(
        origin=recording.origin(rule),
        max_nodes=limits.num_nodes,
        max_depth=limits.depth,
        price=price,
        candidates=candidates,
        tree=None if tree is None else view_tree(recording, tree, rule),
    )


def tree_of_budget(
    recording: TreeRecording, limits: TreeLimits, rule: SiblingRule = SiblingRule.TOP_K
) -> DraftTree:
    """The tree of this size that emits most. Raises TreeError as `choose_tree` does."""
    search = _search(recording, limits, rule)
    tree = search.settle(search.sequoia(limits.num_nodes, limits.depth))
    assert tree is not None  # this chooser always gives one
    return tree


def fastest_tree(
    recording: TreeRecording,
    limits: TreeLimits,
    rule: SiblingRule = SiblingRule.TOP_K,
    *,
    batch_size: int,
    context_tokens: int,
) -> DraftTree | None:
    """The tree within `limits` that emits fastest at this batch; None where plain decoding does.

    `choose_tree` says the same and why. Raises TreeError as it does.
    """
    return _price(_search(recording, limits, rule), limits, batch_size, context_tokens)[1]


def _search(recording: TreeRecording, limits: TreeLimits, rule: SiblingRule) -> TreeSearch:
    _check(recording, limits)
    width = min(limits.width, limits.num_nodes)
    return TreeSearch(recording, recording.children(rule, width), width)


def _check(recording: TreeRecording, limits: TreeLimits) -> None:
    if not 1 <= limits.num_nodes <= MAX_BEST_NODES or limits.depth < 1 or limits.width < 1:
        raise TreeError(
            f"{limits.num_nodes} nodes, {limits.depth} levels, {limits.width} children; expected 1 "
            f"to {MAX_BEST_NODES} nodes and at least 1 of the others"
        )
    recording.check_depth(limits.depth)


def _candidate(search: TreeSearch, method: str, num_nodes: int, depth: int) -> TreeCandidate:
    def chooser(of: TreeSearch) -> Chooser:
        by_name: dict[str, Chooser] = {
            "sequoia": of.sequoia(num_nodes, depth),
            "frequent": of.frequent(num_nodes, depth),
            "chain": of.chain(num_nodes, depth),
        }
        return by_name[method]

    tree = search.settle(chooser(search))
    assert tree is not None  # these choosers always give one
    held_out = None
    if search.recording.traces.num_requests > 1:
        replayed = [
            search.half(1 - parity).cycles(search.half(parity).settle(chooser(search.half(parity))))
            for parity in (0, 1)
        ]
        held_out = 1.0 + float(np.concatenate([cycles.accepted for cycles in replayed]).mean())
    return TreeCandidate(
        method=method,
        choices=choices(tree),
        num_nodes=tree.num_nodes,
        depth=tree.depth,
        mean_emitted_tokens=emitted_tokens(search.cycles(tree)),
        held_out_tokens=held_out,
    )


def _mean_context(recording: TreeRecording) -> int:
    traces = recording.traces
    return int((traces.prompt_tokens + traces.output_tokens / 2).mean())


class _Clock:
    """Seconds of cycles at one batch and context."""

    def __init__(self, recording: TreeRecording, limits: TreeLimits, batch: int, context: int):
        law = recording.stored.profile.cost
        self.plain: LawTables = law_tables(law, None)
        self.tables: LawTables = law_tables(law, recording.proposer)
        self.limits, self.batch, self.context = limits, batch, context
        self.plain_s = decode_step(self.plain, batch, context, 0).total_s

    def cycle_s(self, matched: float) -> NDArray[np.float64]:
        """[N + 1, D + 1]; infinite where no such tree is or the step runs unmeasured.

        `matched`: share of cycles in which the proposer proposes at all.
        """
        seconds = np.full((self.limits.num_nodes + 1, self.limits.depth + 1), np.inf)
        seconds[0] = seconds[:, 0] = self.plain_s
        for nodes in range(1, self.limits.num_nodes + 1):
            for depth in range(1, min(nodes, self.limits.depth) + 1):
                seconds[nodes, depth] = self.step_s(depth, nodes * matched)
        return seconds

    def step_s(self, depth: int, draft_tokens: float) -> float:
        """One cycle of trees of this depth, so many drafts verified a request."""
        try:
            return decode_step(self.tables, self.batch, self.context, depth, draft_tokens).total_s
        except ScenarioError:  # past the captured sizes, where no step was measured
            return float("inf")

    def is_extrapolated(self, num_nodes: int) -> bool:
        """Whether the law was not fitted to such steps."""
        box = self.plain.rate
        return bool(
            1 + num_nodes > box.max_query_tokens
            or self.batch > box.max_batch_size
            or self.context > box.max_context_tokens
            or self.batch * (1 + num_nodes) > box.max_step_tokens
        )


def _price(
    search: TreeSearch, limits: TreeLimits, batch_size: int, context: int
) -> tuple[TreePrice, DraftTree | None]:
    if batch_size < 1 or context < 0:
        raise TreeError(f"batch {batch_size}, context {context}; expected at least 1 and 0")
    clock = _Clock(search.recording, limits, batch_size, context)
    proposed = search.recording.traces.proposed

    def solved(ranks: RankArray) -> tuple[BestTrees, NDArray[np.float64]]:
        matched = float((ranks[:, 0] >= 0).mean())
        rates = rank_rates(ranks[:, : limits.depth], search.width)
        return best_trees(rates, limits.num_nodes, limits.depth), clock.cycle_s(matched)

    def fastest(ranks: RankArray) -> DraftTree | None:
        best, seconds = solved(ranks)
        chosen = best.fastest(seconds)
        return best.tree(chosen.num_nodes, chosen.depth) if chosen.num_nodes else None

    def tokens_per_s(tree: DraftTree | None, cycles: TreeCycles) -> float:
        if tree is None:
            return 1.0 / clock.plain_s
        matched = float((proposed[cycles.rows] > 0).mean())
        return cycles.mean_emitted_tokens / clock.step_s(tree.depth, tree.num_nodes * matched)

    tree = search.settle(fastest, tokens_per_s)
    best, seconds = solved(search.ranks_at(search.cycles(tree)))
    price = TreePrice(
        batch_size=batch_size,
        context_tokens=context,
        plain_step_s=clock.plain_s,
        sizes=_sizes(best, seconds, clock, tree),
        chosen_num_nodes=0 if tree is None else tree.num_nodes,
    )
    return price, tree


def _sizes(
    best: BestTrees, seconds: NDArray[np.float64], clock: _Clock, tree: DraftTree | None
) -> tuple[PricedSize, ...]:
    """Powers of two, each at its best depth, and the chosen tree at its own."""
    tokens = best.expected_tokens
    rates = tokens / seconds
    powers = [2**k for k in range(len(tokens).bit_length()) if 2**k < len(tokens)]
    depths = {nodes: int(np.argmax(rates[nodes, 1:])) + 1 for nodes in (*powers, len(tokens) - 1)}
    if tree is not None:
        depths[tree.num_nodes] = tree.depth
    found = []
    for nodes, depth in sorted(depths.items()):
        if np.isfinite(seconds[nodes, depth]):
            found.append(
                PricedSize(
                    num_nodes=nodes,
                    depth=depth,
                    mean_emitted_tokens=float(tokens[nodes, depth]),
                    cycle_s=float(seconds[nodes, depth]),
                    tokens_per_s=float(rates[nodes, depth]),
                    speedup=float(rates[nodes, depth]) * clock.plain_s,
                    is_extrapolated=clock.is_extrapolated(nodes),
                )
            )
    return tuple(found)
