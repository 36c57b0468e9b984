"""Survival arithmetic of one draft-then-verify cycle. No clock, no I/O.

Survival s_k = P(drafts 1..k all accepted), s_0 = 1. Conditional acceptance a_k = s_k / s_{k-1}.
Emitted tokens of a cycle Y = accepted drafts + 1 (the corrected or bonus token), so
E[Y] = 1 + Σ s_k (algorithms: Leviathan et al. 2023, eq. 1, for a constant a_k).
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]


def survival_from_conditional(conditional: ArrayLike) -> FloatArray:
    """(s_1 .. s_γ) from (a_1 .. a_γ), each between 0 and 1."""
    rates = _rates(conditional)
    return np.asarray(np.cumprod(rates), dtype=np.float64)


def conditional_from_survival(survival: ArrayLike) -> FloatArray:
    """(a_1 .. a_γ) from non-increasing (s_1 .. s_γ); a_k is 0 where nothing reached k."""
    values = _rates(survival)
    if np.any(np.diff(values) > 0.0):
        raise ValueError(f"survival {values.tolist()} increases; expected non-increasing")
    before = np.concatenate([[1.0], values[:-1]])
    rates = np.zeros_like(values)
    np.divide(values, before, out=rates, where=before > 0.0)
    return rates


def mean_emitted_tokens(survival: ArrayLike) -> float:
    """E[Y] = 1 + Σ s_k of an uncut cycle: the bonus token included. γ = 0 gives 1."""
    return 1.0 + float(np.sum(_rates(survival)))


def iid_survival(rate: float, num_speculative_tokens: int) -> FloatArray:
    """(α, α², .. α^γ): what one constant acceptance rate would predict."""
    return survival_from_conditional(np.full(num_speculative_tokens, rate))


def iid_mean_emitted_tokens(rate: float, num_speculative_tokens: int) -> float:
    """(1 − α^{γ+1}) / (1 − α), or γ + 1 at α = 1 (Leviathan et al. 2023, eq. 1)."""
    return mean_emitted_tokens(iid_survival(rate, num_speculative_tokens))


def pooled_acceptance_rate(accepted: ArrayLike, proposed: ArrayLike) -> float:
    """α as one number: accepted / tested, each cycle testing drafts until the first rejection.

    `accepted`, `proposed`: drafts of each cycle [num_cycles]. A cycle that proposed nothing
    tests nothing; returns 0 where nothing was tested.
    """
    kept = np.asarray(accepted, dtype=np.int64)
    tested = np.minimum(kept + 1, np.asarray(proposed, dtype=np.int64))
    total = int(tested.sum())
    return float(kept.sum() / total) if total else 0.0


def survival_from_cycles(accepted: Sequence[int] | NDArray[np.int64], gamma: int) -> FloatArray:
    """(s_1 .. s_γ) from accepted drafts of cycles [num_cycles], every cycle counted."""
    kept = np.asarray(accepted, dtype=np.int64)
    if kept.size == 0:
        raise ValueError("no cycle to count; expected at least one")
    return np.array([float(np.mean(kept >= depth)) for depth in range(1, gamma + 1)])


def _rates(values: ArrayLike) -> FloatArray:
    array = np.asarray(values, dtype=np.float64)
    if not bool(np.all((array >= 0.0) & (array <= 1.0))):
        raise ValueError(f"rates {array.tolist()}; expected each between 0 and 1")
    return array
