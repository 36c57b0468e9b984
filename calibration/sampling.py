"""The sampling settings: scores in, the distribution that is really sampled out.

Temperature, then top-k, top-p (nucleus) and min-p, as engines do; temperature 0 is a point mass on
the argmax. Both the target's p and a draft's q are those that are really drawn from, otherwise the
exact verification rules would be exact for another distribution (Leviathan et al. 2023, 2.2).
"""

import torch

from calibration.errors import CalibrationError
from simcore.profile.schema import Sampling

NOTHING_TO_EMIT = (
    "no token has any probability here: the constraint or the logit bias rules out all; expected "
    "at least one allowed token, for instance the end token"
)


def token_probabilities(logits: torch.Tensor, sampling: Sampling) -> torch.Tensor:
    """Probabilities [..., V] of `logits` [..., V]; float64 stays float64, others become float32.

    Penalty, bias and constraint, which `sampling` may state, are for the caller to apply before.
    """
    scores = logits if logits.dtype == torch.float64 else logits.float()
    if sampling.temperature == 0.0:
        top = scores.argmax(dim=-1, keepdim=True)  # [..., 1]
        return torch.zeros_like(scores).scatter_(-1, top, 1.0)
    scores = scores / sampling.temperature
    if 0 < sampling.top_k < scores.shape[-1]:
        smallest_kept = scores.topk(sampling.top_k, dim=-1).values[..., -1:]  # [..., 1]
        scores = scores.masked_fill(scores < smallest_kept, -torch.inf)
    probabilities = torch.softmax(scores, dim=-1)
    if sampling.top_p < 1.0:
        probabilities = _nucleus(probabilities, sampling.top_p)
    return _likely(probabilities, sampling.min_p) if sampling.min_p > 0.0 else probabilities


def _nucleus(probabilities: torch.Tensor, top_p: float) -> torch.Tensor:
    """Keep the smallest set of most likely tokens whose mass reaches `top_p`, renormalised."""
    ordered, order = probabilities.sort(dim=-1, descending=True)  # [..., V]
    mass_before = ordered.cumsum(dim=-1) - ordered
    kept = ordered.masked_fill(mass_before >= top_p, 0.0)
    kept = torch.zeros_like(probabilities).scatter_(-1, order, kept)
    return kept / kept.sum(dim=-1, keepdim=True)


def _likely(probabilities: torch.Tensor, min_p: float) -> torch.Tensor:
    """Keep tokens of at least `min_p` times the largest probability, renormalised."""
    bound = min_p * probabilities.amax(dim=-1, keepdim=True)  # [..., 1]
    kept = probabilities.masked_fill(probabilities < bound, 0.0)
    return kept / kept.sum(dim=-1, keepdim=True)


def draw(probabilities: torch.Tensor, generator: torch.Generator) -> int:
    """One token of `probabilities` [V], which need not sum to 1; never one of zero mass.

    Raises CalibrationError where no token has any.
    """
    if not float(probabilities.sum()) > 0.0:
        raise CalibrationError(NOTHING_TO_EMIT)
    return int(torch.multinomial(probabilities, 1, generator=generator))
