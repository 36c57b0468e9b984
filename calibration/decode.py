"""Real decoding of one request: prefill, then draft-verify cycles until EOS or the limit."""

from collections.abc import Sequence, Set
from dataclasses import dataclass

import torch

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


def decode(
    target: LanguageModel,
    proposer: Proposer | None,
    prompt_ids: Sequence[int],
    *,
    num_speculative_tokens: int,
    sampling: Sampling,
    max_tokens: int,
    generator: torch.Generator,
) -> Decoded:
    """Decode at most `max_tokens` tokens after `prompt_ids`; γ = 0 or no proposer: plainly.

    The first token comes from the prefill, the rest from cycles. EOS and the limit cut a cycle.
    Raises ValueError for an empty prompt, γ < 0 or `max_tokens` < 1.
    """
    if not prompt_ids or num_speculative_tokens < 0 or max_tokens < 1:
        raise ValueError(
            f"{len(prompt_ids)} prompt tokens, γ = {num_speculative_tokens}, max_tokens = "
            f"{max_tokens}; expected at least 1, 0 and 1"
        )
    if proposer is not None:
        proposer.keep(0)
    batch = Batch(torch.tensor([list(prompt_ids)]), target.new_cache(), [generator])
    emitted = [int(prefill(target, batch, sampling))]
    cycles: list[Cycle] = []
    while emitted[-1] not in target.eos_token_ids and len(emitted) < max_tokens:
        outcome = run_step(target, proposer, batch, num_speculative_tokens, sampling)
        tokens = cut(outcome.emitted[0].tolist(), max_tokens - len(emitted), target.eos_token_ids)
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
    return Decoded(emitted, cycles)


def cut(token_ids: list[int], room_tokens: int, eos_token_ids: Set[int]) -> list[int]:
    """`token_ids` up to the limit and up to EOS, which is kept."""
    for index, token in enumerate(token_ids[:room_tokens]):
        if token in eos_token_ids:
            return token_ids[: index + 1]
    return token_ids[:room_tokens]
