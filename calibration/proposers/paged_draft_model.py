"""A smaller model of the target's family drafts over paged KV of its own."""

from collections.abc import Sequence

import numpy as np

from calibration.errors import CalibrationError
from calibration.model.decoder import Decoder
from calibration.paged.cache import KVCache
from calibration.paged.query import chunk
from calibration.proposers.growth import Grower
from calibration.proposers.sapling import UNREAD, Grown
from calibration.proposers.tree_protocol import Asked, Draft, PromptChunk, Reconciled
from simcore.acceptance.topology.sibling_rules import SiblingRule
from simcore.profile.schema import Sampling


class PagedDraftModel:
    """Reads prompts along, then drafts level by level, catching up on whatever it lacks.

    After a cycle it holds KV of the root and of the accepted candidates that it has read: all but
    those of the last level, and a tree's leaves. What it lacks it reads with the next root.
    """

    name = "draft_model"

    def __init__(
        self, draft: Decoder, cache: KVCache, *, siblings: SiblingRule = SiblingRule.SEQUOIA
    ) -> None:
        if cache.draft is None:
            raise CalibrationError(
                "the KV cache has no namespace for a draft; build it with the draft's shape"
            )
        if draft.dtype != cache.draft.kv.keys.dtype:
            raise CalibrationError(
                f"the draft computes in {draft.dtype}, its KV is {cache.draft.kv.keys.dtype}; load "
                "it in the numbers of the cache"
            )
        self._namespace = cache.draft
        self._grower = Grower(draft, cache.draft, siblings=siblings)
        self._held_tokens: dict[int, int] = {}
        self._grown: dict[int, Grown] = {}

    def held_tokens(self, request: int) -> int:
        """Tokens of a request's text whose draft KV is there."""
        return self._held_tokens.get(request, 0)

    def read(self, chunks: Sequence[PromptChunk]) -> None:
        """Read what the target reads."""
        if not chunks:
            return
        self._grower.read(
            [chunk(one.request, one.token_ids, one.context_tokens, num_scored=0) for one in chunks]
        )
        for one in chunks:
            self._held_tokens[one.request] = one.context_tokens + len(one.token_ids)

    def propose(self, asked: Sequence[Asked], sampling: Sampling) -> list[Draft]:
        """Grow one tree a request."""
        held = [self.held_tokens(one.request) for one in asked]
        grown = self._grower.grow(asked, held, sampling) if asked else []
        self._grown |= {one.request: tree for one, tree in zip(asked, grown, strict=True)}
        return [tree.draft for tree in grown]

    def reconcile(self, cycles: Sequence[Reconciled]) -> None:
        """Move the accepted nodes that were read behind the root; forget the rest."""
        for cycle in cycles:
            grown = self._grown.pop(cycle.request, None)
            if grown is None:
                continue  # it was not asked: what this cycle emits is read with the next root
            slots = [grown.slots[node] for node in cycle.path]
            read = slots.index(UNREAD) if UNREAD in slots else len(slots)
            self._namespace.commit_path(
                cycle.request, cycle.context_tokens, np.array(slots[:read], dtype=np.int64)
            )
            self._held_tokens[cycle.request] = cycle.context_tokens + 1 + read

    def learn(self, output_ids: Sequence[int]) -> None:
        """Nothing: a request draws on no other's text."""

    def forget(self, request: int) -> None:
        """Its KV is gone with its blocks."""
        self._held_tokens.pop(request, None)
        self._grown.pop(request, None)
