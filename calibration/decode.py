"""Real decoding of one request: prefill, then draft-verify cycles until EOS or the limit."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from calibration.contracts.contract import VerificationContract
from calibration.contracts.cut import Stopping, cut
from calibration.contracts.named import chain_contract
from calibration.models import LanguageModel
from calibration.proposers.protocol import Proposer
from calibration.step import Batch, prefill, run_step
from simcore.profile.schema import Sampling


@dataclass(frozen=True)
class Cycle:
    """One cycle, counted after the cut; `start` is the output index of its first token."""

    start: int
    proposed: int
    accepted: int
    emitted: int
    phase_s: dict[str, float]


@dataclass(frozen=True)
class Decoded:
    """The emitted tokens, EOS included where it came, and the cycles behind the first token."""

    token_ids: list[int]
    cycles: list[Cycle]
    contract: str  # its label, which says where it is not exact


def decode(
    target: LanguageModel,
    proposer: Proposer | None,
    prompt_ids: Sequence[int],
    *,
    num_speculative_tokens: int,
    sampling: Sampling,
    max_tokens: int,
    generator: torch.Generator,
    contract: VerificationContract | None = None,
) -> Decoded:
    """Decode at most `max_tokens` tokens after `prompt_ids`; γ = 0 or no proposer: plainly.

    The first token comes from the prefill, the rest from cycles. EOS and the limit cut a cycle.
    Contract: by default greedy equality at temperature 0 and token-wise rejection above.
    Raises ValueError for an empty prompt, γ < 0 or `max_tokens` < 1.
    """
    if not prompt_ids or num_speculative_tokens < 0 or max_tokens < 1:
        raise ValueError(
            f"{len(prompt_ids)} prompt tokens, γ = {num_speculative_tokens}, max_tokens = "
            f"{max_tokens}; expected at least 1, 0 and 1"
        )
    contract = chain_contract(sampling) if contract is None else contract
    if proposer is not None:
        proposer.keep(0)
    batch = Batch(torch.tensor([list(prompt_ids)]), target.new_cache(), [generator])
    stopping = Stopping(max_tokens, target.eos_token_ids)
    emitted = [int(prefill(target, batch, sampling))]
    cycles: list[Cycle] = []
    ending = stopping.ending(emitted)
    while ending is None:
        outcome = run_step(target, proposer, batch, num_speculative_tokens, sampling, contract)
        tokens, ending = cut(outcome.emitted[0].tolist(), stopping, emitted)
        cycles.append(
            Cycle(
                start=len(emitted),
                proposed=outcome.proposed[0],
                accepted=min(outcome.accepted, len(tokens)),
                emitted=len(tokens),
                phase_s=outcome.phase_s,
            )
        )
        emitted += tokens
    return Decoded(emitted, cycles, contract.label)
