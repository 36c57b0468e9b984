"""The request's transforms: logits in, the distribution that is really sampled out.

Temperature, then top-k, then top-p (nucleus), as engines do; temperature 0 is a point mass on the
argmax. Both the target's p and a draft's q go through the same transforms, otherwise the exact
verification rule would be exact for another distribution (algorithms: Leviathan et al. 2023, 2.2).
"""

import torch

from simcore.profile.schema import Sampling


def token_probabilities(logits: torch.Tensor, sampling: Sampling) -> torch.Tensor:
    """Probabilities [..., V] of `logits` [..., V]; float64 stays float64, others become float32."""
    scores = logits if logits.dtype == torch.float64 else logits.float()
    if sampling.temperature == 0.0:
        top = scores.argmax(dim=-1, keepdim=True)  # [..., 1]
        return torch.zeros_like(scores).scatter_(-1, top, 1.0)
    scores = scores / sampling.temperature
    if 0 < sampling.top_k < scores.shape[-1]:
        smallest_kept = scores.topk(sampling.top_k, dim=-1).values[..., -1:]  # [..., 1]
        scores = scores.masked_fill(scores < smallest_kept, -torch.inf)
    probabilities = torch.softmax(scores, dim=-1)
    return _nucleus(probabilities, sampling.top_p) if sampling.top_p < 1.0 else probabilities


def _nucleus(probabilities: torch.Tensor, top_p: float) -> torch.Tensor:
    """Keep the smallest set of most likely tokens whose mass reaches `top_p`, renormalised."""
    ordered, order = probabilities.sort(dim=-1, descending=True)  # [..., V]
    mass_before = ordered.cumsum(dim=-1) - ordered
    kept = ordered.masked_fill(mass_before >= top_p, 0.0)
    kept = torch.zeros_like(probabilities).scatter_(-1, order, kept)
    return kept / kept.sum(dim=-1, keepdim=True)


def draw(probabilities: torch.Tensor, generator: torch.Generator) -> int:
    """One token of `probabilities` [V], which need not sum to 1; never one of zero mass."""
    return int(torch.multinomial(probabilities, 1, generator=generator))
