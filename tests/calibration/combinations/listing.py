"""Every combination: what the compatibility check says, and which test holds its text."""

from dataclasses import dataclass
from functools import cache

from calibration.compatibility import Asked, ModelFacts, incompatibilities
from calibration.contracts.contract import VerificationContract
from calibration.contracts.cut import Stopping
from calibration.contracts.named import contract_named
from calibration.contracts.transforms import Transforms
from calibration.model.target import LoadedModel, decoder_of_shape
from calibration.proposers.lookahead import LookaheadShape
from calibration.proposers.ngram import NgramProposer
from calibration.proposers.protocol import Topology
from calibration.proposers.suffix import SuffixProposer
from calibration.serve.proposing import (
    Proposing,
    by_draft_model,
    by_layer_skip,
    by_lookahead,
    by_lookup,
)
from simcore.acceptance.topology.dynamic_tree import DynamicShape
from simcore.acceptance.topology.sibling_rules import SiblingRule
from simcore.acceptance.tree import DraftTree, chain
from simcore.profile.schema import Sampling
from tests.calibration.paging import TINY

PROPOSERS = ("ngram", "suffix", "lookahead", "layer_skip", "draft_model")
DRAWING = ("layer_skip", "draft_model")  # above temperature 0 they draw their static candidates
DEPTH = 4
LOOKAHEAD = LookaheadShape(window=5, ngram=DEPTH + 1, guesses=3)
TOPOLOGIES: dict[str, Topology] = {
    "chain": chain(DEPTH),
    "static tree": DraftTree((-1, -1, -1, 0, 0, 1, 3, 6)),
    "dynamic tree": DynamicShape(topk=3, depth=DEPTH, num_nodes=8),
}
CONTRACTS = (
    "greedy",
    "token_wise",
    "block",
    "specinfer",
    "sequoia",
    "top_k",
    "typical",
    "threshold",
)
# Rules that are one rule on a chain, or where every candidate is a point mass.
ON_CHAINS = ("token_wise", "specinfer", "sequoia")
ON_POINT_MASSES = ("token_wise", "top_k", "specinfer", "sequoia")


@dataclass(frozen=True)
class Combination:
    """One of each."""

    proposer: str
    topology: str
    contract: str

    @property
    def name(self) -> str:
        """For people and for files."""
        return "-".join((self.proposer, self.topology, self.contract)).replace(" ", "_")

    @property
    def rule(self) -> VerificationContract:
        """The contract itself."""
        return contract_named(self.contract)

    @property
    def sampling(self) -> Sampling:
        """Temperature 0 under greedy equality, else 1."""
        return Sampling(temperature=0.0 if self.contract == "greedy" else 1.0)

    @property
    def siblings(self) -> SiblingRule:
        """How a model's children are chosen: as the contract needs them."""
        if self.contract == SiblingRule.TOP_K.value:
            return SiblingRule.TOP_K
        return self.rule.sibling_rule or SiblingRule.SEQUOIA

    @property
    def has_point_masses(self) -> bool:
        """Whether no candidate is drawn."""
        draws = self.proposer in DRAWING and self.contract not in ("greedy", "top_k")
        return not draws or self.topology == "dynamic tree"

    def proposing(
        self,
        target: LoadedModel,
        draft: LoadedModel,
        skip_layers: int,
        lookahead: LookaheadShape = LOOKAHEAD,
    ) -> Proposing:
        """A proposer that has seen nothing yet."""
        match self.proposer:
            case "ngram":
                return by_lookup(NgramProposer)
            case "suffix":
                return by_lookup(SuffixProposer)
            case "lookahead":
                return by_lookahead(lookahead)
            case "layer_skip":
                return by_layer_skip(target, skip_layers, self.siblings)
        return by_draft_model(draft, self.siblings)

    def reasons(self) -> tuple[str, ...]:
        """Why it is refused; empty where it is not."""
        target = _any_model()
        own = self.proposing(target, target, 1).facts(self.sampling)
        asked = Asked(
            self.rule, TOPOLOGIES[self.topology], Transforms(self.sampling), Stopping(max_tokens=1)
        )
        return incompatibilities(ModelFacts(target.identity, {}, {}, frozenset()), None, own, asked)

    @property
    def measured_as(self) -> "Combination":
        """The combination whose rule, on these candidates, is the very same."""
        for alike, holds in (
            (ON_POINT_MASSES, self.has_point_masses),
            (ON_CHAINS, self.topology == "chain"),
        ):
            if holds and self.contract in alike:
                others = (Combination(self.proposer, self.topology, other) for other in alike)
                return next(one for one in others if one.is_allowed and _alike(one, self))
        return self

    @property
    def is_allowed(self) -> bool:
        """Whether the compatibility check lets it pass."""
        return not self.reasons()

    @property
    def tests(self) -> tuple[str, ...]:
        """Node ids of the tests that hold what its text is worth."""
        return exactness_tests(self)


def _alike(one: Combination, other: Combination) -> bool:
    """Whether both verify the same candidates: drawn by luck, or point masses."""
    return one.has_point_masses == other.has_point_masses


@cache
def _any_model() -> LoadedModel:
    return decoder_of_shape(TINY, "any", "float64", "cpu")


SERVED = "tests/calibration/test_serve.py"
LAW = "tests/calibration/test_combinations_law.py"
RULES = "tests/calibration/contracts/test_text_law.py"
PLAIN_TEXT = "test_every_proposer_and_topology_gives_the_plain_text_token_for_token"
DIFFERS = "test_a_relaxed_contract_changes_the_distribution_and_says_so"
SERVED_NAMES = {"chain": "chain 4", "static tree": "fixture", "dynamic tree": "dynamic"}


def exactness_tests(one: Combination) -> tuple[str, ...]:
    """The tests of a combination: its text in the serving loop, or how a relaxed rule differs."""
    if one.contract == "greedy":
        of = f"[{one.proposer}-{SERVED_NAMES[one.topology]}]"
        return (f"{SERVED}::{PLAIN_TEXT}{of}",)
    if one.rule.is_exact:
        same = one.measured_as.name
        return (f"{LAW}::test_sampled_texts_of_an_exact_combination_follow_the_law[{same}]",)
    name = {"typical": "typical", "threshold": "threshold, single"}[one.contract]
    tree = "tree0" if one.topology == "chain" else "tree1"
    return (f"{RULES}::{DIFFERS}[{name}-{tree}]",)


ALL = tuple(
    Combination(proposer, topology, contract)
    for proposer in PROPOSERS
    for topology in TOPOLOGIES
    for contract in CONTRACTS
)
