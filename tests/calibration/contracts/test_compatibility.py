"""Speculation that cannot be what was asked is found out before anything runs, with its reasons."""

from dataclasses import replace

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install .[calibration]")

from calibration.compatibility import (
    Asked,
    Fills,
    IncompatibleError,
    ProposerFacts,
    check_compatible,
    check_draft,
    incompatibilities,
    model_facts,
    proposer_facts,
)
from calibration.contracts.block import BLOCK
from calibration.contracts.cut import Stopping
from calibration.contracts.greedy import GREEDY
from calibration.contracts.recursive_rejection import SEQUOIA, SPECINFER, TOKEN_WISE, TOP_K
from calibration.contracts.transforms import Constraint, Transforms
from calibration.contracts.typical import TypicalAcceptance
from calibration.errors import CalibrationError
from calibration.proposers.ngram import NgramProposer
from calibration.proposers.suffix import SuffixProposer
from calibration.serve.proposing import grown_facts
from simcore.acceptance.topology.dynamic_tree import DynamicShape
from simcore.acceptance.topology.sibling_rules import SiblingRule
from simcore.acceptance.tree import DraftTree, chain
from simcore.profile.schema import Sampling

pytestmark = pytest.mark.torch
GREEDILY, WARM = Transforms(), Transforms(Sampling(temperature=1.0))
TREE = DraftTree((-1, -1, 0))
STOPPING = Stopping(8, frozenset({0}))


NGRAM = proposer_facts(NgramProposer(), WARM.sampling)
SUFFIX = proposer_facts(SuffixProposer(), WARM.sampling)


def drawing(rule: SiblingRule) -> ProposerFacts:
    """A proposer that draws the children of its trees."""
    return ProposerFacts("drawing", rule, Fills.STATIC_TREES)


@pytest.fixture
def facts(target, draft, monkeypatch):
    """Both models' facts; a pass of either fails the test."""
    for model in (target, draft):
        monkeypatch.setattr(model.model, "forward", None)
    return model_facts(target), model_facts(draft)


def asked(contract=TOKEN_WISE, topology=None, transforms=WARM, stopping=STOPPING, **others):
    return Asked(contract, topology, transforms, stopping, **others)


def the_reason(facts, wanted: Asked, proposer=None, draft=True) -> str:
    own, other = facts
    found = incompatibilities(own, other if draft else None, proposer or NGRAM, wanted)
    assert len(found) == 1, found
    return found[0]


@pytest.mark.parametrize(
    ("wanted", "proposer"),
    [
        (asked(), NGRAM),
        (asked(GREEDY, transforms=GREEDILY), NGRAM),
        (asked(BLOCK, chain(4)), SUFFIX),
        (asked(TOP_K, TREE), NGRAM),
        (asked(SEQUOIA, TREE), SUFFIX),  # point masses are verified as such
        (asked(SPECINFER, TREE), drawing(SiblingRule.SPECINFER)),
        (asked(TOP_K, TREE), drawing(SiblingRule.SPECINFER)),
        (asked(TOP_K, DynamicShape(2, 2, 4)), SUFFIX),
        (asked(TypicalAcceptance(), TREE, GREEDILY), NGRAM),
    ],
)
def test_what_fits_has_no_reason_against_it(facts, wanted, proposer):
    check_compatible(*facts, proposer, wanted)


def test_a_draft_model_of_the_same_family_fits(target, draft, facts):
    check_draft(target, draft)
    drafting = grown_facts("draft_model", SiblingRule.SPECINFER, WARM.sampling)
    assert drafting.siblings is SiblingRule.SPECINFER
    check_compatible(*facts, drafting, asked())
    greedy = grown_facts("draft_model", SiblingRule.SPECINFER, Sampling())
    assert greedy.siblings is SiblingRule.TOP_K


def test_every_part_that_differs_is_named(facts):
    own, other = facts
    renamed = {**other.token_ids, "strange": 7}
    renamed.pop(next(token for token, index in other.token_ids.items() if index == 7))
    identity = other.identity.model_copy(update={"tokenizer": "other", "vocab_size": 99})
    stranger = replace(
        other,
        identity=identity,
        token_ids=renamed,
        eos_token_ids=frozenset({5}),
        special_token_ids={**other.special_token_ids, "eos_token": 5},
        adapter="legal",
    )
    found = incompatibilities(own, stranger, NGRAM, asked(draft_revision="abc"))
    expected = (
        "another tokenizer",
        "scores 99 tokens",
        "end tokens are [0] for the target and [5]",
        "special token 'eos_token' is 0 for the target and 5",
        "asked for was abc",
        "adapter 'legal'",
    )
    assert len(found) == len(expected)
    for reason, part in zip(found, expected, strict=True):
        assert part in reason
    assert "is token 7 of the target and missing in the draft" in found[0]


def test_a_pinned_target_revision_must_be_the_loaded_one(facts):
    assert "load that one" in the_reason(facts, asked(target_revision="123"))
    loaded = facts[0].identity.revision
    assert incompatibilities(*facts, NGRAM, asked(target_revision=loaded)) == ()


def test_adapters_of_request_target_and_draft_must_agree(facts):
    own, other = facts
    wanted = asked(adapter="legal")
    assert "target runs with None" in the_reason(facts, wanted, draft=False)
    tuned = replace(own, adapter="legal"), other
    assert "expected a draft made for the adapter" in the_reason(tuned, wanted)


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (asked(GREEDY), "with temperature 1; expected temperature 0"),
        (asked(TOKEN_WISE, transforms=GREEDILY), "at temperature 0; expected greedy_equality"),
        (asked(transforms=Transforms(WARM.sampling, logit_bias={10**6: 1.0})), "names tokens [10"),
        (
            asked(
                transforms=Transforms(
                    WARM.sampling,
                    constraint=Constraint("json", lambda _: (), answers_any_prefix=False),
                )
            ),
            "constraint 'json' only moves forward",
        ),
        (asked(stopping=Stopping(4, frozenset({-3}))), "end tokens [-3] do not exist"),
        (asked(BLOCK, TREE), "'block' verifies chains only"),
        (asked(TOKEN_WISE, DynamicShape(2, 2, 4)), "'token_wise' verifies chains only"),
        (asked(TypicalAcceptance(), DynamicShape(2, 2, 4)), "fills static trees only"),
    ],
)
def test_a_request_that_contradicts_itself_is_told_why(facts, wanted, message):
    dynamic = isinstance(wanted.topology, DynamicShape) and wanted.contract is TOKEN_WISE
    proposer = SUFFIX if dynamic else NGRAM
    assert message in the_reason(facts, wanted, proposer)


@pytest.mark.parametrize(
    ("contract", "rule"),
    [(SEQUOIA, SiblingRule.SPECINFER), (SPECINFER, SiblingRule.SEQUOIA)],
)
def test_a_contract_refuses_children_drawn_by_another_rule(facts, contract, rule):
    reason = the_reason(facts, asked(contract, TREE), drawing(rule))
    assert f"chooses them by {rule.value!r}" in reason


def test_a_proposer_of_chains_cannot_fill_a_tree(facts):
    drafting = ProposerFacts("chains", SiblingRule.SPECINFER, Fills.CHAINS)
    assert "chains only" in the_reason(facts, asked(TOP_K, TREE), drafting)
    check_compatible(*facts, drafting, asked(TOKEN_WISE, chain(3)))


def test_a_refusal_is_one_sentence_and_keeps_its_reasons(facts):
    with pytest.raises(IncompatibleError) as error:
        check_compatible(*facts, NGRAM, asked(GREEDY, adapter="legal"))
    assert len(error.value.reasons) == 3
    assert str(error.value) == "; ".join(error.value.reasons)
    assert isinstance(error.value, CalibrationError)
