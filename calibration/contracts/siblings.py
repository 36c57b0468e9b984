"""How the children of a node are chosen from the draft's distribution, by rule."""

import torch

from calibration.contracts.luck import Luck
from calibration.contracts.residual import untried
from simcore.acceptance.topology.sibling_rules import SiblingRule


def choose_children(rule: SiblingRule, q: torch.Tensor, num_children: int, luck: Luck) -> list[int]:
    """Tokens of a node's children in order of trial, from q [V].

    `specinfer` draws them independently, so that they may repeat; `sequoia` without replacement,
    uniformly over the rest once q is empty; `top_k` takes the likeliest, ties in order of index.
    Each rule's verification (RecursiveRejection) is exact for its own choice. At most V without
    repetition.
    """
    if rule is SiblingRule.TOP_K:
        return _likeliest(q, num_children)
    if rule is SiblingRule.SPECINFER:
        return [luck.draw(q) for _ in range(num_children)]
    tried: list[int] = []
    for _ in range(min(num_children, len(q))):
        tried.append(luck.draw(untried(q, tried)))
    return tried


def _likeliest(q: torch.Tensor, num_tokens: int) -> list[int]:
    smallest_kept = q.topk(min(num_tokens, len(q))).values[-1]
    kept = (q >= smallest_kept).nonzero()[:, 0]  # ascending; few, unless there are ties
    order = q[kept].sort(descending=True, stable=True).indices[:num_tokens]
    found: list[int] = kept[order].tolist()
    return found
