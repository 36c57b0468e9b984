"""Price one engine step by a cost law, inside compiled code and outside."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simcore.by_pointer import by_pointer
from simcore.compiled import compiled, compiled_entry
from simcore.cost.law import CostLaw, LinearLaw, ProposerRun
from simcore.cost.regime import (
    EAGER,
    RegimeTables,
    graph_of,
    pass_in_regime,
    regime_of,
    regime_tables,
)
from simcore.cost.shape import StepShape
from simcore.errors import ScenarioError
from simcore.records import Record, new_record

RATE_DTYPE = np.dtype(
    [
        ("per_request_s", "f8"),
        ("per_scored_token_s", "f8"),
        ("per_kv_token_plain_s", "f8"),
        ("per_kv_token_verify_s", "f8"),
        ("per_attention_pair_s", "f8"),
        ("overhead_s", "f8"),
        ("comm_base_s", "f8"),
        ("comm_per_token_s", "f8"),
        ("host_overlap", "f8"),
        ("sharing", "f8"),  # share of the shorter of proposal and target pass that shows
        ("per_prefill_token_s", "f8"),  # the draft's prefill
        ("switch_on_base_s", "f8"),
        ("switch_on_per_token_s", "f8"),
        ("pads_attention", "f8"),  # 1: attention as of the widest and longest decoding request
        ("speculative_factor", "f8"),  # scales steps that draft, for cost uncertainty
        ("max_batch_size", "i8"),
        ("max_context_tokens", "i8"),
        ("max_step_tokens", "i8"),
        ("max_query_tokens", "i8"),  # of one request
    ]
)


@by_pointer
class LawTables(NamedTuple):
    """The cost law of one target and one proposer as plain numbers."""

    knot_tokens: NDArray[np.float64]
    knot_s: NDArray[np.float64]
    propose: NDArray[np.float64]  # [num_schemes, 7] in the order of LinearLaw's fields
    idle_propose: NDArray[np.float64]  # [7] paid by a step that drafts nothing
    reconcile: NDArray[np.float64]  # [7]
    rate: Record  # RATE_DTYPE
    regimes: RegimeTables


@dataclass(frozen=True)
class StepTime:
    """Seconds of one step by phase; those that the target pass hides are in none of them."""

    propose_s: float
    target_s: float
    reconcile_s: float
    overhead_s: float

    @property
    def total_s(self) -> float:
        """The whole step."""
        return self.propose_s + self.target_s + self.reconcile_s + self.overhead_s


def law_tables(
    law: CostLaw,
    proposer: str | None,
    *,
    speculative_factor: float = 1.0,
    others: tuple[str, ...] = (),
) -> LawTables:
    """The numbers of `law` for steps that draft with `proposer` (None: no proposer loaded).

    `others`: the proposer of every further draft scheme, in order; what surrounds a proposal
    (ProposerRun) is that of `proposer`, and every one of them prefills.
    """
    target = law.target
    schemes = () if proposer is None else (proposer, *others)
    proposing = [law.propose[name] for name in schemes] or [LinearLaw()]
    prefill_s = sum(
        law.proposer_runs[name].per_prefill_token_s
        for name in dict.fromkeys(schemes)
        if name in law.proposer_runs
    )
    run = law.proposer_runs.get(proposer or "", ProposerRun())
    rate = new_record(
        RATE_DTYPE,
        per_request_s=target.per_request_s,
        per_scored_token_s=target.per_scored_token_s,
        per_kv_token_plain_s=target.per_kv_token_plain_s,
        per_kv_token_verify_s=target.per_kv_token_verify_s,
        per_attention_pair_s=target.per_attention_pair_s,
        overhead_s=law.overhead_s,
        comm_base_s=law.comm.base_s,
        comm_per_token_s=law.comm.per_token_s,
        host_overlap=law.host_overlap if run.host_overlap is None else run.host_overlap,
        sharing=1.0 if run.placement == "serial" else run.sharing,
        per_prefill_token_s=prefill_s,
        switch_on_base_s=run.switch_on.base_s,
        switch_on_per_token_s=run.switch_on.per_token_s,
        pads_attention=float(target.pads_attention),
        speculative_factor=speculative_factor,
        max_batch_size=law.domain.max_batch_size,
        max_context_tokens=law.domain.max_context_tokens,
        max_step_tokens=law.domain.max_step_tokens,
        max_query_tokens=law.domain.max_query_tokens_per_request,
    )
    return LawTables(
        knot_tokens=np.array(target.knot_tokens, dtype=np.float64),
        knot_s=np.array(target.knot_s, dtype=np.float64),
        propose=np.array([_coefficients(each) for each in proposing]),
        idle_propose=_coefficients(law.idle_propose.get(proposer or "", LinearLaw())),
        reconcile=_coefficients(law.reconcile),
        rate=rate,
        regimes=regime_tables(law.capture),
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
    Raises ScenarioError where the step would run eager and no eager step was measured.
    """
    drafts = gamma if draft_tokens is None else draft_tokens
    kv = float(batch_size * context_tokens)
    shape = StepShape(
        num_requests=float(batch_size),
        num_decoding=float(batch_size),
        gamma=float(gamma),
        proposed_tokens=float(batch_size * drafts),
        verified_tokens=float(batch_size * drafts),
        query_tokens=float(batch_size * (1 + drafts)),
        plain_context_tokens=kv if gamma == 0 else 0.0,
        verify_context_tokens=kv if gamma > 0 else 0.0,
        prefill_tokens=0.0,
        lagging_tokens=0.0,
        attention_pairs=(1 + drafts) * (kv + batch_size * (1 + drafts) / 2) if gamma > 0 else 0.0,
    )
    if not tables.regimes.is_eager_measured and regime_of(tables.regimes, shape) == EAGER:
        raise ScenarioError(
            f"{batch_size} requests with {drafts} drafts lie past the last captured size, "
            f"{tables.regimes.sizes[-1]:g}; the profile measured no step outside graphs: lower "
            "the batch or the draft length, or measure eager steps"
        )
    return StepTime(*price(tables, shape))


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
def _target(tables: LawTables, shape: StepShape) -> float:
    """Seconds of the target pass: f(padded tokens) + requests + KV + communication, by regime."""
    tokens, regime = graph_of(tables.regimes, shape)
    prefilling = shape.num_requests - shape.num_decoding  # each has its last token scored
    scored = shape.query_tokens - shape.prefill_tokens + prefilling
    gpu_s = (
        _piecewise(tables.knot_tokens, tables.knot_s, tokens)
        + tables.rate.per_request_s * shape.num_requests
        + tables.rate.per_scored_token_s * scored
        + tables.rate.per_kv_token_plain_s * shape.plain_context_tokens
        + tables.rate.per_kv_token_verify_s * shape.verify_context_tokens
        + tables.rate.per_attention_pair_s * shape.attention_pairs
        + (tables.rate.comm_base_s + tables.rate.comm_per_token_s * tokens)
    )
    return float(pass_in_regime(tables.regimes, regime, gpu_s))


@compiled
def _propose(tables: LawTables, shape: StepShape, target_s: float) -> float:
    """Seconds of proposing, before any of it hides: drafts or the "off" tax, catch-up, prefill."""
    kv = shape.plain_context_tokens + shape.verify_context_tokens
    if shape.gamma == 0:
        propose_s = _linear(tables.idle_propose, 0.0, shape.num_decoding, 0.0, kv, target_s)
    else:
        law = tables.propose[int(shape.scheme)]
        drafts = shape.proposed_tokens  # a tree has more than γ, plain requests of the batch none
        propose_s = _linear(law, shape.gamma, shape.num_decoding, drafts, kv, target_s)
        if shape.lagging_tokens > 0.0:
            propose_s += tables.rate.switch_on_base_s
            propose_s += tables.rate.switch_on_per_token_s * shape.lagging_tokens
    return float(propose_s + tables.rate.per_prefill_token_s * shape.prefill_tokens)


@compiled
def price_step(tables: LawTables, shape: StepShape) -> tuple[float, float, float, float]:
    """(propose, target, reconcile, overhead) seconds of one step (DESIGN section 4).

    A step that drafts nothing pays only what a loaded proposer costs idle (the "off" tax). The
    phases sum to the step: time hidden under the target pass is taken off the phase it hides.
    """
    target_s = _target(tables, shape)
    propose_s = _propose(tables, shape, target_s)
    if shape.gamma > 0:
        propose_s *= tables.rate.speculative_factor
        target_s *= tables.rate.speculative_factor
    reconcile_s = 0.0
    if shape.num_decoding > 0:
        reconcile_s = _linear(
            tables.reconcile, shape.gamma, shape.num_decoding, shape.verified_tokens, 0.0, target_s
        )
    overhead_s = tables.rate.overhead_s
    host_s = reconcile_s + overhead_s
    if tables.rate.host_overlap > 0.0 and host_s > 0.0:
        shown = 1.0 - min(tables.rate.host_overlap * host_s, target_s) / host_s
        reconcile_s *= shown
        overhead_s *= shown
    if tables.rate.sharing < 1.0:
        shorter_s = min(propose_s, target_s)
        propose_s = propose_s - shorter_s + tables.rate.sharing * shorter_s
    return propose_s, target_s, reconcile_s, overhead_s


@compiled_entry
def price(tables: LawTables, shape: StepShape) -> tuple[float, float, float, float]:
    """`price_step` for callers in Python."""
    return price_step(tables, shape)


@compiled_entry
def price_steps(
    tables: LawTables, shapes: NDArray[np.float64], seconds: NDArray[np.float64]
) -> None:
    """Whole step time of many shapes: rows [num_steps, fields of StepShape] into `seconds`."""
    for row in range(len(shapes)):
        values = shapes[row]
        shape = StepShape(
            values[0],
            values[1],
            values[2],
            values[3],
            values[4],
            values[5],
            values[6],
            values[7],
            values[8],
            values[9],
            values[10],
            values[11],
        )
        propose_s, target_s, reconcile_s, overhead_s = price_step(tables, shape)
        seconds[row] = propose_s + target_s + reconcile_s + overhead_s
