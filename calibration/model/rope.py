"""Rotary position embedding (Su et al. 2021, 2104.09864), halves rotated as in Llama's weights."""

import math

import torch

from calibration.model.shape import ModelShape, RopeScaling


def inverse_frequencies(shape: ModelShape) -> torch.Tensor:
    """Radians a position [D/2], in float32 whatever the weights' type, as models were trained."""
    exponents = torch.arange(0, shape.head_dim, 2, dtype=torch.float32) / shape.head_dim
    frequencies = 1.0 / shape.rope_theta**exponents
    scaling = shape.rope_scaling
    return frequencies if scaling is None else _stretched(frequencies, scaling)


def _stretched(frequencies: torch.Tensor, scaling: RopeScaling) -> torch.Tensor:
    """Long waves `factor` times longer, short ones as they are, a ramp between."""
    turns = scaling.original_max_tokens * frequencies / (2 * math.pi)  # in the original context
    span = scaling.high_freq_factor - scaling.low_freq_factor
    ramp = ((turns - scaling.low_freq_factor) / span).clamp(0.0, 1.0)  # 1: short waves
    return (1.0 - ramp) * frequencies / scaling.factor + ramp * frequencies


class Rope:
    """Cosines and sines of positions; `frequencies` [D/2] lie on the weights' device."""

    def __init__(self, frequencies: torch.Tensor, dtype: torch.dtype) -> None:
        self._frequencies = frequencies
        self._dtype = dtype

    def __call__(self, positions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """cos, sin [T, 1, D] of `positions` [T], one for every head."""
        angles = positions.float()[:, None] * self._frequencies  # [T, D/2]
        angles = torch.cat((angles, angles), dim=-1)[:, None]  # [T, 1, D]
        return angles.cos().to(self._dtype), angles.sin().to(self._dtype)


def rotate(heads: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """`heads` [T, H, D] turned by their positions' cos, sin [T, 1, D]."""
    first, second = heads.chunk(2, dim=-1)
    return heads * cos + torch.cat((-second, first), dim=-1) * sin
