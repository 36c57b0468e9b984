"""What recorded cycles say at one γ: tokens, survival, memory, and how requests differ.

Intervals resample whole requests: cycles of one request are no independent trials.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from simcore.acceptance.lists import CycleSample
from simcore.acceptance.survival import (
    conditional_from_survival,
    iid_mean_emitted_tokens,
    iid_survival,
    pooled_acceptance_rate,
    survival_from_conditional,
    survival_from_cycles,
)

NUM_RESAMPLES = 500
INTERVAL = (2.5, 97.5)  # percentiles of the resamples
SLOWEST_SHARE = 0.05

FloatArray = NDArray[np.float64]


class Figures(NamedTuple):
    """Tokens a cycle of some requests, as users and capacity see them."""

    mean_by_request: float  # mean over requests of tokens / cycles
    mean_by_token: float  # all tokens / all cycles
    request_sd: float  # standard deviation over requests of tokens / cycles
    slowest: float  # mean of tokens / cycles over the slowest 5 % of requests


class Lag1Correlation(BaseModel):
    """Correlation of the tokens of consecutive cycles of a request; None where nothing varies."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    pooled: float | None
    within_request: float | None = Field(description="about each request's own mean")


class CycleStatistics(BaseModel):
    """One γ. Lists run over the drafts of a cycle, depth 1 to γ."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    num_cycles: int
    mean_emitted_tokens: float = Field(description="all tokens / all cycles, bonus included")
    mean_by_request: float
    survival: list[float] = Field(description="drafts past the end of the output not counted")
    survival_low: list[float] = Field(description="95 %, resampling requests")
    survival_high: list[float]
    conditional: list[float]
    survival_counted: list[float] = Field(description="P(emitted >= k + 1), the end's cut included")
    conditional_counted: list[float]
    acceptance_rate: float = Field(description="accepted / tested: one α")
    iid_mean_emitted_tokens: float
    lag1_correlation: Lag1Correlation
    request_sd: float | None = Field(description="of tokens a cycle; None for one request")
    iid_request_sd: float | None = Field(description="what independent draws at α would show")
    slowest: float = Field(description="tokens a cycle of the slowest 5 % of requests")


def summarise_cycles(sample: CycleSample, *, seed: int = 1) -> CycleStatistics:
    """Statistics of the cycles of one γ; `seed` is that of the intervals' resamples."""
    conditional = conditional_acceptance(sample)
    low, high = _survival_interval(sample, seed)
    counted = survival_from_cycles(sample.accepted, sample.gamma)
    rate = acceptance_rate(sample)
    found = figures(sample.output_tokens, sample.cycles)
    many = int(np.sum(sample.cycles > 0)) > 1
    return CycleStatistics(
        num_cycles=len(sample.accepted),
        mean_emitted_tokens=float(np.mean(sample.emitted)),
        mean_by_request=found.mean_by_request,
        survival=survival_from_conditional(conditional).tolist(),
        survival_low=low.tolist(),
        survival_high=high.tolist(),
        conditional=conditional.tolist(),
        survival_counted=counted.tolist(),
        conditional_counted=conditional_from_survival(counted).tolist(),
        acceptance_rate=rate,
        iid_mean_emitted_tokens=iid_mean_emitted_tokens(rate, sample.gamma),
        lag1_correlation=lag1_correlation(sample),
        request_sd=found.request_sd if many else None,
        iid_request_sd=_iid_request_sd(sample, rate) if many else None,
        slowest=found.slowest,
    )


def figures(tokens: NDArray[np.int64], cycles: NDArray[np.int64]) -> Figures:
    """The four figures of requests [num_requests]; those without a cycle are left out."""
    ran = cycles > 0
    rate = tokens[ran] / cycles[ran]
    count = max(1, int(np.ceil(SLOWEST_SHARE * len(rate) - 1e-9)))
    return Figures(
        mean_by_request=float(rate.mean()),
        mean_by_token=float(tokens[ran].sum() / cycles[ran].sum()),
        request_sd=float(rate.std(ddof=1)) if len(rate) > 1 else 0.0,
        slowest=float(np.sort(rate)[:count].mean()),
    )


def acceptance_rate(sample: CycleSample) -> float:
    """α = accepted / tested: a cycle tests drafts up to the first rejection; 0 without a test."""
    return pooled_acceptance_rate(sample.accepted, sample.offered)


def conditional_acceptance(sample: CycleSample) -> FloatArray:
    """(a_1 .. a_γ) at cycle starts, of the drafts that lay within the output; 0 untested."""
    reached, passed = reach_counts(sample)
    return _ratio(passed.sum(axis=0), reached.sum(axis=0))


def reach_counts(sample: CycleSample) -> tuple[FloatArray, FloatArray]:
    """Per request and depth [num_requests, γ]: drafts tested there, and accepted there."""
    shape = (sample.num_requests, sample.gamma)
    reached, passed = np.zeros(shape), np.zeros(shape)
    for depth in _depths(sample):
        tested = (sample.testable >= depth) & (sample.accepted >= depth - 1)
        np.add.at(reached[:, depth - 1], sample.request[tested], 1.0)
        np.add.at(passed[:, depth - 1], sample.request[tested & (sample.accepted >= depth)], 1.0)
    return reached, passed


def _depths(sample: CycleSample) -> range:
    return range(1, sample.gamma + 1)


def _survival_interval(sample: CycleSample, seed: int) -> tuple[FloatArray, FloatArray]:
    reached, passed = reach_counts(sample)
    num = sample.num_requests
    weights = np.random.default_rng(seed).multinomial(num, np.full(num, 1 / num), NUM_RESAMPLES)
    survival = np.cumprod(_ratio(weights @ passed, weights @ reached), axis=1)
    low, high = np.percentile(survival, INTERVAL, axis=0)
    return low, high


def _ratio(part: FloatArray, whole: FloatArray) -> FloatArray:
    return np.divide(part, whole, out=np.zeros_like(part), where=whole > 0)


def lag1_correlation(sample: CycleSample) -> Lag1Correlation:
    """Of the tokens of consecutive cycles of a request."""
    emitted = sample.emitted.astype(np.float64)
    cycles = sample.cycles
    total = np.bincount(sample.request, weights=emitted, minlength=len(cycles))
    own_mean = np.divide(total, cycles, out=np.zeros(len(cycles)), where=cycles > 0)
    follows = np.flatnonzero(np.diff(sample.request) == 0)
    centred = emitted - own_mean[sample.request]
    return Lag1Correlation(
        pooled=_correlation(emitted[follows], emitted[follows + 1]),
        within_request=_correlation(centred[follows], centred[follows + 1]),
    )


def _correlation(first: FloatArray, second: FloatArray) -> float | None:
    if len(first) < 2 or first.std() == 0.0 or second.std() == 0.0:  # noqa: PLR2004 - a pair
        return None
    return float(np.corrcoef(first, second)[0, 1])


def _iid_request_sd(sample: CycleSample, rate: float) -> float:
    """Spread of request means if every cycle were an independent draw at α."""
    survival = iid_survival(rate, sample.gamma)
    mean = float(survival.sum())
    square = float((survival * (2 * np.arange(1, sample.gamma + 1) - 1)).sum())
    cycles = sample.cycles[sample.cycles > 0]
    return float(np.sqrt(max(square - mean * mean, 0.0) * np.mean(1 / cycles)))
