"""Trees of one request while they grow: of a fixed shape, or chosen by the model's confidence."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from calibration.paged.query import Query
from calibration.proposers.tree_protocol import Asked, Draft
from simcore.acceptance.topology.dynamic_tree import DynamicShape
from simcore.acceptance.tree import ROOT, DraftTree

UNREAD = -1


@dataclass(frozen=True)
class Grown:
    """A finished tree and where the model's KV of its candidates lies behind the root."""

    draft: Draft
    slots: tuple[int, ...]  # UNREAD: the model has no KV of this candidate


class Sapling(ABC):
    """Nodes with tokens; a node that is read gets the next slot behind the root."""

    def __init__(self, asked: Asked) -> None:
        self.asked = asked
        self.parents: list[int] = []
        self.tokens: list[int] = []
        self.slots: list[int] = []
        self.q_rows: dict[int, torch.Tensor] = {}  # what a node's children were drawn from
        self._num_read = 0

    @property
    @abstractmethod
    def depth(self) -> int:
        """Levels below the root."""

    @abstractmethod
    def num_children(self, node: int) -> int:
        """Children that a node to be read will get."""

    @abstractmethod
    def place(self, node: int, tokens: Sequence[int], confidence: Sequence[float]) -> None:
        """Give `node` its children, best first."""

    @abstractmethod
    def to_read(self, level: int) -> list[int]:
        """Nodes of a level that are to have children."""

    @abstractmethod
    def finished(self) -> Grown:
        """What is proposed."""

    def level_query(self, nodes: Sequence[int]) -> Query:
        """The pass over nodes of one level, which get their slots now."""
        for node in nodes:
            self.slots[node] = self._num_read
            self._num_read += 1
        paths = [self._path(node) for node in nodes]
        tail = 1 + self._num_read
        visible = np.zeros((len(nodes), tail), dtype=np.bool_)
        for row, path in enumerate(paths):
            visible[row, [0, *(1 + self.slots[node] for node in path)]] = True
        depths = np.zeros(tail, dtype=np.int64)
        for node, slot in enumerate(self.slots):
            if slot != UNREAD:
                depths[1 + slot] = len(self._path(node))
        return Query(
            request=self.asked.request,
            context_tokens=self.asked.context_tokens,
            token_ids=np.array([self.tokens[node] for node in nodes], dtype=np.int64),
            offsets=np.array([1 + self.slots[node] for node in nodes], dtype=np.int64),
            visible=visible,
            tail_depths=depths,
            scored=np.arange(len(nodes)),
        )

    def _path(self, node: int) -> list[int]:
        path = []
        while node != ROOT:
            path.append(node)
            node = self.parents[node]
        return path


class StaticSapling(Sapling):
    """A tree whose parents are known beforehand; node numbers are the tree's own."""

    def __init__(self, asked: Asked, shape: DraftTree) -> None:
        super().__init__(asked)
        self._shape = shape
        self._depths = shape.depths
        self.parents = list(shape.parents)
        self.tokens = [0] * shape.num_nodes
        self.slots = [UNREAD] * shape.num_nodes
        self._children: list[list[int]] = [[] for _ in range(shape.num_nodes + 1)]
        for child, parent in enumerate(shape.parents):
            self._children[parent + 1].append(child)

    @property
    def depth(self) -> int:
        """Levels below the root."""
        return self._shape.depth

    def num_children(self, node: int) -> int:
        """Children in the shape."""
        return len(self._children[node + 1])

    def place(self, node: int, tokens: Sequence[int], confidence: Sequence[float]) -> None:
        """Fill in the children's tokens."""
        del confidence
        for child, token in zip(self._children[node + 1], tokens, strict=True):
            self.tokens[child] = token

    def to_read(self, level: int) -> list[int]:
        """Inner nodes of the level."""
        return [
            node
            for node, depth in enumerate(self._depths)
            if depth == level and self._children[node + 1]
        ]

    def finished(self) -> Grown:
        """The whole shape."""
        q = None
        if self.q_rows:
            widest = max(self.q_rows) + 2
            row = next(iter(self.q_rows.values()))
            q = row.new_zeros((widest, len(row)))
            for node, values in self.q_rows.items():
                q[node + 1] = values
        return Grown(Draft(tuple(self.parents), tuple(self.tokens), q), tuple(self.slots))


class DynamicSapling(Sapling):
    """EAGLE-2's tree (Li et al. 2024, 2406.16858): the likeliest nodes grow, the best are kept."""

    def __init__(self, asked: Asked, shape: DynamicShape) -> None:
        super().__init__(asked)
        self._shape = shape
        self._values: list[float] = []  # product of confidences along the path
        self._newest = 0  # first node of the newest level

    @property
    def depth(self) -> int:
        """Levels below the root."""
        return self._shape.depth

    def num_children(self, node: int) -> int:
        """The same for every node."""
        del node
        return self._shape.topk

    def place(self, node: int, tokens: Sequence[int], confidence: Sequence[float]) -> None:
        """Append the children, worth what their path is."""
        value = 1.0 if node == ROOT else self._values[node]
        for token, rate in zip(tokens, confidence, strict=True):
            self.parents.append(node)
            self.tokens.append(token)
            self.slots.append(UNREAD)
            self._values.append(value * rate)

    def to_read(self, level: int) -> list[int]:
        """The best of the newest level, best first."""
        del level
        newest = range(self._newest, len(self.tokens))
        self._newest = len(self.tokens)
        return sorted(newest, key=lambda node: -self._values[node])[: self._shape.topk]

    def finished(self) -> Grown:
        """The best nodes of all levels in order of proposal; ties go to the earlier."""
        order = sorted(range(len(self.tokens)), key=lambda node: -self._values[node])
        kept = sorted(order[: self._shape.num_nodes])
        number = {node: place for place, node in enumerate(kept)} | {ROOT: ROOT}
        draft = Draft(
            tuple(number[self.parents[node]] for node in kept),
            tuple(self.tokens[node] for node in kept),
        )
        return Grown(draft, tuple(self.slots[node] for node in kept))


def plant(asked: Asked) -> Sapling:
    """A tree of the asked topology, with no nodes placed yet."""
    topology = asked.topology
    if isinstance(topology, DynamicShape):
        return DynamicSapling(asked, topology)
    return StaticSapling(asked, topology)
