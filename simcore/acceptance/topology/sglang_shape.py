"""SGLang's three numbers for a draft tree, and which static trees they can stand for.

`--speculative-num-steps`, `--speculative-eagle-topk`, `--speculative-num-draft-tokens`; the last
counts the root. With topk above 1 the shape is chosen anew each cycle, as in EAGLE-2.
"""

from collections import Counter
from dataclasses import dataclass

from simcore.acceptance.topology.dynamic_tree import DynamicShape
from simcore.acceptance.topology.paths import RankPath, tree_from_paths
from simcore.acceptance.tree import ROOT, DraftTree, chain
from simcore.errors import TreeError

MAX_STATIC_STEPS = 2  # from the third level on, confidence decides who is expanded


@dataclass(frozen=True)
class SglangShape:
    """Draft passes, candidates of a node, and scored tokens with the root."""

    num_steps: int
    eagle_topk: int
    num_draft_tokens: int

    def __post_init__(self) -> None:
        if self.eagle_topk == 1 and self.num_draft_tokens != self.num_steps + 1:
            raise TreeError(
                f"{self}; with topk 1 SGLang sets num_draft_tokens to num_steps + 1 = "
                f"{self.num_steps + 1}"
            )
        _ = self.dynamic

    @property
    def dynamic(self) -> DynamicShape:
        """The same as EAGLE-2 counts, without the root."""
        return DynamicShape(self.eagle_topk, self.num_steps, self.num_draft_tokens - 1)

    def static_tree(self) -> DraftTree:
        """The tree of every cycle; TreeError where confidence decides its shape."""
        if self.eagle_topk == 1:
            return chain(self.num_steps)
        dynamic = self.dynamic
        whole = dynamic.num_nodes == dynamic.num_proposed and self.num_steps <= MAX_STATIC_STEPS
        if self.num_steps > 1 and not whole:
            raise TreeError(
                f"{self} has no static tree: the draft's confidence chooses {dynamic.num_nodes} of "
                f"{dynamic.num_proposed} nodes each cycle; replay it as a dynamic tree"
            )
        width = min(self.eagle_topk, dynamic.num_nodes)
        paths: list[RankPath] = [(rank,) for rank in range(width)]
        if self.num_steps > 1:
            paths += [(*path, rank) for path in paths for rank in range(self.eagle_topk)]
        return tree_from_paths(paths)

    def can_choose(self, tree: DraftTree) -> bool:
        """Whether this tree may be what one cycle verifies."""
        return (
            tree.num_nodes == self.num_draft_tokens - 1
            and tree.depth <= self.num_steps
            and max(Counter(tree.parents).values()) <= self.eagle_topk
            and max(_num_expanded(tree).values(), default=0) <= self.eagle_topk
        )


def sglang_shape(tree: DraftTree) -> SglangShape:
    """The smallest settings that can choose this tree: exact for chains, else an envelope."""
    widest = max(Counter(tree.parents).values())
    topk = max(widest, max(_num_expanded(tree).values(), default=1))
    return SglangShape(tree.depth, topk, tree.num_nodes + 1)


def _num_expanded(tree: DraftTree) -> Counter[int]:
    """Level -> candidates of it that have children."""
    return Counter(tree.depths[node] for node in set(tree.parents) - {ROOT})
