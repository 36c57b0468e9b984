"""Finding a tree on recordings: rates by rank depend on where cycles start, and that on the tree.

So rates and tree are found in turn until they agree; of all trees met on the way, the one that
replays best is kept.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from simcore.acceptance.topology.greedy_tree import frequent_tree
from simcore.acceptance.topology.replay import (
    IntArray,
    RankArray,
    TreeCycles,
    cycles_of,
    rank_rates,
    tree_cycles,
)
from simcore.acceptance.topology.sequoia import best_trees
from simcore.acceptance.tree import DraftTree, chain
from simcore.errors import ScenarioError
from simcore.tree_recording import TreeRecording

MAX_ROUNDS = 8

Chooser = Callable[[RankArray], DraftTree | None]  # ranks at cycle starts -> tree; None: plain
Score = Callable[[DraftTree | None, TreeCycles], float]


@dataclass(frozen=True)
class TreeSearch:
    """Trees of at most `width` children a node on some recorded requests."""

    recording: TreeRecording
    ranks: RankArray  # [num_rows, depths] accepting child
    width: int
    requests: IntArray | None = None  # None: all

    def cycles(self, tree: DraftTree | None) -> TreeCycles:
        """The cycles of a tree; of plain decoding, one a token. ScenarioError without any."""
        traces = self.recording.traces
        if tree is None:
            none = np.zeros(len(traces.accepted), dtype=np.int64)
            found = cycles_of(traces, none, requests=self.requests)
        else:
            found = tree_cycles(traces, tree, self.ranks, requests=self.requests)
        if not len(found.accepted):
            raise ScenarioError("no cycle in these traces: every recorded output has one token")
        return found

    def ranks_at(self, cycles: TreeCycles) -> RankArray:
        """[num_cycles, depths] at cycle starts; −1 where the proposer found nothing."""
        found: RankArray = self.ranks[cycles.rows].copy()
        found[self.recording.traces.proposed[cycles.rows] == 0] = -1
        return found

    def settle(self, choose: Chooser, score: Score | None = None) -> DraftTree | None:
        """The best of the trees met while tree and cycle starts are found in turn."""
        found: dict[DraftTree | None, float] = {}
        cycles = self.cycles(None)
        for _ in range(MAX_ROUNDS):
            tree = choose(self.ranks_at(cycles))
            if tree in found:
                break
            cycles = self.cycles(tree)
            found[tree] = cycles.mean_emitted_tokens if score is None else score(tree, cycles)
        return max(found, key=lambda tree: found[tree])

    def sequoia(self, num_nodes: int, depth: int) -> Chooser:
        """Sequoia's programme on the rates by depth and rank."""

        def choose(ranks: RankArray) -> DraftTree:
            rates = rank_rates(ranks[:, :depth], self.width)
            return best_trees(rates, num_nodes, depth).tree(num_nodes, depth)

        return choose

    def frequent(self, num_nodes: int, depth: int) -> Chooser:
        """The paths that cycles really took most often, nothing assumed independent."""
        return lambda ranks: frequent_tree(ranks, num_nodes, depth, self.width)

    def chain(self, num_nodes: int, depth: int) -> Chooser:
        """The longest chain."""
        return lambda ranks: chain(min(num_nodes, depth))

    def half(self, parity: int) -> "TreeSearch":
        """The same on every other request."""
        every_other = np.arange(parity, self.recording.traces.num_requests, 2)
        return TreeSearch(self.recording, self.ranks, self.width, every_other)
