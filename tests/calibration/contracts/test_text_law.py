"""Texts of whole decoding runs follow the target, exactly, under every transform.

A tiny model is decoded speculatively; every draft, coin and draw of every cycle is enumerated and
the law of finished texts compared with drawing token by token.
"""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="torch is not installed: pip install .[calibration]")

from contract_law import Speculation, TinyModel, law, plain_law, total_variation

from calibration.contracts.block import BLOCK
from calibration.contracts.cut import Stopping
from calibration.contracts.greedy import GREEDY
from calibration.contracts.recursive_rejection import SEQUOIA, SPECINFER, TOKEN_WISE, TOP_K
from calibration.contracts.threshold import ThresholdAcceptance
from calibration.contracts.transforms import Constraint, Transforms
from calibration.contracts.typical import TypicalAcceptance
from simcore.acceptance.topology.sibling_rules import SiblingRule
from simcore.acceptance.tree import DraftTree, chain
from simcore.profile.schema import Sampling

pytestmark = pytest.mark.torch
TARGET, DRAFT = TinyModel(4, seed=1), TinyModel(4, seed=2)
PROMPT = (1, 2, 1)
EOS = 3
STOPPING = Stopping(3, frozenset({EOS}))
BRANCHING = DraftTree((-1, -1, 0))
TWO_DEEP = DraftTree((-1, -1, 0, 0, 1))
WARM = Sampling(temperature=0.8)
WARM_ONLY, ENDLESS = Transforms(WARM), Stopping(100)


def no_repeats(history) -> set[int]:
    """A constraint that depends on the drafted path: never the same token twice in a row."""
    assert all(one != two for one, two in pairwise(history)), history
    return set(range(4)) - {history[-1]}


TRANSFORMS = {
    "none": Transforms(Sampling(temperature=1.0)),
    "temperature": Transforms(WARM),
    "top-k": Transforms(Sampling(temperature=1.0, top_k=2)),
    "top-p": Transforms(Sampling(temperature=1.0, top_p=0.7)),
    "min-p": Transforms(Sampling(temperature=1.0), min_p=0.3),
    "penalty": Transforms(WARM, repetition_penalty=1.8),
    "bias": Transforms(WARM, logit_bias={0: 1.5, 2: -2.0}),
    "constraint": Transforms(WARM, constraint=Constraint("no repeats", no_repeats)),
    "all": Transforms(
        Sampling(temperature=0.9, top_k=3, top_p=0.95),
        min_p=0.05,
        repetition_penalty=1.3,
        logit_bias={1: 0.7},
        constraint=Constraint("no repeats", no_repeats),
    ),
}
WAYS = {
    "token_wise": (TOKEN_WISE, chain(2), SiblingRule.SPECINFER),
    "token_wise, deterministic drafts": (TOKEN_WISE, chain(2), SiblingRule.TOP_K),
    "block": (BLOCK, chain(2), SiblingRule.SPECINFER),
    "block, deterministic drafts": (BLOCK, chain(2), SiblingRule.TOP_K),
    "specinfer": (SPECINFER, BRANCHING, SiblingRule.SPECINFER),
    "sequoia": (SEQUOIA, BRANCHING, SiblingRule.SEQUOIA),
    "top_k": (TOP_K, TWO_DEEP, SiblingRule.TOP_K),
    "top_k, drawn children": (TOP_K, DraftTree((-1, -1)), SiblingRule.SPECINFER),
}


def speculation(contract, tree, rule, transforms, target=TARGET, draft=DRAFT) -> Speculation:
    return Speculation(target, draft, tree, rule, contract, transforms)


@pytest.mark.parametrize("transforms", TRANSFORMS)
@pytest.mark.parametrize("way", WAYS)
def test_an_exact_contract_leaves_the_target_distribution_of_texts(way, transforms):
    found = speculation(*WAYS[way], TRANSFORMS[transforms]).text_law(PROMPT, STOPPING)
    expected = plain_law(TARGET, TRANSFORMS[transforms], PROMPT, STOPPING)
    assert total_variation(found, expected) < 1e-9


@given(seeds=st.tuples(st.integers(0, 999), st.integers(0, 999)), spread=st.floats(0.1, 6.0))
@settings(derandomize=True, deadline=None, max_examples=12)
@pytest.mark.parametrize("way", ["block", "specinfer", "sequoia"])
def test_exactness_holds_for_any_two_models(way, seeds, spread):
    target, draft = TinyModel(3, seeds[0], spread), TinyModel(3, seeds[1], spread)
    transforms, stopping = Transforms(Sampling(temperature=1.0)), Stopping(2)
    found = speculation(*WAYS[way], transforms, target, draft).text_law((1, 2), stopping)
    assert total_variation(found, plain_law(target, transforms, (1, 2), stopping)) < 1e-9


@given(seeds=st.tuples(st.integers(0, 999), st.integers(0, 999)), spread=st.floats(0.1, 4.0))
@settings(derandomize=True, deadline=None, max_examples=15)
def test_where_context_matters_block_verification_accepts_no_fewer_either(seeds, spread):
    target, draft = TinyModel(3, seeds[0], spread), TinyModel(3, seeds[1], spread)
    expected = {}
    for contract in (BLOCK, TOKEN_WISE):
        meeting = speculation(contract, chain(3), SiblingRule.SPECINFER, WARM_ONLY, target, draft)
        found = law(lambda luck, meeting=meeting: len(meeting.cycle((1, 2), (), ENDLESS, luck)[0]))
        expected[contract.name] = sum(tokens * weight for tokens, weight in found.items())
    assert expected["block"] >= expected["token_wise"] - 1e-9


@pytest.mark.parametrize("rule", SiblingRule)
@pytest.mark.parametrize("tree", [chain(3), BRANCHING])
@pytest.mark.parametrize("transforms", ["none", "penalty", "bias", "constraint"])
def test_greedy_equality_gives_the_one_greedy_text_whatever_the_drafts(tree, rule, transforms):
    asked = TRANSFORMS[transforms]
    greedy = Transforms(
        Sampling(), asked.min_p, asked.repetition_penalty, asked.logit_bias, asked.constraint
    )
    expected = plain_law(TARGET, greedy, PROMPT, STOPPING)
    assert len(expected) == 1
    for contract in (GREEDY, TOP_K):  # temperature 0 makes the exact rule greedy
        found = speculation(contract, tree, rule, greedy).text_law(PROMPT, STOPPING)
        assert total_variation(found, expected) < 1e-12


RELAXED = {
    "typical": TypicalAcceptance(),
    "typical, wide": TypicalAcceptance(0.01, 0.1),
    "threshold, single": ThresholdAcceptance(single=0.2),
    "threshold, accumulated": ThresholdAcceptance(single=1.0, accumulated=0.5),
}


@pytest.mark.parametrize("tree", [chain(2), BRANCHING])
@pytest.mark.parametrize("name", RELAXED)
def test_a_relaxed_contract_changes_the_distribution_and_says_so(name, tree):
    contract, transforms = RELAXED[name], TRANSFORMS["none"]
    found = speculation(contract, tree, SiblingRule.TOP_K, transforms).text_law(PROMPT, STOPPING)
    expected = plain_law(TARGET, transforms, PROMPT, STOPPING)
    assert total_variation(found, expected) > 0.02
    assert not contract.is_exact
    assert contract.label == f"{contract.name} (not exact)"


@pytest.mark.parametrize("tree", [chain(2), TWO_DEEP])
def test_thresholds_of_one_are_the_exact_rule(tree):
    transforms = TRANSFORMS["temperature"]
    strict = ThresholdAcceptance(single=1.0, accumulated=1.0)
    found = speculation(strict, tree, SiblingRule.TOP_K, transforms).text_law(PROMPT, STOPPING)
    assert total_variation(found, plain_law(TARGET, transforms, PROMPT, STOPPING)) < 1e-9


def test_the_law_tells_a_wrong_rule_from_a_right_one():
    """Children drawn with replacement, verified as if drawn without: no longer the target's."""
    wrong = speculation(SEQUOIA, BRANCHING, SiblingRule.SPECINFER, TRANSFORMS["none"])
    expected = plain_law(TARGET, TRANSFORMS["none"], PROMPT, STOPPING)
    assert total_variation(wrong.text_law(PROMPT, STOPPING), expected) > 0.001
