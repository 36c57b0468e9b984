"""Races: the leader, what cannot be told from it, and errors no more often than promised."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcore.planner.race import LEVEL, race_level, seed_counts, standings

FEW_SEEDS = 5


def test_a_difference_that_every_seed_shows_is_decided_and_noise_is_not():
    rng = np.random.default_rng(1)
    luck = rng.normal(0.0, 0.3, FEW_SEEDS)  # common to all: common random numbers
    values = {
        0: np.exp(luck),
        1: np.exp(luck + 0.1 + rng.normal(0.0, 0.001, FEW_SEEDS)),
        2: np.exp(luck + rng.normal(0.0, 0.05, FEW_SEEDS)) * 1.001,
    }
    found = standings(values, larger_is_better=False)
    assert found is not None
    assert found.best in (0, 2)
    assert 1 in found.worse
    assert set(found.indistinguishable) == {0, 2} - {found.best}


@given(
    values=st.lists(
        st.lists(st.floats(0.01, 100.0), min_size=2, max_size=6), min_size=2, max_size=5
    ),
    larger=st.booleans(),
)
def test_standings_name_every_candidate_once_and_follow_the_sign(values, larger):
    by_id = {index: np.array(each) for index, each in enumerate(values)}
    found = standings(by_id, larger_is_better=larger)
    assert found is not None
    named = [found.best, *found.indistinguishable, *found.worse]
    assert sorted(named) == sorted(by_id)
    most = max(map(len, values))
    means = {index: each.mean() for index, each in by_id.items() if len(each) == most}
    assert means[found.best] == (max if larger else min)(means.values())
    stricter = standings(by_id, larger_is_better=larger, level=LEVEL / 100)
    assert set(stricter.worse) <= set(found.worse)  # a stricter test decides less


def test_candidates_without_values_lose_and_one_seed_decides_nothing():
    one_seed = {0: np.array([1.0]), 1: np.array([9.0])}
    assert standings(one_seed, larger_is_better=False).indistinguishable == (1,)
    missing = {0: np.array([1.0, 1.1]), 1: np.array([np.nan, np.nan])}
    assert standings(missing, larger_is_better=True).worse == (1,)
    assert standings({0: np.array([np.nan])}, larger_is_better=True) is None


def test_the_best_of_equals_is_dropped_no_more_often_than_the_level_says():
    rng = np.random.default_rng(3)
    races, candidates, dropped = 400, 6, 0
    for _ in range(races):
        values = {each: rng.normal(10.0, 1.0, 12) for each in range(candidates)}
        found = standings(values, larger_is_better=True, level=race_level(candidates, 1))
        dropped += found.best != 0 and 0 in found.worse  # candidate 0 is as good as any
    # By choosing the leader afterwards a few more lose than in a fixed comparison; still few.
    assert dropped / races < 2 * LEVEL


def test_a_candidate_that_a_race_dropped_does_not_win_by_the_luck_of_its_few_seeds():
    luck = np.array([-0.3, -0.3, -0.3, *[0.1] * 9])  # the first seeds are easy ones
    leader = np.exp(luck)
    loser = leader[:3] * np.exp([0.1, 0.101, 0.099])
    assert loser.mean() < leader.mean()
    found = standings({0: leader, 1: loser}, larger_is_better=False)
    assert (found.best, found.worse) == (0, (1,))


def test_seeds_double_until_all_are_spent():
    assert seed_counts(3, 20) == (3, 6, 12, 20)
    assert seed_counts(5, 3) == (3,)
    assert race_level(5, 2) == pytest.approx(LEVEL / 8)
