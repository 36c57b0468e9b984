"""What is left of the target after rejections, and of the draft after tries."""

from collections.abc import Sequence

import torch


def acceptance(p_token: float, q_token: float) -> float:
    """min(1, p/q) of a drawn token; 0 where the target never emits it."""
    if p_token <= 0.0:
        return 0.0
    return 1.0 if p_token >= q_token else p_token / q_token


def residual(p: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
    """norm(max(0, p - q)) [V]; p where nothing is left.

    Nothing is left only where p and q are one up to rounding, or where p is below q everywhere
    because their sums differ by rounding: such a rejection has probability zero. p never holds mass
    on a token that the target cannot emit, so neither does the result.
    """
    left = (p - q).clamp_min(0.0)
    mass = left.sum()
    return left / mass if float(mass) > 0.0 else p


def without(weights: torch.Tensor, tokens: Sequence[int]) -> torch.Tensor:
    """`weights` [V], normalised, with these tokens' mass removed; all zero where none is left."""
    left = weights.clone()
    left[list(tokens)] = 0.0
    mass = left.sum()
    return left / mass if float(mass) > 0.0 else left


def untried(q: torch.Tensor, tried: Sequence[int]) -> torch.Tensor:
    """The draft's distribution without the tried tokens; uniform over the rest once it is empty."""
    left = without(q, tried)
    return left if float(left.sum()) > 0.0 else without(torch.ones_like(q), tried)
