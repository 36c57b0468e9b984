"""Drift between two recordings: found where there is one, and not invented."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcore.acceptance.drift import compare_recordings
from simcore.errors import AcceptanceError
from tests.acceptance.recordings import lists_of, text_of_two_kinds


def _compare(first, second, gammas=(3,), **options):
    return compare_recordings(first, second, gammas, **{"draft_cost": 0.05, **options})


def test_a_recording_has_not_moved_from_itself():
    lists = text_of_two_kinds(60, 100, 1)
    found = _compare(lists, lists, (1, 3)).gammas[3]
    assert all(change.change == 0.0 and change.p_value == 1.0 for change in found.conditional)
    assert found.change_low < 0.0 < found.change_high


def test_a_fall_of_acceptance_is_found_at_every_position():
    before = text_of_two_kinds(80, 150, 2, easy=0.8, hard=0.8)
    after = text_of_two_kinds(80, 150, 3, easy=0.7, hard=0.7)
    found = _compare(before, after)
    assert all(change.significant for change in found.gammas[3].conditional)
    assert found.gammas[3].mean_emitted_tokens.change < 0.0
    assert found.gammas[3].change_high < 0.0


def test_requests_that_differ_make_no_drift_out_of_their_draw():
    """Chance is exceeded by 5 % of comparisons, not by most as if cycles were independent."""
    alarms = 0
    for seed in range(30):
        first = text_of_two_kinds(25, 150, 100 + seed, spread=1.0)
        second = text_of_two_kinds(25, 150, 200 + seed, spread=1.0)
        alarms += _compare(first, second).gammas[3].mean_emitted_tokens.significant
    assert alarms <= 6  # P(more) < 0.5 % at a rate of 5 %


def test_the_best_draft_length_falls_with_acceptance_and_staying_costs():
    before = text_of_two_kinds(60, 150, 4, easy=0.95, hard=0.95)
    after = text_of_two_kinds(60, 150, 5, easy=0.3, hard=0.3)
    found = _compare(before, after, (1, 3, 7))
    assert found.best_gamma_a == 7
    assert found.best_gamma_b == 1
    assert found.loss > 0.1


def test_off_is_best_where_a_draft_costs_more_than_it_brings():
    lists = text_of_two_kinds(40, 100, 6, easy=0.2, hard=0.2)
    assert _compare(lists, lists, draft_cost=0.5).best_gamma_b == 0


def test_runaways_are_left_out_and_counted():
    usual = text_of_two_kinds(30, 100, 7)
    with_runaway = lists_of(*usual.accepted, np.zeros(500, dtype=int))
    found = _compare(usual, with_runaway, runaway_tokens=500)
    assert (found.num_runaways_a, found.num_runaways_b) == (0, 1)
    assert found.gammas[3].mean_emitted_tokens.change == 0.0
    with pytest.raises(AcceptanceError, match="every output"):
        _compare(usual, with_runaway, runaway_tokens=50)


@given(seed=st.integers(0, 1000), gamma=st.integers(1, 6))
def test_p_values_are_probabilities_and_adjusting_never_lowers_the_largest(seed, gamma):
    first, second = text_of_two_kinds(8, 40, seed), text_of_two_kinds(8, 40, seed + 1)
    found = _compare(first, second, (gamma,)).gammas[gamma]
    values = [change.p_value for change in found.conditional]
    assert all(0.0 < value <= 1.0 for value in values)


@pytest.mark.parametrize(
    ("gammas", "cost"), [((), 0.1), ((3,), -0.1), ((3,), np.inf), ((3,), np.nan)]
)
def test_a_comparison_without_a_draft_length_or_with_a_cost_that_is_none_is_refused(gammas, cost):
    lists = text_of_two_kinds(5, 40, 1)
    with pytest.raises(AcceptanceError, match="expected"):
        _compare(lists, lists, gammas, draft_cost=cost)
