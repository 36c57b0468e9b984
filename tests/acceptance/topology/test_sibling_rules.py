"""Verification of several candidates at one node: exact fractions, posteriors, and draws."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcore.acceptance.topology.sibling_rules import (
    SiblingRule,
    child_posterior,
    child_probabilities,
    draw_child,
    specinfer_posterior,
)
from simcore.acceptance.trace import RANK_ABSENT
from simcore.errors import TreeError

THREE = (
    (Fraction(5, 10), Fraction(3, 10), Fraction(2, 10)),
    (Fraction(2, 10), Fraction(2, 10), Fraction(6, 10)),
)
# p, q, children; total acceptance under specinfer, sequoia, top_k.
PUBLISHED = [
    (
        (Fraction(1), Fraction(0)),
        (Fraction(1, 2), Fraction(1, 2)),
        2,
        Fraction(3, 4),
        Fraction(1),
        Fraction(1),
    ),
    (
        (Fraction(3, 5), Fraction(2, 5)),
        (Fraction(3, 5), Fraction(2, 5)),
        1,
        Fraction(1),
        Fraction(1),
        Fraction(3, 5),
    ),
    (*THREE, 1, Fraction(3, 5), Fraction(3, 5), Fraction(1, 5)),
    (*THREE, 2, Fraction(19, 25), Fraction(9, 10), Fraction(7, 10)),
    (*THREE, 3, Fraction(207, 250), Fraction(1), Fraction(1)),
]


def _distributions(size):
    weights = st.lists(st.integers(0, 6), min_size=size, max_size=size)
    return weights.filter(lambda found: sum(found) > 0).map(
        lambda found: tuple(Fraction(weight, sum(found)) for weight in found)
    )


PAIRS = st.integers(2, 4).flatmap(
    lambda size: st.tuples(_distributions(size), _distributions(size))
)


def _enumerate(rule, p, q, num_children):
    """{(child or None, token): probability}: every draft, every coin, every residual sample.

    The procedure as the papers give it, in fractions: draw, accept with min(1, p/q), subtract.
    """
    found = {}

    def add(key, weight):
        found[key] = found.get(key, Fraction(0)) + weight

    def run(child, weight, p, q, tried):
        if child == num_children:
            for token, mass in enumerate(p):
                add((None, token), weight * mass)
            return
        for token, mass in enumerate(q):
            if mass == 0:
                continue
            accepts = min(Fraction(1), p[token] / mass)
            add((child, token), weight * mass * accepts)
            if accepts < 1:
                residual = [max(a - b, Fraction(0)) for a, b in zip(p, q, strict=True)]
                total = sum(residual)
                left = [value / total for value in residual]
                now = {*tried, token}
                following = q if rule is SiblingRule.SPECINFER else _untried(q, now)
                run(child + 1, weight * mass * (1 - accepts), left, following, now)

    if rule is SiblingRule.TOP_K:
        _run_top_k(p, q, num_children, add)
    else:
        run(0, Fraction(1), p, q, set())
    return found


def _untried(q, tried):
    left = [Fraction(0) if token in tried else mass for token, mass in enumerate(q)]
    if sum(left) == 0:
        left = [Fraction(0) if token in tried else Fraction(1) for token in range(len(q))]
    total = sum(left)
    return [mass / total if total else Fraction(0) for mass in left]


def _run_top_k(p, q, num_children, add):
    weight, left = Fraction(1), list(p)
    children = sorted(range(len(q)), key=lambda token: (-q[token], token))[:num_children]
    for child, token in enumerate(children):
        add((child, token), weight * left[token])
        weight *= 1 - left[token]
        if weight == 0:
            return
        left[token] = Fraction(0)
        total = sum(left)
        left = [mass / total for mass in left]
    for token, mass in enumerate(left):
        add((None, token), weight * mass)


def _floats(values):
    return [float(value) for value in values]


@pytest.mark.parametrize(("p", "q", "children", "specinfer", "sequoia", "top_k"), PUBLISHED)
def test_acceptance_equals_the_published_fractions(p, q, children, specinfer, sequoia, top_k):
    for rule, expected in (
        (SiblingRule.SPECINFER, specinfer),
        (SiblingRule.SEQUOIA, sequoia),
        (SiblingRule.TOP_K, top_k),
    ):
        found = child_probabilities(rule, _floats(p), _floats(q), children).sum()
        assert found == pytest.approx(float(expected), abs=1e-12)


@pytest.mark.parametrize("rule", SiblingRule)
@given(pair=PAIRS, num_children=st.integers(1, 3))
def test_posteriors_equal_the_enumeration_of_every_draw_and_coin(rule, pair, num_children):
    p, q = pair
    num_children = min(num_children, len(p))
    joint = _enumerate(rule, p, q, num_children)
    for token, mass in enumerate(p):
        emitted = sum(value for (_, each), value in joint.items() if each == token)
        assert emitted == mass  # the rule is exact
        if mass > 0:
            expected = [
                float(joint.get((child, token), Fraction(0)) / mass)
                for child in range(num_children)
            ]
            found = child_posterior(rule, _floats(p), _floats(q), token, num_children)
            assert found == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("rule", SiblingRule)
def test_draws_follow_the_posterior(rule):
    p, q = np.array([0.45, 0.3, 0.2, 0.05]), np.array([0.1, 0.2, 0.3, 0.4])
    rng = np.random.default_rng(4)
    for token in range(4):
        expected = child_posterior(rule, p, q, token, 3)
        draws = np.array([draw_child(rule, p, q, token, 3, rng) for _ in range(4000)])
        for child in range(3):
            error = np.sqrt(expected[child] * (1 - expected[child]) / len(draws)) + 1e-12
            assert abs((draws == child).mean() - expected[child]) <= 4 * error
        assert set(draws.tolist()) <= {0, 1, 2, RANK_ABSENT}


@given(pair=PAIRS)
def test_one_child_is_token_wise_rejection_sampling(pair):
    p, q = pair
    for token, mass in enumerate(p):
        if mass > 0:
            expected = min(1.0, float(q[token] / mass))
            for rule in (SiblingRule.SPECINFER, SiblingRule.SEQUOIA):
                found = child_posterior(rule, _floats(p), _floats(q), token, 1)
                assert found[0] == pytest.approx(expected)


@given(pair=PAIRS, num_children=st.integers(1, 4))
def test_specinfer_needs_the_ratio_and_how_often_earlier_children_fail(pair, num_children):
    p, q = np.array(_floats(pair[0])), np.array(_floats(pair[1]))
    accepted = child_probabilities(SiblingRule.SPECINFER, p, q, num_children)
    rejected = 1.0 - np.concatenate([[0.0], np.cumsum(accepted)[:-1]])
    for token in np.flatnonzero(p):
        found = specinfer_posterior(q[token] / p[token], rejected)
        expected = child_posterior(SiblingRule.SPECINFER, p, q, int(token), num_children)
        assert found == pytest.approx(expected, abs=1e-9)


def test_the_same_ratio_and_rank_go_with_different_second_children():
    # Two positions that a recording of rank and q(v)/p(v) cannot tell apart.
    first = child_posterior(SiblingRule.SEQUOIA, (0.5, 0.3, 0.2), (0.25, 0.45, 0.3), 0, 2)
    second = child_posterior(SiblingRule.SEQUOIA, (0.5, 0.5, 0.0), (0.25, 0.5, 0.25), 0, 2)
    assert first[0] == second[0] == pytest.approx(0.5)
    assert first[1] != pytest.approx(second[1])


@given(pair=PAIRS)
def test_more_children_change_none_before(pair):
    p, q = _floats(pair[0]), _floats(pair[1])
    token = int(np.argmax(p))
    for rule in SiblingRule:
        longer = child_posterior(rule, p, q, token, 2)
        assert child_posterior(rule, p, q, token, 1) == pytest.approx(longer[:1])
        assert longer.sum() <= 1 + 1e-9


def test_orders_too_many_to_sum_are_refused_and_drawn_instead():
    p = np.full(500, 1 / 500)
    q = np.arange(1.0, 501.0)
    with pytest.raises(TreeError, match="draw them instead"):
        child_posterior(SiblingRule.SEQUOIA, p, q, 3, 4)
    assert 0 <= draw_child(SiblingRule.SEQUOIA, p, q, 499, 4, np.random.default_rng(0)) < 4


def test_a_token_that_the_target_never_emits_has_no_posterior():
    with pytest.raises(ValueError, match="can emit"):
        child_posterior(SiblingRule.TOP_K, (1.0, 0.0), (0.5, 0.5), 1, 2)
