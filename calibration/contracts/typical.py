"""Medusa's typical acceptance: relaxed, the text is not distributed as the target's.

Cai et al. 2024 (arXiv 2401.10774, section 2.3.1): a draft is accepted where
p(x) > min(ε, δ·exp(-H(p))), H in nats; the longest accepted path counts. The released code takes
the next token greedily from the target, which is its "first token is always accepted".
"""

from dataclasses import dataclass

import torch

from calibration.contracts.candidates import Candidates, Verdict
from calibration.contracts.contract import VerificationContract
from calibration.contracts.longest_path import last_node, longest_path
from calibration.contracts.luck import Luck
from calibration.errors import CalibrationError


@dataclass(frozen=True)
class TypicalAcceptance(VerificationContract):
    """Accepts what is not too unlikely for how uncertain the target is; takes no chance."""

    epsilon: float = 0.09
    delta: float = 0.3
    name: str = "typical_acceptance"

    def __post_init__(self) -> None:
        if not (0.0 < self.epsilon <= 1.0 and self.delta > 0.0):
            raise CalibrationError(
                f"typical acceptance with ε = {self.epsilon}, δ = {self.delta}; expected ε in "
                "(0, 1] and δ above 0 (recommended: δ = √ε)"
            )

    def verify_one(self, p: torch.Tensor, candidates: Candidates, luck: Luck) -> Verdict:
        """The longest path of typical tokens, then the target's argmax."""
        del luck
        entropy_nats = torch.special.entr(p).sum(dim=-1)  # [m + 1]
        bounds = (self.delta * torch.exp(-entropy_nats)).clamp_max(self.epsilon).tolist()
        p_tokens = candidates.at_nodes(p)
        typical = [
            p_token > bounds[parent + 1]
            for p_token, parent in zip(p_tokens, candidates.parents, strict=True)
        ]
        path = longest_path(candidates, typical)
        end = last_node(path)
        next_token = int(p[end + 1].argmax())
        return Verdict(path, next_token, end not in candidates.parents, is_exact=False)
