"""Has acceptance moved? Two recordings of the same proposer, compared draft by draft.

Significance comes from shuffling whole requests between the two recordings: cycles of one request
are no independent trials. P-values of the γ positions are adjusted together (Holm 1979).
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from simcore.acceptance.lists import RUNAWAY_TOKENS, AcceptanceLists, CycleSample
from simcore.acceptance.statistics import reach_counts
from simcore.errors import AcceptanceError

NUM_SHUFFLES = 2_000
SIGNIFICANCE = 0.05
INTERVAL = (2.5, 97.5)

FloatArray = NDArray[np.float64]


class Change(BaseModel):
    """One quantity in recording A and in recording B."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    a: float
    b: float
    change: float = Field(description="b - a")
    p_value: float = Field(description="of no change, by shuffling requests; adjusted by Holm")
    significant: bool


class GammaDrift(BaseModel):
    """One draft length."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    conditional: list[Change] = Field(description="by depth, 1 to γ")
    mean_emitted_tokens: Change
    change_low: float = Field(description="of tokens a cycle, 95 %, resampling requests")
    change_high: float
    speedup_a: float = Field(description="under the stated cost of a draft")
    speedup_b: float


class Drift(BaseModel):
    """Two recordings compared; γ 0 is off."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    num_requests_a: int
    num_requests_b: int
    num_runaways_a: int = Field(description="outputs at the limit; left out of everything below")
    num_runaways_b: int
    draft_cost: float = Field(description="of one draft, in plain decode steps, verifying included")
    gammas: dict[int, GammaDrift]
    best_gamma_a: int
    best_gamma_b: int
    loss: float = Field(description="share of B's best speed-up lost by keeping A's best γ")


def compare_recordings(
    first: AcceptanceLists,
    second: AcceptanceLists,
    gammas: Sequence[int],
    *,
    draft_cost: float,
    start: int = 0,
    runaway_tokens: int = RUNAWAY_TOKENS,
    seed: int = 1,
) -> Drift:
    """Recording A (`first`) against recording B (`second`) at each γ, runaways left out.

    A few runaways hold so many cycles that nothing else could be told apart beside them.

    `draft_cost`: cost of drafting and verifying one token more, in plain decode steps, so that a
    cycle costs 1 + γ · draft_cost. Raises AcceptanceError for no γ, or a cost that is
    negative or not finite.
    """
    if not gammas or not 0.0 <= draft_cost < np.inf:
        raise AcceptanceError(
            f"γ {list(gammas)}, draft cost {draft_cost:g}; expected at least one γ and a cost of "
            "0 or more plain decode steps"
        )
    random = np.random.default_rng(seed)
    runaways = [each.runaway(runaway_tokens) for each in (first, second)]
    if any(each.all() for each in runaways):
        raise AcceptanceError(
            f"every output of one recording has {runaway_tokens} tokens or more; raise the length "
            "at which an output counts as a runaway"
        )
    a, b = first.chosen(~runaways[0]), second.chosen(~runaways[1])
    found = {
        gamma: _drift_at(
            a.cycles(gamma, start=start), b.cycles(gamma, start=start), draft_cost, random
        )
        for gamma in sorted(set(gammas))
    }
    speedup_a = {0: 1.0} | {gamma: each.speedup_a for gamma, each in found.items()}
    speedup_b = {0: 1.0} | {gamma: each.speedup_b for gamma, each in found.items()}
    best_a = max(speedup_a, key=speedup_a.__getitem__)
    best_b = max(speedup_b, key=speedup_b.__getitem__)
    return Drift(
        num_requests_a=first.num_requests,
        num_requests_b=second.num_requests,
        num_runaways_a=int(runaways[0].sum()),
        num_runaways_b=int(runaways[1].sum()),
        draft_cost=draft_cost,
        gammas=found,
        best_gamma_a=best_a,
        best_gamma_b=best_b,
        loss=1.0 - speedup_b[best_a] / speedup_b[best_b],
    )


def _drift_at(
    first: CycleSample, second: CycleSample, draft_cost: float, random: np.random.Generator
) -> GammaDrift:
    part = np.concatenate([_parts(first), _parts(second)])  # [num_requests, γ + 1]
    whole = np.concatenate([_wholes(first), _wholes(second)])
    in_first = np.arange(len(part)) < first.num_requests
    change = _difference(in_first[None].astype(np.float64), part, whole)[0]
    order = random.permuted(np.tile(in_first, (NUM_SHUFFLES, 1)), axis=1)
    shuffled = _difference(order.astype(np.float64), part, whole)
    beyond = (np.abs(shuffled) >= np.abs(change) - 1e-12).sum(axis=0)
    p_value = (beyond + 1) / (NUM_SHUFFLES + 1)
    p_value[:-1] = _holm(p_value[:-1])
    a = _ratio(part[in_first].sum(axis=0), whole[in_first].sum(axis=0))
    b = _ratio(part[~in_first].sum(axis=0), whole[~in_first].sum(axis=0))
    changes = [
        Change(
            a=float(a[i]),
            b=float(b[i]),
            change=float(b[i] - a[i]),
            p_value=float(p_value[i]),
            significant=bool(p_value[i] < SIGNIFICANCE),
        )
        for i in range(len(a))
    ]
    low, high = _change_interval(part[:, -1], whole[:, -1], in_first, random)
    cycle = 1.0 + first.gamma * draft_cost
    return GammaDrift(
        conditional=changes[:-1],
        mean_emitted_tokens=changes[-1],
        change_low=low,
        change_high=high,
        speedup_a=float(a[-1]) / cycle,
        speedup_b=float(b[-1]) / cycle,
    )


def _parts(sample: CycleSample) -> FloatArray:
    """[num_requests, γ + 1]: drafts accepted at each depth, and tokens emitted."""
    tokens = np.bincount(sample.request, weights=sample.emitted, minlength=sample.num_requests)
    return np.column_stack([reach_counts(sample)[1], tokens])


def _wholes(sample: CycleSample) -> FloatArray:
    """[num_requests, γ + 1]: drafts tested at each depth, and cycles."""
    return np.column_stack([reach_counts(sample)[0], sample.cycles])


def _difference(in_first: FloatArray, part: FloatArray, whole: FloatArray) -> FloatArray:
    """Ratio of the second group less that of the first [num_groupings, γ + 1]."""
    first = _ratio(in_first @ part, in_first @ whole)
    return _ratio((1 - in_first) @ part, (1 - in_first) @ whole) - first


def _ratio(part: FloatArray, whole: FloatArray) -> FloatArray:
    return np.divide(part, whole, out=np.zeros_like(part), where=whole > 0)


def _holm(p_value: FloatArray) -> FloatArray:
    """Adjusted so that the chance of any false alarm among them stays below the level."""
    order = np.argsort(p_value)
    scaled = p_value[order] * np.arange(len(p_value), 0, -1)
    adjusted = np.empty_like(p_value)
    adjusted[order] = np.minimum(np.maximum.accumulate(scaled), 1.0)
    return adjusted


def _change_interval(
    part: FloatArray, whole: FloatArray, in_first: NDArray[np.bool_], random: np.random.Generator
) -> tuple[float, float]:
    """95 % interval of the change of a ratio, requests drawn again within each recording."""
    drawn = []
    for group in (in_first, ~in_first):
        size = int(group.sum())
        weight = random.multinomial(size, np.full(size, 1 / size), NUM_SHUFFLES)
        drawn.append(_ratio(weight @ part[group], (weight @ whole[group]).astype(np.float64)))
    low, high = np.percentile(drawn[1] - drawn[0], INTERVAL)
    return float(low), float(high)
