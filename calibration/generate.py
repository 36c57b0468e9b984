"""Decode one prompt for real and account for every cycle."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from calibration.compatibility import Asked, check_compatible, model_facts
from calibration.contracts.contract import VerificationContract
from calibration.contracts.cut import Stopping
from calibration.contracts.named import contract_named
from calibration.contracts.transforms import Transforms
from calibration.distill import DistillSettings, distilled_draft
from calibration.errors import CalibrationError
from calibration.model.target import LoadedModel, load_decoder
from calibration.models import load_model
from calibration.progress import Track, silent
from calibration.promptset import Prompt, prompt_token_ids
from calibration.proposers.lookahead import LookaheadShape
from calibration.proposers.ngram import NgramProposer
from calibration.proposers.suffix import SuffixProposer
from calibration.randomness import MAX_SEED
from calibration.serve.alone import serve_alone
from calibration.serve.proposing import (
    Proposing,
    by_draft_model,
    by_layer_skip,
    by_lookahead,
    by_lookup,
    grown_facts,
)
from calibration.serve.request import ServedRequest
from calibration.serve.run import Served
from simcore.acceptance.topology.notation import parse_tree
from simcore.acceptance.topology.sibling_rules import SiblingRule
from simcore.acceptance.tree import DraftTree, chain
from simcore.errors import TreeError
from simcore.profile.schema import Sampling
from simcore.validation import describe_validation_error

GENERATE_PROPOSERS = ("none", "ngram", "suffix", "lookahead", "layer_skip", "draft_model")
DEFAULT_GAMMA = 4
LOOKAHEAD_TREE = "5x3"
MIN_WINDOW = 5
SKIP_SHARE = 0.8  # of the target's layers, where nothing is asked
MAX_DEPTH = 64
DISTILL_DTYPE = "bfloat16"  # as the distill command's


@dataclass(frozen=True)
class GenerateSettings:
    """What is asked of one generation; None: by default, see `python -m calibration generate`."""

    prompt: str
    proposer: str = "none"
    tree: str | None = None
    num_speculative_tokens: int | None = None
    contract: str | None = None
    max_tokens: int = 64
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0
    target: Path | None = None
    draft: Path | None = None
    layers: int | None = None
    dtype: str = "float32"
    device: str = "cpu"

    def __post_init__(self) -> None:
        if self.proposer not in GENERATE_PROPOSERS:
            raise CalibrationError(
                f"proposer {self.proposer!r} is unknown; expected one of {list(GENERATE_PROPOSERS)}"
            )
        if not self.prompt.strip():
            raise CalibrationError("the prompt is empty; expected some text")
        if self.max_tokens < 1:
            raise CalibrationError(f"max_tokens is {self.max_tokens}; expected at least 1")
        if not 0 <= self.seed <= MAX_SEED:
            raise CalibrationError(f"seed is {self.seed}; expected 0 to 2^63 - 1")
        self._check_drafts()

    def _check_drafts(self) -> None:
        depth = self.num_speculative_tokens
        if self.tree is not None and depth is not None:
            raise CalibrationError(
                f"tree {self.tree!r} and num_speculative_tokens {depth} both say how deep drafts "
                "are; expected one of them"
            )
        if depth is not None and not 1 <= depth <= MAX_DEPTH:
            raise CalibrationError(
                f"num_speculative_tokens is {depth}; expected 1 to {MAX_DEPTH}, or proposer none"
            )
        if self.proposer == "none" and (self.tree is not None or depth is not None):
            raise CalibrationError("a tree or a draft length without a proposer; expected one")
        for name, value, owner in (
            ("draft", self.draft, "draft_model"),
            ("layers", self.layers, "layer_skip"),
        ):
            if value is not None and self.proposer != owner:
                raise CalibrationError(
                    f"{name} is given, the proposer is {self.proposer}; expected {owner}"
                )

    @property
    def topology(self) -> DraftTree | None:
        """The tree that is asked for; raises TreeError where it is none."""
        if self.proposer == "none":
            return None
        text = self.tree
        if text is None and self.num_speculative_tokens is None and self.proposer == "lookahead":
            text = LOOKAHEAD_TREE
        found = chain(self.num_speculative_tokens or DEFAULT_GAMMA)
        if text is not None:
            found = parse_tree(text)
        if found.depth > MAX_DEPTH:
            raise TreeError(f"the tree is {found.depth} deep; expected at most {MAX_DEPTH}")
        return found

    @property
    def sampling(self) -> Sampling:
        """Temperature and the rest; raises CalibrationError for values that mean nothing."""
        try:
            return Sampling(temperature=self.temperature, top_k=self.top_k, top_p=self.top_p)
        except ValidationError as error:
            raise CalibrationError(describe_validation_error(error)) from None

    @property
    def rule(self) -> VerificationContract:
        """By default `exact`: greedy equality at temperature 0, exact sampling above."""
        topology = self.topology
        is_chain = topology is None or topology.width == 1
        drawn = self.proposer in ("layer_skip", "draft_model")
        siblings = SiblingRule.SEQUOIA if drawn else SiblingRule.TOP_K
        return contract_named(
            self.contract or "exact",
            is_chain=is_chain,
            siblings=siblings,
            is_greedy=self.temperature == 0.0,
        )


@dataclass(frozen=True)
class Generated:
    """A text and how it came about."""

    settings: GenerateSettings
    target: LoadedModel
    contract: VerificationContract
    prompt_ids: Sequence[int]
    served: Served

    @property
    def token_ids(self) -> list[int]:
        """The output, its last token included."""
        return self.served.texts[0].output_ids

    @property
    def text(self) -> str:
        """The output without special tokens."""
        assert self.target.tokenizer is not None
        text: str = self.target.tokenizer.decode(self.token_ids, skip_special_tokens=True)
        return text

    def decode(self, token_ids: Sequence[int]) -> str:
        """The text of these tokens, special ones too."""
        assert self.target.tokenizer is not None
        text: str = self.target.tokenizer.decode(token_ids)
        return text

    def as_dict(self) -> dict[str, Any]:
        """What --json prints; the first cycle is the prefill."""
        ending = self.served.texts[0].ending
        topology = self.settings.topology
        return {
            "text": self.text,
            "token_ids": self.token_ids,
            "ending": ending.value if ending is not None else None,
            "contract": self.contract.label,
            "proposer": self.settings.proposer,
            "tree": list(topology.parents) if topology is not None else None,
            "target": self.target.identity.model_dump(),
            "sampling": self.settings.sampling.model_dump(),
            "seed": self.settings.seed,
            "prompt_tokens": len(self.prompt_ids),
            "cycles": [
                {
                    "start": cycle.start,
                    "is_prefill": cycle.is_prefill,
                    "proposed": cycle.draft.num_candidates,
                    "accepted": cycle.accepted,
                    "emitted": len(cycle.token_ids),
                    "has_bonus": cycle.has_bonus,
                    "parents": list(cycle.draft.parents),
                    "draft_ids": list(cycle.draft.token_ids),
                    "path": list(cycle.path),
                    "token_ids": list(cycle.token_ids),
                }
                for cycle in self.served.cycles
            ],
            "step_s": [round(took.total_s, 6) for took in self.served.step_times],
        }


def generate(settings: GenerateSettings, track: Track = silent) -> Generated:
    """Load, check, decode. Raises CalibrationError, IncompatibleError or TreeError beforehand."""
    topology, rule, sampling = settings.topology, settings.rule, settings.sampling
    target = load_decoder(settings.target, settings.dtype, settings.device)
    assert target.tokenizer is not None  # a loaded folder has one
    prompt_ids = prompt_token_ids(Prompt("generate", settings.prompt), target.tokenizer)
    proposing = _proposing(settings, target, rule, topology, track)
    request = ServedRequest(tuple(prompt_ids), settings.max_tokens, transforms=Transforms(sampling))
    served = serve_alone(target, request, rule, proposing, topology, seed=settings.seed)
    return Generated(settings, target, rule, prompt_ids, served)


def _proposing(
    settings: GenerateSettings,
    target: LoadedModel,
    rule: VerificationContract,
    topology: DraftTree | None,
    track: Track,
) -> Proposing | None:
    siblings = _siblings(settings, rule)
    match settings.proposer:
        case "ngram":
            return by_lookup(NgramProposer)
        case "suffix":
            return by_lookup(SuffixProposer)
        case "lookahead":
            assert topology is not None
            guesses = topology.parents.count(-1)
            shape = LookaheadShape(max(guesses, MIN_WINDOW), topology.depth + 1, guesses)
            return by_lookahead(shape, seed=settings.seed)
        case "layer_skip":
            layers = settings.layers
            if layers is None:
                layers = max(1, int(SKIP_SHARE * target.decoder.shape.num_layers))
            return by_layer_skip(target, layers, siblings)
        case "draft_model":
            _check_draft_can_do(settings, target, rule, topology)
            folder = settings.draft or _distilled(settings, track)
            return by_draft_model(load_decoder(folder, settings.dtype, settings.device), siblings)
    return None


def _siblings(settings: GenerateSettings, rule: VerificationContract) -> SiblingRule:
    """How a model's children are chosen: as the contract needs them."""
    if settings.contract == SiblingRule.TOP_K.value:
        return SiblingRule.TOP_K
    return rule.sibling_rule or SiblingRule.SEQUOIA


def _check_draft_can_do(
    settings: GenerateSettings,
    target: LoadedModel,
    rule: VerificationContract,
    topology: DraftTree | None,
) -> None:
    """Refuse what no draft could do before one is made, which takes minutes."""
    sampling = settings.sampling
    own = grown_facts("draft_model", _siblings(settings, rule), sampling)
    asked = Asked(rule, topology, Transforms(sampling), Stopping(settings.max_tokens))
    check_compatible(model_facts(target), None, own, asked)


def _distilled(settings: GenerateSettings, track: Track) -> Path:
    """That of `python -m calibration distill`, whatever numbers the text is decoded in."""
    target = load_model(settings.target, DISTILL_DTYPE, settings.device)
    return distilled_draft(target, DistillSettings(), track)
