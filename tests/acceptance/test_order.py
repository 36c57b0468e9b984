"""The order of acceptance rates."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcore.acceptance.order import rate_orders

RATES = st.lists(st.floats(0.0, 1.0), min_size=1, max_size=8)


def test_two_orders_of_one_mean_give_different_tokens():
    """1 + .9 + .9 · .3 and 1 + .3 + .3 · .9; the mean .6 says 1 + .6 + .36 of both."""
    found = rate_orders([0.3, 0.9])
    assert found.falling.mean_emitted_tokens == pytest.approx(2.17)
    assert found.rising.mean_emitted_tokens == pytest.approx(1.57)
    assert found.given == found.rising
    assert found.iid_tokens == pytest.approx(1.96)


@given(RATES)
def test_no_order_gives_more_than_falling_or_less_than_rising(rates):
    found = rate_orders(rates)
    low, high = found.rising.mean_emitted_tokens, found.falling.mean_emitted_tokens
    assert low - 1e-12 <= found.given.mean_emitted_tokens <= high + 1e-12
    assert sorted(found.falling.rates) == sorted(found.rising.rates) == sorted(rates)


@given(st.floats(0.0, 1.0), st.integers(1, 8))
def test_equal_rates_have_one_order_and_are_their_mean(rate, count):
    found = rate_orders([rate] * count)
    assert found.falling.mean_emitted_tokens == found.rising.mean_emitted_tokens
    assert found.iid_tokens == pytest.approx(found.given.mean_emitted_tokens)


def test_no_rate_or_one_above_one_is_refused():
    for rates in ([], [0.5, 1.1], np.zeros((2, 2))):
        with pytest.raises(ValueError, match="expected"):
            rate_orders(rates)
