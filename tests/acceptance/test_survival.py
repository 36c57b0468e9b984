"""Survival arithmetic against hand computation and published values."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcore.acceptance.survival import (
    conditional_from_survival,
    iid_mean_emitted_tokens,
    mean_emitted_tokens,
    pooled_acceptance_rate,
    survival_from_conditional,
    survival_from_cycles,
)
from simcore.planner.speedup import latency_speedup

RATES = st.lists(st.floats(0.0, 1.0), min_size=0, max_size=16)


def test_conditional_rates_give_the_survival_computed_by_hand():
    survival = survival_from_conditional([0.85, 0.75, 0.60, 0.40])
    assert np.allclose(survival, [0.8500, 0.6375, 0.3825, 0.1530], atol=1e-12)
    assert mean_emitted_tokens(survival) == pytest.approx(3.0230, abs=1e-12)


def test_one_rate_at_the_mean_of_four_positions_predicts_too_few_tokens():
    assert np.mean([0.85, 0.75, 0.60, 0.40]) == pytest.approx(0.65)
    assert iid_mean_emitted_tokens(0.65, 4) == pytest.approx(2.5256, abs=5e-5)


def test_two_orders_of_the_same_rates_give_different_yields():
    falling = mean_emitted_tokens(survival_from_conditional([0.9, 0.3]))
    rising = mean_emitted_tokens(survival_from_conditional([0.3, 0.9]))
    assert falling == pytest.approx(2.17)
    assert rising == pytest.approx(1.57)


@pytest.mark.parametrize(("rate", "gamma", "tokens"), [(0.0, 5, 1.0), (1.0, 5, 6.0), (0.7, 0, 1.0)])
def test_the_extremes_of_one_rate_are_exact(rate, gamma, tokens):
    assert iid_mean_emitted_tokens(rate, gamma) == tokens


@given(rate=st.floats(0.0, 0.999), gamma=st.integers(0, 16))
def test_one_rate_follows_the_closed_form_of_leviathan(rate, gamma):
    expected = (1 - rate ** (gamma + 1)) / (1 - rate)
    assert iid_mean_emitted_tokens(rate, gamma) == pytest.approx(expected, rel=1e-9)


@given(rates=RATES)
def test_survival_never_increases_and_tokens_lie_between_one_and_gamma_plus_one(rates):
    survival = survival_from_conditional(rates)
    assert (np.diff(survival) <= 0).all()
    assert 1.0 <= mean_emitted_tokens(survival) <= len(rates) + 1


@given(rates=st.lists(st.floats(0.01, 1.0), min_size=1, max_size=16))
def test_conditional_rates_survive_the_way_there_and_back(rates):
    assert np.allclose(conditional_from_survival(survival_from_conditional(rates)), rates)


@given(accepted=st.lists(st.integers(0, 8), min_size=1, max_size=50))
def test_mean_tokens_of_counted_cycles_is_the_mean_of_accepted_plus_one(accepted):
    survival = survival_from_cycles(accepted, 8)
    assert mean_emitted_tokens(survival) == pytest.approx(np.mean(accepted) + 1)


def test_the_pooled_rate_counts_only_drafts_that_were_tested():
    # Cycles: 2 of 4 accepted (3 tested), 4 of 4 (4 tested), nothing proposed (none tested).
    assert pooled_acceptance_rate([2, 4, 0], [4, 4, 0]) == pytest.approx(6 / 7)


@pytest.mark.parametrize("bad", [[-0.1], [1.1], [float("nan")]])
def test_a_rate_outside_zero_and_one_is_refused(bad):
    with pytest.raises(ValueError, match="between 0 and 1"):
        survival_from_conditional(bad)


def test_increasing_survival_is_refused():
    with pytest.raises(ValueError, match="non-increasing"):
        conditional_from_survival([0.5, 0.6])


def test_no_cycle_gives_no_survival():
    with pytest.raises(ValueError, match="no cycle"):
        survival_from_cycles([], 3)


def test_speedup_is_one_where_tokens_pay_exactly_for_the_longer_cycle():
    assert latency_speedup(1.5, 0.020, 0.030) == pytest.approx(1.0)
    assert latency_speedup(3.0, 0.020, 0.030) == pytest.approx(2.0)
    with pytest.raises(ValueError, match="above 0"):
        latency_speedup(2.0, 0.0, 0.03)


# Leviathan et al. 2023, table 4: α, γ, c -> expected speed-up of the paper's own formula.
@pytest.mark.parametrize(
    ("alpha", "gamma", "cost", "speedup"),
    [(0.75, 7, 0.02, 3.16), (0.82, 7, 0.11, 2.50), (0.68, 5, 0.04, 2.35), (0.56, 3, 0.11, 1.54)],
)
def test_speedup_reproduces_the_published_formula_values(alpha, gamma, cost, speedup):
    tokens = iid_mean_emitted_tokens(alpha, gamma)
    assert latency_speedup(tokens, 1.0, gamma * cost + 1.0) == pytest.approx(speedup, abs=0.006)


# EAGLE, arXiv 2401.15077, table 2: n-α by position -> chain tokens to depth 5.
@pytest.mark.parametrize(
    ("rates", "by_position", "by_one_rate"),
    [
        ((0.79, 0.74, 0.72, 0.73, 0.67), 3.31, 3.60),
        ((0.75, 0.69, 0.65, 0.64, 0.64), 2.96, 3.29),
    ],
)
def test_rates_by_position_reproduce_eagle_and_one_rate_overstates(rates, by_position, by_one_rate):
    assert mean_emitted_tokens(survival_from_conditional(rates)) == pytest.approx(
        by_position, abs=0.006
    )
    assert iid_mean_emitted_tokens(rates[0], 5) == pytest.approx(by_one_rate, abs=0.006)
