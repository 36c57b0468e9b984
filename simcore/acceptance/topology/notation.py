"""Trees as text: what people type and what engines read."""

import ast
import re

from simcore.acceptance.topology.paths import rank_paths, tree_from_paths
from simcore.acceptance.tree import DraftTree, chain, wide_chains
from simcore.errors import TreeError

MAX_NODES = 4096
MAX_SHOWN = 60
EXPECTED = "expected WxD (4x3), parents (-1,0,0) or paths ([[0],[0,0],[1]])"


def parse_tree(text: str) -> DraftTree:
    """A tree from `WxD` (W chains of D candidates), parent indices, or rank paths.

    Paths are Medusa's and TensorRT-LLM's choices ([[0], [0, 0]]) and vLLM's token tree
    ([(0,), (0, 0)]). Raises TreeError where the text is none of these.
    """
    sides = re.fullmatch(r"\s*(\d{1,4})\s*[xX×]\s*(\d{1,4})\s*", text, flags=re.ASCII)
    if sides:
        return _chains(int(sides[1]), int(sides[2]))
    value = _literal(text)
    items = (value,) if isinstance(value, int) else value
    if not isinstance(items, (list, tuple)) or not 1 <= len(items) <= MAX_NODES:
        raise TreeError(f"tree {_shown(text)} has no 1 to {MAX_NODES} nodes; {EXPECTED}")
    if all(_is_index(item) for item in items):
        return _from_parents(tuple(items))
    if all(isinstance(item, (list, tuple)) and all(map(_is_index, item)) for item in items):
        return tree_from_paths(tuple(item) for item in items)
    raise TreeError(f"tree {_shown(text)} mixes kinds; {EXPECTED}")


def choices(tree: DraftTree) -> list[list[int]]:
    """Medusa's and TensorRT-LLM's choices: a rank path for each node, level by level."""
    return [list(path) for path in sorted(rank_paths(tree), key=lambda path: (len(path), path))]


def vllm_token_tree(tree: DraftTree) -> str:
    """The value of vLLM's `speculative_token_tree` (removed in May 2026): a list of tuples."""
    return str([tuple(path) for path in choices(tree)])


def chains_side_by_side(tree: DraftTree) -> tuple[int, int] | None:
    """(W, D) where the tree is W chains of D candidates below the root; None where it is not."""
    width = tree.parents.count(-1)
    alike = _chains(width, tree.depth)
    return (width, tree.depth) if set(rank_paths(alike)) == set(rank_paths(tree)) else None


def _chains(width: int, depth: int) -> DraftTree:
    if not 1 <= width * depth <= MAX_NODES:
        raise TreeError(f"{width} chains of {depth} candidates; expected 1 to {MAX_NODES} in all")
    return chain(depth) if width == 1 else wide_chains(width, depth)


def _literal(text: str) -> object:
    try:
        return ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        raise TreeError(f"cannot read tree {_shown(text)}; {EXPECTED}") from None


def _is_index(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _from_parents(parents: tuple[int, ...]) -> DraftTree:
    try:
        return DraftTree(parents)
    except ValueError as error:
        raise TreeError(str(error)) from None


def _shown(text: str) -> str:
    return repr(text if len(text) <= MAX_SHOWN else text[: MAX_SHOWN - 1] + "…")
