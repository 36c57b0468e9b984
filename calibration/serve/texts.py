"""What grows while requests are served: their texts, their luck, their acceptance."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from calibration.contracts.candidates import Candidates
from calibration.contracts.contract import VerificationContract
from calibration.contracts.cut import Ending, Stopping
from calibration.contracts.judge import judge
from calibration.contracts.transforms import Transforms
from calibration.paged.query import IntArray
from calibration.proposers.tree_protocol import Draft
from simcore.acceptance.trace import TraceSet


@dataclass
class Text:
    """One request's text. Its generator is its own wherever it stands in the batch."""

    prompt_ids: tuple[int, ...]
    transforms: Transforms
    contract: VerificationContract
    stopping: Stopping
    generator: torch.Generator
    output_ids: list[int] = field(default_factory=list)
    ending: Ending | None = None

    @property
    def token_ids(self) -> IntArray:
        """[S] prompt and output; the last token is the root."""
        return np.array([*self.prompt_ids, *self.output_ids], dtype=np.int64)

    def judge(self, logits: torch.Tensor, draft: Draft) -> tuple[tuple[int, ...], int]:
        """(accepted path, next token) by the request's contract and transforms."""
        candidates = Candidates(draft.parents, draft.token_ids, draft.q)
        history = [*self.prompt_ids, *self.output_ids]
        (verdict,) = judge(
            self.contract, [logits], [candidates], [self.transforms], [self.generator], [history]
        )
        return verdict.path, verdict.next_token


@dataclass(frozen=True)
class ServedCycle:
    """What one step did for one request; emitted tokens are those after the cut."""

    request: int
    start: int  # output position of the first token that it emits
    begin_s: float
    draft: Draft
    path: tuple[int, ...]  # accepted candidates from below the root down, before the cut
    token_ids: tuple[int, ...]  # emitted
    ending: Ending | None
    is_prefill: bool = False

    @property
    def accepted(self) -> int:
        """Accepted drafts among the emitted tokens."""
        return min(len(self.path), len(self.token_ids))

    @property
    def has_bonus(self) -> bool:
        """Whether the last token is the target's own after a path that ended in a leaf."""
        end = self.path[-1] if self.path else -1
        is_leaf = end not in self.draft.parents
        return is_leaf and len(self.token_ids) > len(self.path) and self.draft.num_candidates > 0


def empty_traces(prompt_tokens: Sequence[int], max_tokens: Sequence[int], depth: int) -> TraceSet:
    """Rows for every output position that may come, nothing proposed anywhere yet."""
    lengths = np.array(max_tokens, dtype=np.int64)
    rows = int(lengths.sum())
    return TraceSet(
        domain_names=("served",),
        accepted=np.zeros(rows, dtype=np.int8),
        proposed=np.zeros(rows, dtype=np.int8),
        ratio=np.zeros((rows, 0)),
        offset=np.cumsum(lengths) - lengths,
        output_tokens=lengths,
        prompt_tokens=np.array(prompt_tokens, dtype=np.int64),
        domain=np.zeros(len(lengths), dtype=np.int64),
        max_gamma=depth,
    )
