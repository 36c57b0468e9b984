"""One step over a ragged batch of requests: propose, one target forward, verify, move KV.

The engine decides nothing about blocks: before a step the ledger has reserved them and the cache
follows it, afterwards the ledger commits and the cache follows again.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from calibration.model.decoder import Decoder
from calibration.paged.cache import KVCache
from calibration.paged.plan import plan_step
from calibration.paged.query import IntArray, Query, chunk, tree
from calibration.proposers.tree_protocol import (
    NO_DRAFT,
    Asked,
    Draft,
    PromptChunk,
    Reconciled,
    TreeProposer,
)
from simcore.profile.schema import Sampling

# (request, logits [1 + m, V] after root and candidates, draft) -> (accepted path, next token)
Verify = Callable[[int, torch.Tensor, Draft], tuple[tuple[int, ...], int]]


@dataclass(frozen=True)
class Cycle:
    """A decoding request's part of a step; not asked, it decodes plainly."""

    request: int
    token_ids: IntArray  # [S] the text so far; the last token is the root
    asked: Asked | None = None
    sampling: Sampling | None = None  # that drafts are drawn under; None: the engine's

    @property
    def context_tokens(self) -> int:
        """Tokens whose KV the target has."""
        return len(self.token_ids) - 1


@dataclass(frozen=True)
class Outcome:
    """What a step did for one request."""

    request: int
    draft: Draft
    path: tuple[int, ...]  # accepted candidates from below the root down
    token_ids: tuple[int, ...]  # emitted, before any cut; none after an inner prompt chunk


@dataclass
class Engine:
    """A target, its KV, and a proposer if there is one."""

    target: Decoder
    cache: KVCache
    proposer: TreeProposer | None = None
    sampling: Sampling = field(default_factory=Sampling)

    def step(
        self,
        chunks: Sequence[PromptChunk],
        cycles: Sequence[Cycle],
        verify: Verify,
        lap: Callable[[str], None] = lambda phase: None,
    ) -> list[Outcome]:
        """Advance prefills by their chunks and decodes by a cycle; one target forward in all.

        Outcomes come in the order of chunks, then cycles. Where anything raises, no KV that was
        committed before has changed. `lap` is told at the end of every part which phase it was.
        """
        drafts = self._propose(cycles)
        lap("propose")
        queries = [
            chunk(c.request, c.token_ids, c.context_tokens, num_scored=int(c.is_last))
            for c in chunks
        ]
        queries += [_query(cycle, draft) for cycle, draft in zip(cycles, drafts, strict=True)]
        if not queries:
            return []
        plan = plan_step(queries, self.cache.target.tables, self.target.device)
        logits = self.target.forward(plan, self.cache.target.kv)  # [K, V]
        lap("target")
        rows = torch.split(logits, [len(query.scored) for query in queries])
        outcomes = [
            _verified(c.request, scored, NO_DRAFT, verify) if c.is_last else _unfinished(c)
            for c, scored in zip(chunks, rows, strict=False)
        ]
        decoded = rows[len(chunks) :]
        ends = [
            _verified(cycle.request, scored[: 1 + draft.num_candidates], draft, verify)
            for cycle, draft, scored in zip(cycles, drafts, decoded, strict=True)
        ]
        if self.proposer is not None:
            lap("reconcile")
            self.proposer.read(chunks)
            lap("propose")
            self.proposer.reconcile(_reconciled(cycles, ends, decoded))
        for cycle, end in zip(cycles, ends, strict=True):
            path = np.array(end.path, dtype=np.int64)
            self.cache.target.commit_path(cycle.request, cycle.context_tokens, path)
        lap("reconcile")
        return outcomes + ends

    def _propose(self, cycles: Sequence[Cycle]) -> list[Draft]:
        """A draft a cycle; those who draw under the same settings are drafted for together."""
        alike: dict[Sampling, list[Asked]] = {}
        for cycle in cycles:
            if cycle.asked is not None:
                alike.setdefault(cycle.sampling or self.sampling, []).append(cycle.asked)
        found: dict[int, Draft] = {}
        if self.proposer is not None:
            for sampling, asked in alike.items():
                drafts = self.proposer.propose(asked, sampling)
                found |= {one.request: draft for one, draft in zip(asked, drafts, strict=True)}
        return [found.get(cycle.request, NO_DRAFT) for cycle in cycles]


def _query(cycle: Cycle, draft: Draft) -> Query:
    return tree(
        cycle.request,
        int(cycle.token_ids[-1]),
        draft.token_ids + draft.window_token_ids,
        draft.parents + draft.window_parents,
        cycle.context_tokens,
    )


def _unfinished(prompt: PromptChunk) -> Outcome:
    return Outcome(prompt.request, NO_DRAFT, (), ())


def _verified(request: int, logits: torch.Tensor, draft: Draft, verify: Verify) -> Outcome:
    path, next_token = verify(request, logits, draft)
    tokens = (*(draft.token_ids[node] for node in path), next_token)
    return Outcome(request, draft, tuple(path), tokens)


def _reconciled(
    cycles: Sequence[Cycle], ends: Sequence[Outcome], logits: Sequence[torch.Tensor]
) -> list[Reconciled]:
    """What a proposer learns; the argmax goes to the host only where it asked for more nodes."""
    return [
        Reconciled(
            request=cycle.request,
            context_tokens=cycle.context_tokens,
            draft=end.draft,
            path=end.path,
            next_token=end.token_ids[-1],
            choices=rows.argmax(dim=-1).cpu().numpy()
            if end.draft.window_parents
            else np.empty(0, dtype=np.int64),
        )
        for cycle, end, rows in zip(cycles, ends, logits, strict=True)
    ]
