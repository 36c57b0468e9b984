"""Which of several candidates at one node is accepted, by verification rule.

The target's distribution there is p, the draft's q. All three rules leave the emitted token exactly
distributed as p, so a recorded token v stands for any of them, and what a rule would have done is
drawn from its posterior given v. Tries go in order; p and q below are those that are left.

- `top_k` (released EAGLE code): the children are the k likeliest under q; child x is accepted with
  probability p(x), else p loses x. So v is accepted exactly if it is among them, as child rank(v).
- `specinfer` (Miao et al. 2023): k independent draws from q; accepted with min(1, p/q), else p
  becomes norm(max(p − q, 0)) and q stays.
- `sequoia` (Chen et al. 2024, algorithm 2): the same without replacement: q loses the rejected
  token and, once nothing is left of it, is uniform over the tokens not tried.

The residual after a rejection does not depend on which token was rejected. Hence, given that v
comes out in the end, a try accepts v with min(1, q(v)/p(v)) under what is left, and a rejected
token is distributed as norm(max(q − p, 0)), whatever v is.
"""

from enum import StrEnum

import numpy as np
from numpy.typing import ArrayLike, NDArray

from simcore.acceptance.topology.node_value import FloatArray
from simcore.acceptance.trace import RANK_ABSENT
from simcore.errors import TreeError

MAX_ENUMERATED = 200_000  # orders of rejected tokens
ROUNDING = 1e-15


class SiblingRule(StrEnum):
    """How the children of a node are chosen and verified."""

    TOP_K = "top_k"
    SPECINFER = "specinfer"
    SEQUOIA = "sequoia"


def child_probabilities(
    rule: SiblingRule, target: ArrayLike, draft: ArrayLike, num_children: int
) -> FloatArray:
    """[k] P(the i-th child is accepted), exactly, for p [V] and q [V].

    Sequoia's is a sum over rejected tokens: for small vocabularies only (TreeError beyond).
    """
    p = _distribution(target)
    found = np.zeros(num_children)
    for token in np.flatnonzero(p):
        found += p[token] * child_posterior(rule, p, draft, int(token), num_children)
    return found


def child_posterior(
    rule: SiblingRule, target: ArrayLike, draft: ArrayLike, token: int, num_children: int
) -> FloatArray:
    """[k] P(the i-th child is the accepted one | `token` is emitted), exactly."""
    p, q = _distribution(target), _distribution(draft)
    if p.shape != q.shape or p[token] <= 0.0:
        raise ValueError(
            f"target {p.shape}, draft {q.shape}, P(token) {p[token]}; expected one vocabulary and "
            "a token that the target can emit"
        )
    if rule is SiblingRule.TOP_K:
        rank = _rank(q, token)
        return np.array([float(rank == child) for child in range(num_children)])
    if rule is SiblingRule.SEQUOIA and len(p) ** (num_children - 1) > MAX_ENUMERATED:
        raise TreeError(
            f"{num_children} children drawn without replacement from {len(p)} tokens are too many "
            "orders to sum over; draw them instead (draw_child)"
        )
    found = np.zeros(num_children)
    _add_tries(found, 0, 1.0, rule, p, q, token, ())
    return found


def draw_child(
    rule: SiblingRule,
    target: ArrayLike,
    draft: ArrayLike,
    token: int,
    max_children: int,
    rng: np.random.Generator,
) -> int:
    """The child that accepts `token`, drawn given that it is emitted; RANK_ABSENT where none does.

    One draw serves every number of children up to `max_children`: more tries change none before.
    """
    p, q = _distribution(target), _distribution(draft)
    if rule is SiblingRule.TOP_K:
        rank = _rank(q, token)
        return rank if rank < max_children else RANK_ABSENT
    tried: tuple[int, ...] = ()
    for child in range(max_children):
        surplus = np.maximum(q - p, 0.0)
        # Where p and q are one up to rounding, a rejection has no probability.
        if rng.random() * p[token] < q[token] or surplus.sum() <= ROUNDING:
            return child
        if rule is SiblingRule.SEQUOIA:
            tried = (*tried, int(rng.choice(len(q), p=surplus / surplus.sum())))
        p, q = _residual(p, q), _without(q, tried)
    return RANK_ABSENT


def specinfer_posterior(ratio: ArrayLike, rejected: ArrayLike) -> FloatArray:
    """[k] of SpecInfer's i-th child from q(v)/p(v) and P(the first i tries all fail), i = 0 .. k−1.

    `rejected` starts with 1 and then 1 − Σ min(p, q) and so on: numbers of the position, not of v.
    Child i accepts with min(ratio · rejected_i, what earlier children left of 1), so in all
    min(1, ratio · Σ rejected). A recording that holds the ratio alone decides only k = 1.
    """
    offered = np.asarray(ratio, dtype=np.float64) * np.asarray(rejected, dtype=np.float64)
    return np.diff(np.minimum(np.cumsum(offered), 1.0), prepend=0.0)


def _add_tries(
    found: FloatArray,
    child: int,
    weight: float,
    rule: SiblingRule,
    p: FloatArray,
    q: FloatArray,
    token: int,
    tried: tuple[int, ...],
) -> None:
    """Add the probabilities of this try and later ones, `weight` that of having come here."""
    accepts = min(1.0, q[token] / p[token])
    found[child] += weight * accepts
    left = weight * (1.0 - accepts)
    if child + 1 == len(found) or left <= ROUNDING:
        return
    residual = _residual(p, q)
    if rule is SiblingRule.SPECINFER:
        _add_tries(found, child + 1, left, rule, residual, q, token, ())
        return
    surplus = np.maximum(q - p, 0.0)
    surplus /= surplus.sum()
    for rejected in np.flatnonzero(surplus):
        now = (*tried, int(rejected))
        share = left * float(surplus[rejected])
        _add_tries(found, child + 1, share, rule, residual, _without(q, now), token, now)


def _residual(p: FloatArray, q: FloatArray) -> FloatArray:
    left: FloatArray = np.maximum(p - q, 0.0)
    return np.asarray(left / left.sum())


def _without(q: FloatArray, tried: tuple[int, ...]) -> FloatArray:
    """The draft's distribution without the tried tokens; uniform over the rest once it is empty."""
    left = q.copy()
    left[list(tried)] = 0.0
    if left.sum() <= 0.0:
        left = np.ones_like(q)
        left[list(tried)] = 0.0
    return np.asarray(left / left.sum())


def _rank(q: FloatArray, token: int) -> int:
    """Place of `token` by probability, ties in order of index."""
    return int((q > q[token]).sum() + (q[:token] == q[token]).sum())


def _distribution(values: ArrayLike) -> NDArray[np.float64]:
    found = np.asarray(values, dtype=np.float64)
    total = found.sum()
    if found.ndim != 1 or found.size == 0 or not found.min() >= 0.0 or not np.isfinite(total):
        raise ValueError(f"weights of shape {found.shape}; expected [V], each at least 0")
    if total <= 0.0:
        raise ValueError("a distribution without mass")
    return np.asarray(found / total)
