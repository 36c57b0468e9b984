"""Every coin and draw of the real rules, enumerated: the papers' fractions, and p after all."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="torch is not installed: pip install .[calibration]")

from contract_law import choose_children, law

from calibration.contracts.block import BLOCK
from calibration.contracts.candidates import Candidates, chain_candidates
from calibration.contracts.recursive_rejection import SEQUOIA, SPECINFER, TOKEN_WISE, TOP_K
from simcore.acceptance.topology.sibling_rules import SiblingRule, child_posterior
from simcore.acceptance.trace import RANK_ABSENT

pytestmark = pytest.mark.torch
PROPERTIES = settings(derandomize=True, deadline=None, max_examples=60)
BY_RULE = {
    SiblingRule.SPECINFER: SPECINFER,
    SiblingRule.SEQUOIA: SEQUOIA,
    SiblingRule.TOP_K: TOP_K,
}
THREE = ((0.5, 0.3, 0.2), (0.2, 0.2, 0.6))


def tensor(values) -> "torch.Tensor":
    return torch.tensor([float(value) for value in values], dtype=torch.float64)


def chain_law(contract, p, q, gamma) -> dict:
    """{(accepted, emitted tokens): probability} of a context-free chain, drafts drawn from q."""
    p, q = tensor(p), tensor(q)

    def run(luck):
        drafts = tuple(luck.draw(q) for _ in range(gamma))
        candidates = chain_candidates(drafts, q.expand(gamma, -1))
        verdict = contract.verify_one(p.expand(gamma + 1, -1), candidates, luck)
        return verdict.accepted, (*drafts[: verdict.accepted], verdict.next_token)

    return law(run)


def siblings_law(rule, p, q, num_children) -> dict:
    """{(accepting child or RANK_ABSENT, next emitted token): probability} at one node."""
    p, q = tensor(p), tensor(q)

    def run(luck):
        tokens = choose_children(rule, q, num_children, luck)
        drawn = None if rule is SiblingRule.TOP_K else q[None]
        candidates = Candidates((-1,) * len(tokens), tuple(tokens), drawn)
        rows = p.expand(len(tokens) + 1, -1)
        verdict = BY_RULE[rule].verify_one(rows, candidates, luck)
        if verdict.path:
            return verdict.path[0], tokens[verdict.path[0]]
        return RANK_ABSENT, verdict.next_token

    return law(run)


def expected_accepted(found: dict) -> float:
    return sum(accepted * weight for (accepted, _), weight in found.items())


def first_tokens(found: dict, num_tokens: int) -> dict:
    """Law of the first tokens, of outcomes that have so many."""
    marginal: dict = {}
    for (_, tokens), weight in found.items():
        assert len(tokens) >= num_tokens
        marginal[tokens[:num_tokens]] = marginal.get(tokens[:num_tokens], 0.0) + weight
    return marginal


@pytest.mark.parametrize(
    ("contract", "gamma", "accepted"),
    [
        (TOKEN_WISE, 2, Fraction(10, 9)),
        (BLOCK, 2, Fraction(11, 9)),
        (TOKEN_WISE, 3, Fraction(38, 27)),
        (BLOCK, 3, Fraction(5, 3)),
    ],
)
def test_accepted_drafts_of_a_two_token_chain_equal_the_fractions(contract, gamma, accepted):
    found = chain_law(
        contract, (Fraction(1, 3), Fraction(2, 3)), (Fraction(2, 3), Fraction(1, 3)), gamma
    )
    assert expected_accepted(found) == pytest.approx(float(accepted), abs=1e-12)
    assert first_tokens(found, 1)[0,] == pytest.approx(1 / 3, abs=1e-12)


def test_block_verification_keeps_the_marginal_of_a_pair_of_tokens():
    p, q = (1 / 3, 2 / 3), (2 / 3, 1 / 3)
    pair = 0.0
    for (_, tokens), weight in chain_law(BLOCK, p, q, 3).items():
        if len(tokens) > 1:
            pair += weight * (tokens[:2] == (0, 0))
        else:  # the second token is the next cycle's first, drawn afresh
            pair += weight * (tokens[0] == 0) * p[0]
    assert pair == pytest.approx(1 / 9, abs=1e-12)


@pytest.mark.parametrize(
    ("p", "q", "children", "specinfer", "sequoia", "top_k"),
    [
        ((1, 0), (0.5, 0.5), 2, Fraction(3, 4), 1, 1),
        ((0.6, 0.4), (0.6, 0.4), 1, 1, 1, Fraction(3, 5)),
        (*THREE, 1, Fraction(3, 5), Fraction(3, 5), Fraction(1, 5)),
        (*THREE, 2, Fraction(19, 25), Fraction(9, 10), Fraction(7, 10)),
        (*THREE, 3, Fraction(207, 250), 1, 1),
    ],
)
def test_acceptance_at_a_node_equals_the_fractions(p, q, children, specinfer, sequoia, top_k):
    for rule, expected in (
        (SiblingRule.SPECINFER, specinfer),
        (SiblingRule.SEQUOIA, sequoia),
        (SiblingRule.TOP_K, top_k),
    ):
        found = siblings_law(rule, p, q, children)
        accepted = sum(weight for (child, _), weight in found.items() if child != RANK_ABSENT)
        assert accepted == pytest.approx(float(expected), abs=1e-12)


def _distributions(size):
    weights = st.lists(st.integers(0, 6), min_size=size, max_size=size)
    return weights.filter(lambda found: sum(found) > 0).map(
        lambda found: tuple(weight / sum(found) for weight in found)
    )


PAIRS = st.integers(2, 4).flatmap(
    lambda size: st.tuples(_distributions(size), _distributions(size))
)


@pytest.mark.parametrize("rule", SiblingRule)
@given(pair=PAIRS, num_children=st.integers(1, 3))
@PROPERTIES
def test_which_child_accepts_which_token_is_what_the_simulator_replays(rule, pair, num_children):
    p, q = pair
    num_children = min(num_children, len(p))
    found = siblings_law(rule, p, q, num_children)
    for token, mass in enumerate(p):
        emitted = sum(weight for (_, each), weight in found.items() if each == token)
        assert emitted == pytest.approx(mass, abs=1e-9)
        if mass > 0:
            expected = mass * child_posterior(rule, p, q, token, num_children)
            for child in range(num_children):
                assert found.get((child, token), 0.0) == pytest.approx(expected[child], abs=1e-9)


@given(pair=PAIRS, gamma=st.integers(1, 3))
@PROPERTIES
def test_block_verification_never_accepts_fewer_than_token_by_token(pair, gamma):
    p, q = pair
    block, token_wise = chain_law(BLOCK, p, q, gamma), chain_law(TOKEN_WISE, p, q, gamma)
    assert expected_accepted(block) >= expected_accepted(token_wise) - 1e-9
    for found in (block, token_wise):
        for token, mass in enumerate(p):
            assert first_tokens(found, 1).get((token,), 0.0) == pytest.approx(mass, abs=1e-9)


@pytest.mark.parametrize("contract", [TOKEN_WISE, BLOCK])
def test_equal_distributions_are_always_accepted_and_disjoint_ones_never(contract):
    same = chain_law(contract, (0.5, 0.3, 0.2), (0.5, 0.3, 0.2), 3)
    assert {accepted for accepted, _ in same} == {3}
    apart = chain_law(contract, (0.7, 0.3, 0, 0), (0, 0, 0.4, 0.6), 2)
    assert {accepted for accepted, _ in apart} == {0}
    assert {tokens for _, tokens in apart} == {(0,), (1,)}


@pytest.mark.parametrize("contract", [TOKEN_WISE, BLOCK])
@pytest.mark.parametrize("rejected_at", [0, 1, 2, None])
def test_a_forced_rejection_ends_the_chain_where_it_happens(contract, rejected_at):
    """Certain drafts, of which the target refuses one, or none."""
    certain = torch.eye(4, dtype=torch.float64)
    rows = certain[[1, 2, 3, 0]]
    drafts = [1, 2, 3]
    if rejected_at is not None:
        drafts[rejected_at] = 0
    candidates = chain_candidates(tuple(drafts), certain[drafts])
    verdicts = law(lambda luck: contract.verify_one(rows, candidates, luck))
    (verdict,) = verdicts
    accepted = 3 if rejected_at is None else rejected_at
    assert verdict.path == tuple(range(accepted))
    assert verdict.next_token == [1, 2, 3, 0][accepted]
    assert verdict.is_bonus == (rejected_at is None)
    assert verdict.is_exact


@pytest.mark.parametrize("contract", [TOKEN_WISE, BLOCK, SPECINFER, SEQUOIA, TOP_K])
@given(p=_distributions(3), draft=st.integers(0, 2))
@PROPERTIES
def test_a_point_mass_is_accepted_with_its_target_probability(contract, p, draft):
    rows = tensor(p).expand(2, -1)
    found = law(lambda luck: contract.verify_one(rows, chain_candidates((draft,)), luck))
    accepted = sum(weight for verdict, weight in found.items() if verdict.accepted)
    assert accepted == pytest.approx(p[draft], abs=1e-12)
    for verdict in found:
        assert verdict.accepted or verdict.next_token != draft


@given(p=_distributions(4), tokens=st.lists(st.integers(0, 3), min_size=1, max_size=3))
@PROPERTIES
def test_children_chosen_anyhow_and_repeated_leave_the_target_under_top_k(p, tokens):
    rows = tensor(p).expand(len(tokens) + 1, -1)
    candidates = Candidates((-1,) * len(tokens), tuple(tokens))
    emitted = np.zeros(4)
    for verdict, weight in law(lambda luck: TOP_K.verify_one(rows, candidates, luck)).items():
        token = tokens[verdict.path[0]] if verdict.path else verdict.next_token
        emitted[token] += weight
    assert emitted == pytest.approx(p, abs=1e-9)
    accepted = sum(p[token] for token in set(tokens))
    paths = law(lambda luck: bool(TOP_K.verify_one(rows, candidates, luck).path))
    assert paths.get(True, 0.0) == pytest.approx(accepted, abs=1e-9)
