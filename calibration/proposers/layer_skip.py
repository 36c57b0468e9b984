"""The target drafts for itself with its first layers and its own head (2404.16710).

The first layers' KV is the target's: committed tokens need no reading, and what drafting writes is
written again, with all layers, by the verification. Nothing of its own is kept.
"""

from collections.abc import Sequence

from calibration.errors import CalibrationError
from calibration.model.decoder import Decoder
from calibration.paged.cache import KVCache
from calibration.proposers.growth import Grower
from calibration.proposers.tree_protocol import Asked, Draft, PromptChunk, Reconciled
from simcore.acceptance.topology.sibling_rules import SiblingRule
from simcore.profile.schema import Sampling


class LayerSkipProposer:
    """Drafts with the first `num_layers` layers; a model trained for early exit agrees more often.

    (Elhoushi et al. 2024; untrained models exit badly, which a measured acceptance then says.)
    """

    name = "layer_skip"

    def __init__(
        self,
        target: Decoder,
        cache: KVCache,
        num_layers: int,
        *,
        siblings: SiblingRule = SiblingRule.SEQUOIA,
    ) -> None:
        if not 1 <= num_layers < target.shape.num_layers:
            raise CalibrationError(
                f"layer skip with {num_layers} of {target.shape.num_layers} layers; expected at "
                "least 1 and fewer than all"
            )
        self._grower = Grower(target, cache.target, num_layers=num_layers, siblings=siblings)

    def read(self, chunks: Sequence[PromptChunk]) -> None:
        """Nothing: the target's own prefill writes the KV of its first layers."""

    def propose(self, asked: Sequence[Asked], sampling: Sampling) -> list[Draft]:
        """Grow one tree a request in the slots that the verification will fill."""
        if not asked:
            return []
        held = [one.context_tokens for one in asked]
        return [tree.draft for tree in self._grower.grow(asked, held, sampling)]

    def reconcile(self, cycles: Sequence[Reconciled]) -> None:
        """Nothing: the target moves its KV itself."""

    def learn(self, output_ids: Sequence[int]) -> None:
        """Nothing: a request draws on no other's text."""

    def forget(self, request: int) -> None:
        """Nothing is remembered."""
