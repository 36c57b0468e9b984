"""What the decoding loop asks of any proposer."""

from dataclasses import dataclass
from typing import Protocol

import torch

from calibration.models import LanguageModel
from simcore.profile.schema import Sampling


@dataclass(frozen=True)
class Proposal:
    """Drafts of B requests; rows shorter than M are padded and `lengths` says where they end."""

    token_ids: torch.Tensor  # [B, M] int64, on the host
    lengths: tuple[int, ...]  # B values in 0..M; 0: nothing found, a plain step
    probabilities: torch.Tensor | None  # q [B, M, V]; None: a point mass on the drafts

    def __post_init__(self) -> None:
        rows, width = self.token_ids.shape
        if len(self.lengths) != rows or any(not 0 <= n <= width for n in self.lengths):
            raise ValueError(
                f"lengths {self.lengths} do not fit drafts of shape {[rows, width]}; expected one "
                "value a row, between 0 and the width"
            )


def empty_proposal(batch_size: int) -> Proposal:
    """Nothing proposed: plain decoding."""
    return Proposal(torch.zeros((batch_size, 0), dtype=torch.int64), (0,) * batch_size, None)


class Proposer(Protocol):
    """Proposes chains for a batch of requests of equal length and follows what was committed."""

    @property
    def name(self) -> str:
        """Key of the proposer in the profile."""
        ...

    @property
    def own_model(self) -> LanguageModel | None:
        """The model whose KV it keeps, which reads the prompt as well; None without one."""
        ...

    def proposes_point_mass(self, sampling: Sampling) -> bool:
        """Whether drafts are deterministic given the context, so that q is a point mass."""
        ...

    def propose(
        self,
        token_ids: torch.Tensor,
        num_speculative_tokens: int,
        sampling: Sampling,
        generators: list[torch.Generator],
    ) -> Proposal:
        """At most γ drafts to follow `token_ids` [B, S], the text so far, on the host."""
        ...

    def keep(self, num_tokens: int) -> None:
        """Only the first `num_tokens` tokens of every request have been committed."""
        ...
