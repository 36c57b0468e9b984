"""What one request contributes to a forward: prompt chunks, chains, trees.

The tokens of a query lie in consecutive slots behind the request's context. A slot is a place in
memory; a position is a place in the text, by depth: two children of one node share a position. A
token sees the context, its own ancestors and itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


@dataclass(frozen=True)
class Query:
    """Tokens of one request. L slots behind the context are its tail, some written before."""

    request: int
    context_tokens: int  # slots that every token sees
    token_ids: IntArray  # [n]
    offsets: IntArray  # [n] slot of each token in the tail
    visible: BoolArray  # [n, L] slots of the tail that it sees
    tail_depths: IntArray  # [L] positions behind the context
    scored: IntArray  # tokens of the query whose logits are wanted

    @property
    def num_tokens(self) -> int:
        """n."""
        return len(self.token_ids)

    @property
    def covered_tokens(self) -> int:
        """Slots that the request must hold."""
        return self.context_tokens + len(self.tail_depths)


def chunk(
    request: int, token_ids: Sequence[int] | IntArray, context_tokens: int, *, num_scored: int = 1
) -> Query:
    """A stretch of text; the logits of its last `num_scored` tokens are wanted."""
    tokens = np.asarray(token_ids, dtype=np.int64)
    places = np.arange(len(tokens))
    visible = np.tri(len(tokens), dtype=np.bool_)
    return Query(
        request, context_tokens, tokens, places, visible, places, places[len(tokens) - num_scored :]
    )


def tree(
    request: int,
    root: int,
    token_ids: Sequence[int] | IntArray,
    parents: Sequence[int],
    context_tokens: int,
) -> Query:
    """Root and nodes below it, a parent before its children; parent -1 is the root. All scored."""
    tokens = np.concatenate(([root], np.asarray(token_ids, dtype=np.int64)))
    places = np.arange(len(tokens))
    return Query(
        request, context_tokens, tokens, places, ancestry(parents), node_depths(parents), places
    )


def ancestry(parents: Sequence[int]) -> BoolArray:
    """[m + 1, m + 1] which of root (row 0) and nodes each of them descends from, itself included.

    Raises ValueError where a parent does not come before its child.
    """
    _check_order(parents)
    seen = np.eye(len(parents) + 1, dtype=np.bool_)
    for node, parent in enumerate(parents, start=1):
        seen[node] |= seen[parent + 1]
    return seen


def node_depths(parents: Sequence[int]) -> IntArray:
    """[m + 1] steps below the root; the root's is 0."""
    _check_order(parents)
    depths = np.zeros(len(parents) + 1, dtype=np.int64)
    for node, parent in enumerate(parents, start=1):
        depths[node] = depths[parent + 1] + 1
    return depths


def _check_order(parents: Sequence[int]) -> None:
    for node, parent in enumerate(parents):
        if not -1 <= parent < node:
            raise ValueError(
                f"node {node} has parent {parent}; expected -1 (the root) or an earlier node"
            )
