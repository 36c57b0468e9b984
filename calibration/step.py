"""One engine step over a batch of requests of equal length: propose, verify, reconcile.

Requests of one batch advance together: the shortest accepted length is committed for all, which
cuts some requests' cycles but keeps every emitted token exact. At batch 1 nothing is cut.
"""

from dataclasses import dataclass

import torch
from transformers import DynamicCache

from calibration.contracts.candidates import Verdict
from calibration.contracts.contract import VerificationContract
from calibration.contracts.judge import judge
from calibration.contracts.named import chain_contract
from calibration.contracts.transforms import Transforms
from calibration.models import LanguageModel, crop_cache
from calibration.proposers.protocol import Proposal, Proposer, empty_proposal
from calibration.timing import Stopwatch
from simcore.profile.schema import Sampling


@dataclass
class Batch:
    """Requests in flight. Between steps the target's cache holds all tokens but the root."""

    token_ids: torch.Tensor  # [B, S] prompt and emitted tokens, on the host; the last is the root
    cache: DynamicCache
    generators: list[torch.Generator]


@dataclass(frozen=True)
class StepOutcome:
    """What one step did."""

    proposed: tuple[int, ...]
    accepted: int  # of every request: the batch's shortest
    emitted: torch.Tensor  # [B, accepted + 1]
    phase_s: dict[str, float]


def prefill(target: LanguageModel, batch: Batch, sampling: Sampling) -> torch.Tensor:
    """Read the prompts of a fresh `batch` and return the first tokens [B, 1], appended to it."""
    logits = target.forward(batch.token_ids, batch.cache, keep_tokens=1)  # [B, 1, V]
    nothing = empty_proposal(len(batch.token_ids))
    verdicts = _verdicts(chain_contract(sampling), logits, nothing, sampling, batch)
    first = torch.tensor([[verdict.next_token] for verdict in verdicts])
    batch.token_ids = torch.cat([batch.token_ids, first], dim=1)
    return first


def run_step(
    target: LanguageModel,
    proposer: Proposer | None,
    batch: Batch,
    num_speculative_tokens: int,
    sampling: Sampling,
    contract: VerificationContract,
) -> StepOutcome:
    """Advance every request of `batch` by one cycle; without proposer or γ by one plain token."""
    watch = Stopwatch(target.device)
    if proposer is None or num_speculative_tokens == 0:
        proposal = empty_proposal(len(batch.token_ids))
    else:
        proposal = proposer.propose(
            batch.token_ids, num_speculative_tokens, sampling, batch.generators
        )
    watch.lap("propose")
    query_ids = torch.cat([batch.token_ids[:, -1:], proposal.token_ids], dim=1)  # [B, M+1]
    logits = target.forward(query_ids, batch.cache)  # [B, M+1, V]
    watch.lap("target")
    verdicts = _verdicts(contract, logits, proposal, sampling, batch)
    accepted = min(verdict.accepted for verdict in verdicts)
    emitted = _emitted(proposal, verdicts, accepted)
    committed_tokens = batch.token_ids.shape[1] + accepted
    crop_cache(batch.cache, committed_tokens)
    if proposer is not None:
        proposer.keep(committed_tokens)
    watch.lap("reconcile")
    batch.token_ids = torch.cat([batch.token_ids, emitted], dim=1)
    return StepOutcome(proposal.lengths, accepted, emitted, watch.stop())


def _verdicts(
    contract: VerificationContract,
    logits: torch.Tensor,
    proposal: Proposal,
    sampling: Sampling,
    batch: Batch,
) -> list[Verdict]:
    transforms = [Transforms(sampling)] * len(batch.generators)
    return judge(contract, logits, proposal.candidates(), transforms, batch.generators)


def _emitted(proposal: Proposal, verdicts: list[Verdict], accepted: int) -> torch.Tensor:
    """Tokens [B, accepted + 1]: the common accepted length, then each request's next token."""
    following = [
        int(proposal.token_ids[row, accepted])
        if verdict.accepted > accepted
        else verdict.next_token
        for row, verdict in enumerate(verdicts)
    ]
    return torch.cat([proposal.token_ids[:, :accepted], torch.tensor(following)[:, None]], dim=1)
