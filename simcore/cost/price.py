"""Price one engine step by a cost law, inside compiled code and outside."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simcore.compiled import compiled
from simcore.cost.law import CostLaw, LinearLaw


class LawTables(NamedTuple):
    """The cost law of one target and one proposer as plain numbers."""

    knot_tokens: NDArray[np.float64]
    knot_s: NDArray[np.float64]
    per_request_s: float
    per_kv_token_plain_s: float
    per_kv_token_verify_s: float
    propose: NDArray[np.float64]  # [7] in the order of LinearLaw's fields
    idle_propose: NDArray[np.float64]  # [7] paid by a step that drafts nothing
    reconcile: NDArray[np.float64]  # [7]
    overhead_s: float
    speculative_factor: float  # scales the steps that draft, for cost uncertainty; 1 by default
    max_batch_size: int
    max_context_tokens: int
    max_step_tokens: int


class StepShape(NamedTuple):
    """What one step holds, over its whole batch; fractions stand for averages."""

    num_requests: float  # decoding and prefilling
    num_decoding: float
    gamma: float  # longest planned draft of the step: serial draft passes
    draft_tokens: float  # drafts verified, all requests
    query_tokens: float  # decode queries and prefill tokens
    plain_context_tokens: float  # KV read by requests with one query token
    verify_context_tokens: float  # KV read by requests with several, and by prefill chunks


@dataclass(frozen=True)
class StepTime:
    """Seconds of one step by phase."""

    propose_s: float
    target_s: float
    reconcile_s: float
    overhead_s: float

    @property
    def total_s(self) -> float:
        """The whole step."""
        return self.propose_s + self.target_s + self.reconcile_s + self.overhead_s


def law_tables(law: CostLaw, proposer: str | None, *, speculative_factor: float = 1.0) -> LawTables:
    """The numbers of `law` for steps that draft with `proposer` (None: no proposer loaded)."""
    target = law.target
    propose = law.propose[proposer] if proposer is not None else LinearLaw()
    return LawTables(
        knot_tokens=np.array(target.knot_tokens, dtype=np.float64),
        knot_s=np.array(target.knot_s, dtype=np.float64),
        per_request_s=target.per_request_s,
        per_kv_token_plain_s=target.per_kv_token_plain_s,
        per_kv_token_verify_s=target.per_kv_token_verify_s,
        propose=_coefficients(propose),
        idle_propose=_coefficients(law.idle_propose.get(proposer or "", LinearLaw())),
        reconcile=_coefficients(law.reconcile),
        overhead_s=law.overhead_s,
        speculative_factor=speculative_factor,
        max_batch_size=law.domain.max_batch_size,
        max_context_tokens=law.domain.max_context_tokens,
        max_step_tokens=law.domain.max_step_tokens,
    )


def decode_step(
    tables: LawTables,
    batch_size: int,
    context_tokens: float,
    gamma: int,
    draft_tokens: float | None = None,
) -> StepTime:
    """Time of a step of `batch_size` decoding requests alike, without prefill.

    `context_tokens` per request; `draft_tokens` verified per request where shorter than γ.
    """
    drafts = gamma if draft_tokens is None else draft_tokens
    kv = batch_size * context_tokens
    shape = StepShape(
        num_requests=batch_size,
        num_decoding=batch_size,
        gamma=gamma,
        draft_tokens=batch_size * drafts,
        query_tokens=batch_size * (1 + drafts),
        plain_context_tokens=kv if gamma == 0 else 0,
        verify_context_tokens=kv if gamma > 0 else 0,
    )
    return StepTime(*price_step(tables, shape))


def _coefficients(law: LinearLaw) -> NDArray[np.float64]:
    return np.array([getattr(law, name) for name in LinearLaw.model_fields], dtype=np.float64)


@compiled
def _linear(
    law: NDArray[np.float64],
    passes: float,
    requests: float,
    drafts: float,
    kv: float,
    target_s: float,
) -> float:
    return float(
        law[0]
        + law[1] * passes
        + law[2] * requests
        + law[3] * drafts
        + law[4] * kv
        + law[5] * kv * passes
        + law[6] * target_s
    )


@compiled
def _piecewise(knots: NDArray[np.float64], values: NDArray[np.float64], tokens: float) -> float:
    """Linear between knots; level before the first; the last slope goes on beyond the last."""
    last = len(knots) - 1
    if tokens <= knots[0]:
        return float(values[0])
    segment = 0
    while segment < last - 1 and tokens > knots[segment + 1]:
        segment += 1
    slope = (values[segment + 1] - values[segment]) / (knots[segment + 1] - knots[segment])
    return float(values[segment] + slope * (tokens - knots[segment]))


@compiled
def price_step(tables: LawTables, shape: StepShape) -> tuple[float, float, float, float]:
    """(propose, target, reconcile, overhead) seconds of one step (DESIGN section 4).

    A step that drafts nothing pays only what a loaded proposer costs idle (the "off" tax).
    """
    target_s = (
        _piecewise(tables.knot_tokens, tables.knot_s, shape.query_tokens)
        + tables.per_request_s * shape.num_requests
        + tables.per_kv_token_plain_s * shape.plain_context_tokens
        + tables.per_kv_token_verify_s * shape.verify_context_tokens
    )
    kv = shape.plain_context_tokens + shape.verify_context_tokens
    if shape.gamma == 0:
        propose_s = _linear(tables.idle_propose, 0.0, shape.num_decoding, 0.0, kv, target_s)
    else:
        planned = shape.num_decoding * shape.gamma
        propose_s = _linear(tables.propose, shape.gamma, shape.num_decoding, planned, kv, target_s)
        propose_s *= tables.speculative_factor
        target_s *= tables.speculative_factor
    reconcile_s = 0.0
    if shape.num_decoding > 0:
        reconcile_s = _linear(
            tables.reconcile, shape.gamma, shape.num_decoding, shape.draft_tokens, 0.0, target_s
        )
    return propose_s, target_s, reconcile_s, tables.overhead_s
