"""The order of acceptance rates matters: the same mean rate gives different tokens a cycle.

A draft is tested only where all before it were accepted, so an early rate counts in every later
term of E[Y] = 1 + Σ s_k and a late one in few. One mean α cannot tell the orders apart.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from simcore.acceptance.survival import (
    iid_mean_emitted_tokens,
    mean_emitted_tokens,
    survival_from_conditional,
)


@dataclass(frozen=True)
class RateOrder:
    """Conditional acceptance in one order, and what it gives."""

    rates: tuple[float, ...]  # (a_1 .. a_γ)
    survival: tuple[float, ...]  # (s_1 .. s_γ)
    mean_emitted_tokens: float  # E[Y], the bonus included


@dataclass(frozen=True)
class RateOrders:
    """The same rates in three orders, and as if each were their mean."""

    given: RateOrder
    falling: RateOrder  # the most that these rates can give
    rising: RateOrder  # the least
    mean_rate: float
    iid_tokens: float  # E[Y] of the mean rate at every depth


def rate_orders(rates: ArrayLike) -> RateOrders:
    """`rates` (a_1 .. a_γ), each between 0 and 1, at least one; else ValueError."""
    given = np.asarray(rates, dtype=np.float64)
    if given.ndim != 1 or not len(given):
        raise ValueError(f"rates {given.tolist()}; expected a list of at least one")
    mean = float(given.mean())
    return RateOrders(
        given=_ordered(given),
        falling=_ordered(np.sort(given)[::-1]),
        rising=_ordered(np.sort(given)),
        mean_rate=mean,
        iid_tokens=iid_mean_emitted_tokens(mean, len(given)),
    )


def _ordered(rates: ArrayLike) -> RateOrder:
    survival = survival_from_conditional(rates)
    return RateOrder(
        rates=tuple(np.asarray(rates, dtype=np.float64).tolist()),
        survival=tuple(survival.tolist()),
        mean_emitted_tokens=mean_emitted_tokens(survival),
    )
