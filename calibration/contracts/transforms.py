"""What a request does to the target's logits before a token is taken, as in transformers.

Order: logit bias, repetition penalty, constraint; then temperature, top-k, top-p, min-p.
Temperature 0 takes the argmax of the first three. Penalty and constraint read the history: prompt,
output and the drafted path down to the node.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

import torch

from calibration.errors import CalibrationError
from calibration.sampling import token_probabilities
from simcore.profile.schema import Sampling

History = Sequence[int]


@dataclass(frozen=True)
class Constraint:
    """A grammar, regular expression or schema as the tokens that may follow a history."""

    name: str
    allowed: Callable[[History], Collection[int]]
    answers_any_prefix: bool = True  # False: it only moves forward, so it cannot judge drafts


@dataclass(frozen=True)
class Transforms:
    """One request's transforms; the default is greedy decoding of the bare logits.

    What `sampling` states of min-p, penalty and bias holds too. A constraint that it names must be
    given, for the name alone masks nothing.
    """

    sampling: Sampling = field(default_factory=Sampling)
    min_p: float = 0.0  # 0: off
    repetition_penalty: float = 1.0  # 1: off
    logit_bias: Mapping[int, float] = field(default_factory=dict)  # token -> added to its logit
    constraint: Constraint | None = None

    def __post_init__(self) -> None:
        self._take_over()
        if not 0.0 <= self.min_p <= 1.0:
            raise CalibrationError(f"min_p is {self.min_p}; expected 0 (off) to 1")
        if not 0.0 < self.repetition_penalty < float("inf"):
            raise CalibrationError(
                f"repetition_penalty is {self.repetition_penalty}; expected above 0, 1 for none"
            )

    def _take_over(self) -> None:
        stated = self.sampling
        own = self.min_p, self.repetition_penalty, dict(self.logit_bias)
        told = stated.min_p, stated.repetition_penalty, dict(stated.logit_bias)
        fields = ("min_p", "repetition_penalty", "logit_bias")
        for name, ours, theirs, off in zip(fields, own, told, (0.0, 1.0, {}), strict=True):
            if theirs not in (off, ours) and ours != off:
                raise CalibrationError(f"{name} is {ours} and, by the sampling, {theirs}; say one")
            if ours == off:
                object.__setattr__(self, name, theirs)
        given = self.constraint.name if self.constraint is not None else None
        if stated.constraint not in (None, given):
            raise CalibrationError(
                f"sampling names constraint {stated.constraint!r}, given is {given!r}; expected "
                "that constraint"
            )

    @property
    def identity(self) -> Sampling:
        """All of it as a profile and a scenario state it."""
        return Sampling(
            temperature=self.sampling.temperature,
            top_k=self.sampling.top_k,
            top_p=self.sampling.top_p,
            min_p=self.min_p,
            repetition_penalty=self.repetition_penalty,
            logit_bias=tuple(sorted(self.logit_bias.items())),
            constraint=self.constraint.name if self.constraint is not None else None,
        )

    @property
    def is_greedy(self) -> bool:
        """Whether the argmax is taken."""
        return self.sampling.temperature == 0.0

    @property
    def reads_history(self) -> bool:
        """Whether the distribution depends on more than the logits."""
        return self.repetition_penalty != 1.0 or self.constraint is not None

    def scores(
        self,
        logits: torch.Tensor,
        histories: Sequence[History] = (),
        allowed: Sequence[Collection[int]] = (),
    ) -> torch.Tensor:
        """`logits` [..., V] after bias, penalty and constraint.

        `histories` (for a penalty) and `allowed` tokens (for a constraint) have one entry a row of
        logits [N, V]. float64 stays float64, others become float32; -inf where a token is out.
        """
        scores = logits if logits.dtype == torch.float64 else logits.float()
        if self.logit_bias:
            tokens = torch.tensor(list(self.logit_bias), device=scores.device)
            bias = torch.zeros(scores.shape[-1], dtype=scores.dtype, device=scores.device)
            bias[tokens] = torch.tensor(
                list(self.logit_bias.values()), dtype=scores.dtype, device=scores.device
            )
            scores = scores + bias
        if self.repetition_penalty != 1.0:
            scores = torch.stack(
                [self._penalised(row, seen) for row, seen in zip(scores, histories, strict=True)]
            )
        if self.constraint is not None:
            masked = [_masked(row, tokens) for row, tokens in zip(scores, allowed, strict=True)]
            scores = torch.stack(masked)
        return scores

    def probabilities(
        self,
        logits: torch.Tensor,
        histories: Sequence[History] = (),
        allowed: Sequence[Collection[int]] = (),
    ) -> torch.Tensor:
        """The distributions [..., V] that are sampled; all zero where no token is allowed."""
        scores = self.scores(logits, histories, allowed)
        found = token_probabilities(scores, self.identity)
        if self.constraint is None and not self.logit_bias:
            return found
        return found.masked_fill(scores.isneginf().all(dim=-1, keepdim=True), 0.0)

    def _penalised(self, scores: torch.Tensor, history: History) -> torch.Tensor:
        """Seen tokens [V] lose: positive scores are divided by the penalty, others multiplied."""
        seen = torch.tensor(sorted(set(history)), dtype=torch.int64, device=scores.device)
        own = scores[seen]
        less = torch.where(own > 0.0, own / self.repetition_penalty, own * self.repetition_penalty)
        return scores.index_copy(0, seen, less)


def _masked(scores: torch.Tensor, allowed: Collection[int]) -> torch.Tensor:
    kept = torch.tensor(sorted(set(allowed)), dtype=torch.int64, device=scores.device)
    return torch.full_like(scores, -torch.inf).index_copy(0, kept, scores[kept])
