"""Going down a tree from the root while a child of the node is accepted."""

from collections.abc import Callable, Sequence

import torch

from calibration.contracts.candidates import Candidates, Verdict
from calibration.contracts.luck import Luck
from calibration.contracts.residual import without
from simcore.acceptance.tree import ROOT

# (node, its children in order of trial) -> the accepted child, and what is left of p without one
Attempt = Callable[[int, Sequence[int]], tuple[int | None, torch.Tensor]]
# (p of the token, p of the siblings tried before it) -> whether it is accepted
PointRule = Callable[[float, float], bool]


def descend(
    p: torch.Tensor, candidates: Candidates, luck: Luck, attempt: Attempt, *, is_exact: bool
) -> Verdict:
    """The path of accepted children; then a draw of what is left, or of p below a leaf."""
    children = candidates.children()
    node = ROOT
    path: list[int] = []
    while children[node + 1]:
        accepted, left = attempt(node, children[node + 1])
        if accepted is None:
            return Verdict(tuple(path), luck.draw(left), is_bonus=False, is_exact=is_exact)
        path.append(accepted)
        node = accepted
    return Verdict(tuple(path), luck.draw(p[node + 1]), is_bonus=True, is_exact=is_exact)


def point_attempt(p: torch.Tensor, candidates: Candidates, passes: PointRule) -> Attempt:
    """Children as point masses: once tried, a token's mass is taken out of p."""
    p_tokens = candidates.at_nodes(p)

    def attempt(node: int, children: Sequence[int]) -> tuple[int | None, torch.Tensor]:
        tried: list[int] = []
        mass = 0.0
        for child in children:
            token = candidates.token_ids[child]
            p_token = 0.0 if token in tried else p_tokens[child]
            if p_token > 0.0 and passes(p_token, mass):
                return child, p[node + 1]
            mass += p_token
            tried.append(token)
        left = without(p[node + 1], tried)
        # Where all of p was tried, the last refusal had no probability but for rounding.
        return None, left if float(left.sum()) > 0.0 else p[node + 1]

    return attempt
