"""How the children of a node are chosen from a draft's scores."""

import torch

from simcore.acceptance.topology.sibling_rules import SiblingRule
from simcore.profile.schema import Sampling


def is_drawn(rule: SiblingRule, sampling: Sampling) -> bool:
    """Whether children are random; temperature 0 or rule top_k takes the likeliest."""
    return sampling.temperature > 0.0 and rule is not SiblingRule.TOP_K


def likeliest(logits: torch.Tensor, count: int) -> torch.Tensor:
    """[R, count] tokens of `logits` [R, V], best first; the lower token wins a tie for the first.

    The first is the argmax as verification takes it, so that a draft equal to its target agrees.
    """
    best = logits.topk(count, dim=-1).indices
    top = logits.argmax(dim=-1, keepdim=True)  # [R, 1]
    if torch.equal(best[:, :1], top):
        return best
    others = torch.where(best == top, best[:, :1], best)
    return torch.cat((top, others[:, 1:]), dim=-1)


def drawn(q: torch.Tensor, count: int, rule: SiblingRule, generator: torch.Generator) -> list[int]:
    """`count` tokens drawn from `q` [V]: independent (SpecInfer), or none twice (Sequoia).

    Without replacement, once q is exhausted the untried tokens are equally likely (Chen et al.
    2024, 2402.12374, algorithm 2).
    """
    if rule is SiblingRule.SPECINFER:
        found: list[int] = torch.multinomial(
            q, count, replacement=True, generator=generator
        ).tolist()
        return found
    tokens: list[int] = []
    weights = q.clone()
    for _ in range(count):
        if float(weights.sum()) <= 0.0:
            weights = torch.ones_like(q)
            weights[tokens] = 0.0
        token = int(torch.multinomial(weights, 1, generator=generator))
        tokens.append(token)
        weights[token] = 0.0
    return tokens
