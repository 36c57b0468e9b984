"""Closed-form speed-up of one cycle: instant, for sliders and for pruning.

S = E[Y] · t_1 / t_cycle, both at the same batch and context; speculation pays where S > 1
(algorithms: Leviathan et al. 2023; measured curve in place of a constant verify time).
"""

from dataclasses import dataclass

import numpy as np

from simcore.acceptance.survival import (
    mean_emitted_tokens,
    pooled_acceptance_rate,
    survival_from_conditional,
    survival_from_cycles,
)
from simcore.acceptance.trace import TraceSet, walk
from simcore.cost.price import LawTables, StepTime, decode_step
from simcore.errors import ScenarioError
from simcore.metrics.estimate import CONFIDENCE
from simcore.profile.conversions import conditional_acceptance, match_probability
from simcore.profile.schema import AcceptanceRecord
from simcore.workload.sampling import IntArray

NUM_BOOTSTRAP = 400


@dataclass(frozen=True)
class CycleSurvival:
    """How drafts of one γ survive at cycle starts, with what one α would say instead."""

    gamma: int
    survival: tuple[float, ...]  # s_1 .. s_γ
    lower: tuple[float, ...]  # 95 % interval over requests, by bootstrap; equal where unknown
    upper: tuple[float, ...]
    mean_emitted_tokens: float
    mean_proposed_tokens: float
    acceptance_rate: float  # α: accepted / tested, pooled over cycles
    num_requests: int
    num_draft_tokens: int | None = None  # m: candidates of a tree, `gamma` deep; None: a chain
    mean_interval: tuple[float, float] | None = None  # of E[Y], likewise; None: unknown

    @property
    def max_verified_tokens(self) -> int:
        """Drafts of one request that the target scores in a cycle, at most."""
        return self.gamma if self.num_draft_tokens is None else self.num_draft_tokens


OFF = CycleSurvival(0, (), (), (), 1.0, 0.0, 0.0, 0)  # a cycle without drafts emits one token


@dataclass(frozen=True)
class SpeedupPoint:
    """One γ at one batch and context."""

    gamma: int
    batch_size: int
    mean_emitted_tokens: float
    plain: StepTime
    cycle: StepTime
    speedup: float
    break_even_tokens: float  # E[Y] at which S would be 1
    is_extrapolated: bool
    speedup_interval: tuple[float, float] | None = None  # 95 % over requests; None: unknown

    @property
    def pays(self) -> bool | None:
        """Whether speculation is faster; None where the interval holds 1."""
        low, high = self.speedup_interval or (self.speedup, self.speedup)
        return None if low <= 1.0 <= high and low < high else low > 1.0


def latency_speedup(emitted_tokens: float, plain_step_s: float, cycle_s: float) -> float:
    """S = E[Y] · t_1 / t_cycle; below 1 speculation slows decoding down."""
    if plain_step_s <= 0.0 or cycle_s <= 0.0:
        raise ValueError(f"step times {plain_step_s} and {cycle_s} s; expected both above 0")
    return emitted_tokens * plain_step_s / cycle_s


def trace_survival(
    traces: TraceSet, gamma: int, *, requests: IntArray | None = None, seed: int = 0
) -> CycleSurvival:
    """Survival at the cycle starts of a walk at γ, with a bootstrap interval over requests."""
    cycles = walk(traces, gamma, requests=requests)
    if not len(cycles.accepted):
        raise ScenarioError("no cycle in these traces: every recorded output has one token")
    survival = survival_from_cycles(cycles.accepted, gamma)
    lower, upper, mean_interval = bootstrap_survival(cycles.accepted, cycles.request, gamma, seed)
    return CycleSurvival(
        gamma=gamma,
        survival=tuple(survival.tolist()),
        lower=tuple(lower.tolist()),
        upper=tuple(upper.tolist()),
        mean_emitted_tokens=mean_emitted_tokens(survival),
        mean_proposed_tokens=float(cycles.proposed.mean()),
        acceptance_rate=pooled_acceptance_rate(cycles.accepted, cycles.proposed),
        num_requests=len(np.unique(cycles.request)),
        mean_interval=mean_interval,
    )


def record_survival(records: tuple[AcceptanceRecord, ...], gamma: int) -> CycleSurvival:
    """Survival from published rates by position; several domains are averaged alike.

    The interval is empty (equal to the value): such records do not say how requests differ.
    """
    survivals = np.array(
        [survival_from_conditional(conditional_acceptance(record, gamma)) for record in records]
    )
    survival = survivals.mean(axis=0)
    matched = float(np.mean([match_probability(record, gamma) for record in records]))
    reached = matched + float(survival[:-1].sum())  # drafts tested a cycle
    values = tuple(survival.tolist())
    return CycleSurvival(
        gamma=gamma,
        survival=values,
        lower=values,
        upper=values,
        mean_emitted_tokens=mean_emitted_tokens(survival),
        mean_proposed_tokens=gamma * matched,
        acceptance_rate=float(survival.sum()) / reached if reached else 0.0,
        num_requests=sum(record.num_requests for record in records),
    )


def speedup_point(
    plain: LawTables,
    speculative: LawTables,
    survival: CycleSurvival,
    batch_size: int,
    context_tokens: int,
) -> SpeedupPoint:
    """S of one γ at one batch and context, by the cost law alone: no queueing, no prefill."""
    plain_step = decode_step(plain, batch_size, context_tokens, 0)
    cycle = decode_step(
        speculative, batch_size, context_tokens, survival.gamma, survival.mean_proposed_tokens
    )
    return SpeedupPoint(
        gamma=survival.gamma,
        batch_size=batch_size,
        mean_emitted_tokens=survival.mean_emitted_tokens,
        plain=plain_step,
        cycle=cycle,
        speedup=latency_speedup(survival.mean_emitted_tokens, plain_step.total_s, cycle.total_s),
        break_even_tokens=cycle.total_s / plain_step.total_s,
        is_extrapolated=(
            1 + survival.max_verified_tokens > plain.rate.max_query_tokens
            or batch_size > plain.rate.max_batch_size
            or context_tokens > plain.rate.max_context_tokens
            or batch_size * (1 + survival.max_verified_tokens) > plain.rate.max_step_tokens
        ),
        speedup_interval=_times(survival.mean_interval, plain_step.total_s / cycle.total_s),
    )


def _times(interval: tuple[float, float] | None, factor: float) -> tuple[float, float] | None:
    return None if interval is None else (interval[0] * factor, interval[1] * factor)


def bootstrap_survival(
    accepted: IntArray, request: IntArray, gamma: int, seed: int = 0
) -> tuple[np.ndarray, np.ndarray, tuple[float, float]]:
    """Percentile intervals of (s_1 .. s_γ), low and high, and of E[Y]; whole requests resampled."""
    names, index = np.unique(request, return_inverse=True)
    depths = np.arange(1, gamma + 1)
    reached = np.zeros((len(names), gamma))
    np.add.at(reached, index, accepted[:, None] >= depths)
    cycles = np.bincount(index).astype(float)
    picks = np.random.default_rng(seed).integers(0, len(names), size=(NUM_BOOTSTRAP, len(names)))
    samples = reached[picks].sum(axis=1) / cycles[picks].sum(axis=1)[:, None]
    tail = 100 * (1 - CONFIDENCE) / 2
    ends = [tail, 100 - tail]
    lower, upper = np.percentile(samples, ends, axis=0)
    low, high = np.percentile(1.0 + samples.sum(axis=1), ends)
    return lower, upper, (float(low), float(high))
