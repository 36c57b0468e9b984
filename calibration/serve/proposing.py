"""A proposer before it has its KV: what it states about itself and how it is made."""

from collections.abc import Callable
from dataclasses import dataclass

from calibration.compatibility import Fills, ProposerFacts, proposer_facts
from calibration.model.target import LoadedModel
from calibration.paged.cache import KVCache
from calibration.proposers.host import HostProposer
from calibration.proposers.layer_skip import LayerSkipProposer
from calibration.proposers.lookahead import LookaheadProposer, LookaheadShape
from calibration.proposers.paged_draft_model import PagedDraftModel
from calibration.proposers.protocol import Proposer, Topology
from calibration.proposers.tree_protocol import TreeProposer
from simcore.acceptance.topology.dynamic_tree import DynamicShape
from simcore.acceptance.topology.sibling_rules import SiblingRule
from simcore.profile.schema import Sampling


@dataclass(frozen=True)
class Proposing:
    """One way to propose."""

    facts: Callable[[Sampling], ProposerFacts]
    make: Callable[[KVCache], TreeProposer]
    draft: LoadedModel | None = None  # a model with KV of its own
    window_tokens: int = 0  # nodes beyond the candidates that ride in the target's pass
    grows_in_target: bool = False  # drafting writes to the target's slots

    def extra_slots(self, topology: Topology | None, *, shares_blocks: bool) -> int:
        """Slots beyond root and candidates that a cycle writes to.

        A dynamic tree reads `topk` nodes a level before the best of all are chosen.
        """
        in_target = self.grows_in_target or (self.draft is not None and shares_blocks)
        if isinstance(topology, DynamicShape) and in_target:
            read = topology.topk * (topology.depth - 1)
            return max(self.window_tokens, read - topology.num_nodes)
        return self.window_tokens


def by_lookup(make: Callable[[], Proposer]) -> Proposing:
    """N-gram or suffix lookup. A run gets its own: what one learnt is no other's to offer."""
    return Proposing(
        lambda sampling: proposer_facts(make(), sampling), lambda cache: HostProposer(make())
    )


def by_draft_model(draft: LoadedModel, siblings: SiblingRule = SiblingRule.SEQUOIA) -> Proposing:
    """A smaller model of the target's family."""
    return Proposing(
        lambda sampling: grown_facts("draft_model", siblings, sampling),
        lambda cache: PagedDraftModel(draft.decoder, cache, siblings=siblings),
        draft,
    )


def by_layer_skip(
    target: LoadedModel, num_layers: int, siblings: SiblingRule = SiblingRule.SEQUOIA
) -> Proposing:
    """The target's first layers."""
    return Proposing(
        lambda sampling: grown_facts("layer_skip", siblings, sampling),
        lambda cache: LayerSkipProposer(target.decoder, cache, num_layers, siblings=siblings),
        grows_in_target=True,
    )


def by_lookahead(shape: LookaheadShape, *, seed: int = 0) -> Proposing:
    """N-grams of a Jacobi window."""
    facts = ProposerFacts("lookahead", SiblingRule.TOP_K, Fills.STATIC_TREES)
    return Proposing(
        lambda sampling: facts,
        lambda cache: LookaheadProposer(shape, seed=seed),
        window_tokens=shape.num_window_tokens,
    )


def grown_facts(name: str, siblings: SiblingRule, sampling: Sampling) -> ProposerFacts:
    """Those of a model that grows its trees; at temperature 0 it takes the likeliest."""
    chosen = SiblingRule.TOP_K if sampling.temperature == 0.0 else siblings
    return ProposerFacts(name, chosen, Fills.DYNAMIC_TREES)
