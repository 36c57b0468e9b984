"""Sequoia's programme: the best tree of n nodes and d levels (Chen et al. 2024, 2402.12374).

Under positional acceptance the best forest below a node depends on how many nodes and levels are
left, not on where the node stands. With g(m) the value of the best subtree of m nodes below,

    E_b(y) = max over m of E_{b−1}(y − m) + q_b · g(m),    g(m) = 1 + max over b of E_b(m − 1)

is the best of y nodes under exactly b children. Rates may differ by depth.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from simcore.acceptance.topology.node_value import FloatArray, positional_rates
from simcore.acceptance.topology.paths import RankPath, tree_from_paths
from simcore.acceptance.tree import DraftTree


@dataclass(frozen=True, eq=False)
class _Forest:
    """Best forests of 0 .. N nodes below one node, and how each splits up."""

    value: FloatArray  # [N + 1] of exactly that many nodes; −inf where there is none
    num_children: NDArray[np.intp]  # [N + 1]
    size: NDArray[np.intp]  # [widest + 1, N + 1] nodes under the b-th of b children
    below: "_Forest | None"  # of any child


@dataclass(frozen=True)
class PricedTree:
    """The tree that emits fastest under a cycle's cost; num_nodes 0 is plain decoding."""

    num_nodes: int
    depth: int
    expected_tokens: float
    cycle_s: float

    @property
    def tokens_per_s(self) -> float:
        """Of one request."""
        return self.expected_tokens / self.cycle_s


@dataclass(frozen=True, eq=False)
class BestTrees:
    """The best tree of every size and depth; nodes and levels without the root."""

    rates: FloatArray  # [depths, ranks]
    max_nodes: int
    _forests: dict[bytes, _Forest] = field(default_factory=dict, repr=False)

    @property
    def max_depth(self) -> int:
        """Levels that the rates reach."""
        return len(self.rates)

    @property
    def expected_tokens(self) -> FloatArray:
        """[N + 1, D + 1] E[Y] of the best tree of at most n nodes and d levels; 1 without any."""
        columns = [
            np.maximum.accumulate(1.0 + self._forest(depth).value)
            for depth in range(self.max_depth + 1)
        ]
        return np.array(columns).T

    def tree(self, num_nodes: int, depth: int) -> DraftTree:
        """The best tree of at most so many nodes and levels; the smallest where several are."""
        if not (1 <= num_nodes <= self.max_nodes and 1 <= depth <= self.max_depth):
            raise ValueError(
                f"{num_nodes} nodes, {depth} levels; expected 1 to {self.max_nodes} and 1 to "
                f"{self.max_depth}"
            )
        forest = self._forest(depth)
        exact = max(1, int(np.argmax(forest.value[: num_nodes + 1])))
        return tree_from_paths(_paths(forest, exact))

    def fastest(self, cycle_s: ArrayLike) -> PricedTree:
        """The tree of most expected tokens a second; `cycle_s` [N + 1, D + 1] seconds a cycle.

        Row 0 prices plain decoding; infinite seconds leave a size out. Where several are alike,
        the smallest.
        """
        seconds = np.asarray(cycle_s, dtype=np.float64)
        tokens = self.expected_tokens
        if seconds.shape != tokens.shape or not (seconds > 0.0).all():
            raise ValueError(
                f"cycle times of shape {seconds.shape}; expected {tokens.shape}, all above 0 s"
            )
        nodes, depth = np.unravel_index(np.argmax(tokens / seconds), tokens.shape)
        if not nodes or not depth:
            nodes = depth = np.intp(0)
        return PricedTree(
            int(nodes), int(depth), float(tokens[nodes, depth]), float(seconds[nodes, depth])
        )

    def _forest(self, depth: int) -> _Forest:
        return self._solve(self.rates[:depth])

    def _solve(self, rates: FloatArray) -> _Forest:
        """The forests below a node whose descendants have these rates, level by level."""
        key = rates.tobytes()  # levels with the same rates below them are solved once
        if key not in self._forests:
            below = self._solve(rates[1:]) if len(rates) else None
            self._forests[key] = _forest_over(below, rates, self.max_nodes)
        return self._forests[key]


def best_trees(acceptance: ArrayLike, num_nodes: int, depth: int) -> BestTrees:
    """Solve for every tree of up to `num_nodes` nodes and `depth` levels.

    `acceptance`: positional rates [depths, ranks]; one row alone holds for every level. Rates
    need not fall with the rank: the b-th child still comes with all b − 1 before it.
    """
    rates = positional_rates(acceptance)
    if num_nodes < 1 or depth < 1:
        raise ValueError(f"{num_nodes} nodes, {depth} levels; expected at least 1 of each")
    if len(rates) == 1:
        rates = np.repeat(rates, depth, axis=0)
    if len(rates) < depth:
        raise ValueError(f"{depth} levels, but rates for {len(rates)} only")
    return BestTrees(rates[:depth], num_nodes)


def serial_cycle_s(verify_s: ArrayLike, draft_pass_s: float, depth: int) -> FloatArray:
    """[N + 1, D + 1] seconds: one draft pass a level, then verification of n nodes.

    `verify_s` [N + 1]: the target pass over the root and n nodes, row 0 plain decoding.
    """
    return np.asarray(verify_s, dtype=np.float64)[:, None] + draft_pass_s * np.arange(depth + 1)


def _forest_over(below: _Forest | None, rates: FloatArray, max_nodes: int) -> _Forest:
    value = np.full(max_nodes + 1, -np.inf)
    value[0] = 0.0
    # Trailing children that are never accepted only take time; the first stands in any case.
    row = rates[0, : max(1, len(np.trim_zeros(rates[0], "b")))] if below is not None else rates[:0]
    num_children = np.zeros(max_nodes + 1, dtype=np.intp)
    size = np.zeros((len(row) + 1, max_nodes + 1), dtype=np.intp)
    if below is not None:
        subtree = np.concatenate([[-np.inf], 1.0 + below.value[:-1]])  # g(m); m = 0 is no child
        exact = value.copy()  # E_b for the b at hand
        for b, rate in enumerate(row, start=1):
            gain = np.where(np.isfinite(subtree), rate * np.maximum(subtree, 0.0), -np.inf)
            exact, size[b] = _max_plus(exact, gain)
            better = exact > value
            value[better] = exact[better]
            num_children[better] = b
    return _Forest(value, num_children, size, below)


def _max_plus(first: FloatArray, second: FloatArray) -> tuple[FloatArray, NDArray[np.intp]]:
    """max over m of first[y − m] + second[m] for every y, and that m."""
    last = len(first) - 1
    padded = np.concatenate([np.full(last, -np.inf), first])
    windows = np.lib.stride_tricks.sliding_window_view(padded, last + 1)  # [y, last − m]
    totals = windows + second[::-1]
    best = totals.argmax(axis=1)
    return totals[np.arange(last + 1), best], last - best


def _paths(forest: _Forest, num_nodes: int, before: RankPath = ()) -> list[RankPath]:
    found: list[RankPath] = []
    for child in range(int(forest.num_children[num_nodes]), 0, -1):
        size = int(forest.size[child, num_nodes])
        path = (*before, child - 1)
        found.append(path)
        if forest.below is not None:
            found += _paths(forest.below, size - 1, path)
        num_nodes -= size
    return found
