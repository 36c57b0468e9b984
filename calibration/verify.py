"""Exact verification of a chain: the greedy rule and modified rejection sampling.

Leviathan, Kalman, Matias 2023 (arXiv 2211.17192): accept x_i with probability min(1, p_i/q_i); the
first rejection emits a sample of norm(max(0, p_i - q_i)); full acceptance emits a bonus token of
p_{γ+1}. Under temperature 0 the rule becomes: accept while the target's argmax agrees.
"""

from dataclasses import dataclass

import torch

from calibration.proposers.protocol import Proposal
from calibration.sampling import draw, token_probabilities
from simcore.profile.schema import Sampling


@dataclass(frozen=True)
class Verdict:
    """What one request may emit: its accepted drafts, then one token of the target."""

    accepted: int
    next_token: int


def verify(
    logits: torch.Tensor,
    proposal: Proposal,
    sampling: Sampling,
    generators: list[torch.Generator],
) -> list[Verdict]:
    """One verdict a request from the target's `logits` [B, M+1, V] over root and M drafts."""
    if sampling.temperature == 0.0:
        return verify_greedy(logits, proposal)
    p = token_probabilities(logits, sampling)  # [B, M+1, V]
    return [
        verify_sampled(
            p[row],
            proposal.token_ids[row, :length],
            None if proposal.probabilities is None else proposal.probabilities[row, :length],
            generators[row],
        )
        for row, length in enumerate(proposal.lengths)
    ]


def verify_greedy(logits: torch.Tensor, proposal: Proposal) -> list[Verdict]:
    """Longest prefix of each proposal that equals the target's argmax of `logits` [B, M+1, V]."""
    choices = logits.argmax(dim=-1).tolist()  # [B, M+1]
    drafts = proposal.token_ids.tolist()  # [B, M]
    verdicts = []
    for row, length in enumerate(proposal.lengths):
        accepted = 0
        while accepted < length and drafts[row][accepted] == choices[row][accepted]:
            accepted += 1
        verdicts.append(Verdict(accepted, choices[row][accepted]))
    return verdicts


def verify_sampled(
    p: torch.Tensor,
    drafts: torch.Tensor,
    q: torch.Tensor | None,
    generator: torch.Generator,
) -> Verdict:
    """Modified rejection sampling of `drafts` [M] under p [> M, V]; q [M, V], None: point mass."""
    num_drafts = len(drafts)
    index = drafts.to(p.device).unsqueeze(-1)  # [M, 1]
    p_drafts = p[:num_drafts].gather(-1, index).squeeze(-1).tolist()  # [M]
    q_drafts = [1.0] * num_drafts if q is None else q.gather(-1, index).squeeze(-1).tolist()
    uniforms = torch.rand(
        num_drafts, generator=generator, device=generator.device, dtype=torch.float64
    ).tolist()
    for i in range(num_drafts):
        if uniforms[i] * q_drafts[i] >= p_drafts[i]:  # strict: p = 0 is never accepted
            return Verdict(i, draw(_residual(p[i], drafts[i], q, i), generator))
    return Verdict(num_drafts, draw(p[num_drafts], generator))


def _residual(
    p: torch.Tensor, rejected: torch.Tensor, q: torch.Tensor | None, depth: int
) -> torch.Tensor:
    """max(0, p - q) [V], not normalised; against a point mass p without the rejected token."""
    if q is None:
        residual = p.clone()
        residual[int(rejected)] = 0.0
    else:
        residual = (p - q[depth]).clamp_min(0.0)
    # p = q up to rounding leaves nothing: the rejection itself then has probability zero
    return residual if float(residual.sum()) > 0.0 else p
