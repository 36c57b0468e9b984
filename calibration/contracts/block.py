"""Block verification of a chain: exact, and never shorter in expectation than token by token.

Sun et al. 2025 (arXiv 2403.10444, algorithm 2). ρ_0 = 1, ρ_i = min(1, ρ_{i-1} p(x_i)/q(x_i)); with
s_i = Σ_x max(0, ρ_i p_{i+1}(x) - q_{i+1}(x)) the first i drafts are kept with probability
h_i = s_i/(s_i + 1 - ρ_i), all γ with h_γ = ρ_γ; the longest success counts, and the next token
comes from norm(max(0, ρ_i p_{i+1} - q_{i+1})), or from p_{γ+1}.
"""

from dataclasses import dataclass

import torch

from calibration.contracts.candidates import Candidates, Verdict
from calibration.contracts.contract import VerificationContract
from calibration.contracts.luck import Luck
from calibration.contracts.residual import acceptance, without
from simcore.profile.schema import Contract


@dataclass(frozen=True)
class BlockVerification(VerificationContract):
    """Exact sampling of a chain, judged as a whole."""

    name: str = "block"
    verifies_chains_only = True
    promise = Contract.EXACT_SAMPLING

    def verify_one(self, p: torch.Tensor, candidates: Candidates, luck: Luck) -> Verdict:
        """Keep the longest prefix whose coin falls; see the module."""
        self.check_topology(candidates)
        num_drafts = candidates.num_nodes
        rho = _running_ratios(p, candidates)  # [γ + 1]
        surplus = _surpluses(p, candidates, rho)  # [γ]
        kept = num_drafts
        while kept > 0 and not luck.accepts(_kept_probability(kept, rho, surplus)):
            kept -= 1
        path = tuple(range(kept))
        if kept == num_drafts:
            return Verdict(path, luck.draw(p[kept]), is_bonus=True, is_exact=True)
        weights = _correction(p, candidates, rho, kept)
        return Verdict(path, luck.draw(weights), is_bonus=False, is_exact=True)


def _running_ratios(p: torch.Tensor, candidates: Candidates) -> list[float]:
    q = candidates.q
    p_tokens = candidates.at_nodes(p)
    q_tokens = [1.0] * len(p_tokens) if q is None else candidates.at_nodes(q)
    rho = [1.0]
    for p_token, q_token in zip(p_tokens, q_tokens, strict=True):
        rho.append(acceptance(rho[-1] * p_token, q_token))
    return rho


def _surpluses(p: torch.Tensor, candidates: Candidates, rho: list[float]) -> list[float]:
    """s_0 .. s_{γ-1}; a point mass takes its token out of p and nothing else."""
    num_drafts = candidates.num_nodes
    if candidates.q is None:
        p_tokens = candidates.at_nodes(p)
        return [ratio * (1.0 - p_token) for ratio, p_token in zip(rho, p_tokens, strict=False)]
    ratios = torch.tensor(rho[:num_drafts], dtype=p.dtype, device=p.device)[:, None]  # [γ, 1]
    left = (ratios * p[:num_drafts] - candidates.q[:num_drafts]).clamp_min(0.0)  # [γ, V]
    found: list[float] = left.sum(dim=-1).tolist()
    return found


def _kept_probability(kept: int, rho: list[float], surplus: list[float]) -> float:
    """h; 0 where nothing would be left to draw from: then a longer prefix is kept for sure."""
    if kept == len(surplus):
        return rho[kept]
    refused = max(1.0 - rho[kept], 0.0)
    return surplus[kept] / (surplus[kept] + refused) if surplus[kept] > 0.0 else 0.0


def _correction(
    p: torch.Tensor, candidates: Candidates, rho: list[float], kept: int
) -> torch.Tensor:
    if candidates.q is None:
        left = without(p[kept], [candidates.token_ids[kept]])
    else:
        left = (rho[kept] * p[kept] - candidates.q[kept]).clamp_min(0.0)
    return left if float(left.sum()) > 0.0 else p[kept]  # such a stop has probability zero


BLOCK = BlockVerification()
