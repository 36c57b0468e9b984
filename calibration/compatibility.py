"""Whether a request can be decoded speculatively as asked, found out before any work is done.

Everything is compared from what the parts state: no pass is run, no block is taken. Each mismatch
is one reason; whoever asked refuses with the reasons, or decodes plainly and records them.
"""

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from enum import IntEnum

from calibration.contracts.contract import VerificationContract
from calibration.contracts.cut import Stopping
from calibration.contracts.transforms import Transforms
from calibration.errors import CalibrationError
from calibration.model.target import LoadedModel
from calibration.models import LanguageModel
from calibration.proposers.protocol import Proposer, Topology, TreeFiller
from simcore.acceptance.topology.dynamic_tree import DynamicShape
from simcore.acceptance.topology.sibling_rules import SiblingRule
from simcore.acceptance.tree import DraftTree
from simcore.profile.schema import Contract, ModelIdentity, Sampling

SPECIAL_ROLES = ("bos_token", "eos_token")  # padding and the like take no part in a text


@dataclass(frozen=True)
class ModelFacts:
    """What a loaded model states about itself."""

    identity: ModelIdentity
    token_ids: Mapping[str, int]  # the tokenizer's vocabulary
    special_token_ids: Mapping[str, int]  # role ("bos_token", ...) or text of an added one -> id
    eos_token_ids: Set[int]
    adapter: str | None = None


class Fills(IntEnum):
    """The widest kind of topology that a proposer can fill."""

    CHAINS = 0
    STATIC_TREES = 1
    DYNAMIC_TREES = 2


@dataclass(frozen=True)
class ProposerFacts:
    """What a proposer states about its candidates."""

    name: str
    siblings: SiblingRule  # how it chooses them; `top_k`: they are point masses
    fills: Fills


@dataclass(frozen=True)
class Asked:
    """How one request is to be decoded; revisions are pinned where they are named."""

    contract: VerificationContract
    topology: Topology | None  # None: chains
    transforms: Transforms
    stopping: Stopping
    adapter: str | None = None
    target_revision: str | None = None
    draft_revision: str | None = None


class IncompatibleError(CalibrationError):
    """Speculation as asked is impossible; `reasons` says why."""

    def __init__(self, reasons: tuple[str, ...]) -> None:
        super().__init__("; ".join(reasons))
        self.reasons = reasons


def model_facts(model: LanguageModel | LoadedModel, adapter: str | None = None) -> ModelFacts:
    """The facts of a loaded model; one without a tokenizer states no tokens."""
    tokenizer = model.tokenizer
    if tokenizer is None:
        return ModelFacts(model.identity, {}, {}, model.eos_token_ids, adapter)
    special = {
        role: tokenizer.convert_tokens_to_ids(text)
        for role in SPECIAL_ROLES
        if isinstance(text := tokenizer.special_tokens_map.get(role), str)
    }
    added = {str(token): index for index, token in tokenizer.added_tokens_decoder.items()}
    return ModelFacts(
        model.identity, tokenizer.get_vocab(), added | special, model.eos_token_ids, adapter
    )


def proposer_facts(proposer: Proposer, sampling: Sampling) -> ProposerFacts:
    """The facts of a proposer of chains, which may fill trees as well."""
    if not isinstance(proposer, TreeFiller):
        is_point = proposer.proposes_point_mass(sampling)
        siblings = SiblingRule.TOP_K if is_point else SiblingRule.SPECINFER
        return ProposerFacts(proposer.name, siblings, Fills.CHAINS)
    fills = Fills.DYNAMIC_TREES if proposer.fills_dynamic_trees else Fills.STATIC_TREES
    return ProposerFacts(proposer.name, proposer.siblings(sampling), fills)


def check_compatible(
    target: ModelFacts, draft: ModelFacts | None, proposer: ProposerFacts, asked: Asked
) -> None:
    """Raise IncompatibleError with every reason why speculation as asked is impossible."""
    reasons = incompatibilities(target, draft, proposer, asked)
    if reasons:
        raise IncompatibleError(reasons)


def incompatibilities(
    target: ModelFacts, draft: ModelFacts | None, proposer: ProposerFacts, asked: Asked
) -> tuple[str, ...]:
    """Every reason; empty where there is none. `draft`: the proposer's own model, if any."""
    return (
        *_revision(asked.target_revision, target, "target"),
        *(draft_mismatches(target, draft) if draft is not None else ()),
        *(_revision(asked.draft_revision, draft, "draft") if draft is not None else ()),
        *_adapters(target, draft, asked),
        *_transforms(target, asked),
        *_constraint(asked),
        *_stopping(target, asked.stopping),
        *_topology(proposer, asked),
        *_contract(proposer, asked),
    )


def draft_mismatches(target: ModelFacts, draft: ModelFacts) -> tuple[str, ...]:
    """Reasons why this draft's tokens and scores are not the target's."""
    return tuple((*_vocabulary(target, draft), *_special_tokens(target, draft)))


def check_draft(target: LanguageModel | LoadedModel, draft: LanguageModel | LoadedModel) -> None:
    """Refuse a draft whose tokens mean something else than the target's."""
    reasons = draft_mismatches(model_facts(target), model_facts(draft))
    if reasons:
        raise IncompatibleError(reasons)


def _vocabulary(target: ModelFacts, draft: ModelFacts) -> Iterator[str]:
    own, other = target.identity, draft.identity
    names = f"draft '{other.name}'", f"target '{own.name}'"
    if own.tokenizer != other.tokenizer:
        yield (
            f"{names[0]} has another tokenizer ({len(draft.token_ids)} tokens) than {names[1]} "
            f"({len(target.token_ids)} tokens){_first_difference(target, draft)}; expected the "
            "same vocabulary; pass a draft of the target's family"
        )
    if own.vocab_size != other.vocab_size:
        yield (
            f"{names[0]} scores {other.vocab_size} tokens, {names[1]} {own.vocab_size}; expected "
            "equal; pass another draft"
        )


def _first_difference(target: ModelFacts, draft: ModelFacts) -> str:
    for token, index in sorted(target.token_ids.items(), key=lambda entry: entry[1]):
        other = draft.token_ids.get(token)
        if other != index:
            there = "missing" if other is None else f"{other}"
            return f": {token!r} is token {index} of the target and {there} in the draft"
    return ""


def _special_tokens(target: ModelFacts, draft: ModelFacts) -> Iterator[str]:
    if target.eos_token_ids and not target.eos_token_ids & draft.eos_token_ids:
        yield (
            f"end tokens are {sorted(target.eos_token_ids)} for the target and "
            f"{sorted(draft.eos_token_ids)} for the draft; expected one in common"
        )
    shared = target.special_token_ids.keys() & draft.special_token_ids.keys()
    for role in sorted(shared):
        own, other = target.special_token_ids[role], draft.special_token_ids[role]
        if own != other:
            yield (
                f"special token {role!r} is {own} for the target and {other} for the draft; "
                "expected the same"
            )


def _revision(pinned: str | None, model: ModelFacts, role: str) -> Iterator[str]:
    if pinned is not None and pinned != model.identity.revision:
        yield (
            f"{role} '{model.identity.name}' is revision {model.identity.revision}, asked for was "
            f"{pinned}; load that one or do not pin it"
        )


def _adapters(target: ModelFacts, draft: ModelFacts | None, asked: Asked) -> Iterator[str]:
    if asked.adapter != target.adapter:
        yield (
            f"the request wants adapter {asked.adapter!r}, the target runs with "
            f"{target.adapter!r}; expected the same"
        )
    if draft is not None and draft.adapter != asked.adapter:
        yield (
            f"the draft runs with adapter {draft.adapter!r}, the request with {asked.adapter!r}; "
            "expected a draft made for the adapter"
        )


def _transforms(target: ModelFacts, asked: Asked) -> Iterator[str]:
    transforms, vocab_size = asked.transforms, target.identity.vocab_size
    outside = sorted(token for token in transforms.logit_bias if not 0 <= token < vocab_size)
    if outside:
        yield f"logit bias names tokens {outside}; expected 0 to {vocab_size - 1}"
    is_greedy = asked.contract.promise is Contract.GREEDY_EQUALITY
    if is_greedy and not transforms.is_greedy:
        yield (
            f"contract {asked.contract.label!r} with temperature "
            f"{transforms.sampling.temperature:g}; expected temperature 0, or a sampling contract"
        )
    if asked.contract.promise is Contract.EXACT_SAMPLING and transforms.is_greedy:
        yield (
            f"contract {asked.contract.label!r} at temperature 0; expected greedy_equality, or a "
            "temperature above 0"
        )


def _constraint(asked: Asked) -> Iterator[str]:
    constraint = asked.transforms.constraint
    if constraint is not None and not constraint.answers_any_prefix:
        yield (
            f"constraint {constraint.name!r} only moves forward, so it cannot judge drafts; "
            "expected one that answers for any prefix, or plain decoding"
        )


def _stopping(target: ModelFacts, stopping: Stopping) -> Iterator[str]:
    vocab_size = target.identity.vocab_size
    outside = sorted(token for token in stopping.eos_token_ids if not 0 <= token < vocab_size)
    if outside:
        yield f"end tokens {outside} do not exist; expected 0 to {vocab_size - 1}"


def _topology(proposer: ProposerFacts, asked: Asked) -> Iterator[str]:
    if asked.topology is None or _is_chain(asked.topology):
        return
    if proposer.fills is Fills.CHAINS:
        yield f"proposer {proposer.name!r} proposes chains only; expected no tree"
    elif isinstance(asked.topology, DynamicShape) and proposer.fills is not Fills.DYNAMIC_TREES:
        yield f"proposer {proposer.name!r} fills static trees only; expected no dynamic one"
    if asked.contract.verifies_chains_only:
        yield f"contract {asked.contract.label!r} verifies chains only; expected one for trees"


def _contract(proposer: ProposerFacts, asked: Asked) -> Iterator[str]:
    rule = asked.contract.sibling_rule
    if rule is None or asked.topology is None or _is_chain(asked.topology):
        return
    if proposer.siblings not in (rule, SiblingRule.TOP_K):
        yield (
            f"contract {asked.contract.label!r} takes children chosen by {rule.value!r}, proposer "
            f"{proposer.name!r} chooses them by {proposer.siblings.value!r}; expected the same, "
            "else the text is not the target's"
        )


def _is_chain(topology: Topology) -> bool:
    if isinstance(topology, DraftTree):
        return len(set(topology.parents)) == topology.num_nodes
    return topology.topk == 1
