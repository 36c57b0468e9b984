"""Trees grown by a model, level by level: one pass a level for the whole batch."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from calibration.model.decoder import Decoder
from calibration.paged.cache import Namespace
from calibration.paged.plan import plan_step
from calibration.paged.query import Query, chunk
from calibration.proposers.sapling import DynamicSapling, Grown, Sapling, plant
from calibration.proposers.siblings import drawn, is_drawn, likeliest
from calibration.proposers.tree_protocol import Asked
from calibration.sampling import token_probabilities
from simcore.acceptance.topology.sibling_rules import SiblingRule
from simcore.acceptance.tree import ROOT
from simcore.profile.schema import Sampling

Frontier = Sequence[tuple[Sapling, int]]  # nodes that have just been read


@dataclass(frozen=True)
class Grower:
    """A model, or the first layers of one, that grows trees in a namespace of KV.

    `siblings`: how children are chosen above temperature 0. A dynamic tree takes the likeliest
    always: its nodes are chosen by confidence, which draws would bias.
    """

    decoder: Decoder
    namespace: Namespace
    num_layers: int | None = None
    siblings: SiblingRule = SiblingRule.SEQUOIA

    def read(self, queries: Sequence[Query]) -> torch.Tensor:
        """One pass over the batch; logits [K, V] of the scored tokens."""
        plan = plan_step(queries, self.namespace.tables, self.decoder.device)
        return self.decoder.forward(plan, self.namespace.kv, self.num_layers)

    def grow(
        self, asked: Sequence[Asked], held_tokens: Sequence[int], sampling: Sampling
    ) -> list[Grown]:
        """One tree a request; the model's KV holds the first `held_tokens` of each text.

        The first pass reads what is missing up to the root, so a lagging model catches up there.
        """
        saplings = [plant(one) for one in asked]
        missing = [
            chunk(one.request, one.token_ids[held:], held)
            for one, held in zip(asked, held_tokens, strict=True)
        ]
        frontier: Frontier = [(sapling, ROOT) for sapling in saplings]
        logits = self.read(missing)
        level = 0
        while frontier:
            self._branch(frontier, logits, sampling)
            level += 1
            nodes = [(one, one.to_read(level)) for one in saplings if level < one.depth]
            growing = [(one, found) for one, found in nodes if found]
            frontier = [(one, node) for one, found in growing for node in found]
            if frontier:
                logits = self.read([one.level_query(found) for one, found in growing])
        return [sapling.finished() for sapling in saplings]

    def _branch(self, frontier: Frontier, logits: torch.Tensor, sampling: Sampling) -> None:
        """Give every node of the frontier its children, from its row of `logits` [R, V]."""
        draws = is_drawn(self.siblings, sampling)
        by_luck = [draws and not isinstance(one, DynamicSapling) for one, _ in frontier]
        if any(by_luck):
            q = token_probabilities(logits, sampling)
            for row, (one, node) in enumerate(frontier):
                if by_luck[row]:
                    one.q_rows[node] = q[row]
                    count = one.num_children(node)
                    tokens = drawn(q[row], count, self.siblings, one.asked.generator)
                    one.place(node, tokens, [1.0] * count)
        if not all(by_luck):
            self._take_likeliest(frontier, logits, by_luck)

    def _take_likeliest(
        self, frontier: Frontier, logits: torch.Tensor, by_luck: Sequence[bool]
    ) -> None:
        counts = [one.num_children(node) for one, node in frontier]
        best = likeliest(logits, max(counts))  # [R, widest]
        wide = logits if logits.dtype == torch.float64 else logits.float()
        confidence = torch.softmax(wide, dim=-1).gather(-1, best).tolist()
        for row, tokens in enumerate(best.tolist()):
            if not by_luck[row]:
                one, node = frontier[row]
                one.place(node, tokens[: counts[row]], confidence[row][: counts[row]])
