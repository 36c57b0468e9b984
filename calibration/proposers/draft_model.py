"""A smaller model of the target's family drafts token by token."""

import torch
from transformers import DynamicCache

from calibration.models import LanguageModel, crop_cache
from calibration.proposers.protocol import Proposal
from calibration.sampling import draw, token_probabilities
from simcore.profile.schema import Sampling


class DraftModelProposer:
    """Serial draft passes over its own KV cache, which holds the committed tokens only.

    It draws under the sampling settings alone: penalties, biases and constraints of a request are
    the target's, which costs acceptance where they bite and never exactness.

    After a fully accepted cycle the cache lacks one token (the last draft was never read); the
    next proposal then reads two: whatever of the text the cache lacks is read first.
    """

    name = "draft_model"

    def __init__(self, draft: LanguageModel) -> None:
        self.draft = draft
        self.cache: DynamicCache = draft.new_cache()

    @property
    def own_model(self) -> LanguageModel:
        """The draft."""
        return self.draft

    def proposes_point_mass(self, sampling: Sampling) -> bool:
        """Under temperature 0 the draft proposes its argmax; else it samples its own q."""
        return sampling.temperature == 0.0

    @torch.inference_mode()
    def propose(
        self,
        token_ids: torch.Tensor,
        num_speculative_tokens: int,
        sampling: Sampling,
        generators: list[torch.Generator],
    ) -> Proposal:
        """γ drafts for `token_ids` [B, S], each drawn from the draft's own distribution."""
        fresh = token_ids[:, self.cache.get_seq_length() :]  # [B, lag + 1]
        drafts, distributions = [], []
        for _ in range(num_speculative_tokens):
            logits = self.draft.forward(fresh, self.cache, keep_tokens=1)[:, -1]  # [B, V]
            if self.proposes_point_mass(sampling):
                fresh = logits.argmax(dim=-1, keepdim=True)  # [B, 1]
            else:
                q = token_probabilities(logits, sampling)  # [B, V]
                fresh = torch.tensor(
                    [[draw(row, rng)] for row, rng in zip(q, generators, strict=True)]
                )
                distributions.append(q)
            drafts.append(fresh)
        lengths = (num_speculative_tokens,) * len(token_ids)
        q_all = torch.stack(distributions, dim=1) if distributions else None  # [B, M, V]
        return Proposal(torch.cat(drafts, dim=1).cpu(), lengths, q_all)

    def keep(self, num_tokens: int) -> None:
        """Crop the cache to the first `num_tokens` tokens, of which it may hold fewer."""
        if num_tokens == 0:  # other requests follow, perhaps another number of them
            self.cache = self.draft.new_cache()
        else:
            crop_cache(self.cache, num_tokens)
