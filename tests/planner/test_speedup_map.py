"""The map over batch and drafts, and tables by batch size."""

from dataclasses import replace

import pytest

from simcore.planner.estimate import estimate, estimate_survival
from simcore.planner.speedup_map import (
    SpeedupMap,
    batch_size_table,
    break_even_acceptance,
    map_batch_sizes,
    speedup_map,
)


@pytest.fixture(scope="module")
def made(load_bundled) -> tuple:
    scenario, stored = load_bundled("h100_chat")
    survivals = tuple(estimate_survival(stored, scenario, "eagle").values())
    return scenario, stored, speedup_map(stored, "eagle", survivals, 300)


def test_the_map_equals_the_estimate_and_marks_what_lies_outside(made):
    scenario, stored, found = made
    sizes = tuple(size for size in found.batch_sizes if size <= 64)
    expected = estimate(stored, scenario, "eagle", batch_sizes=sizes, context_tokens=300)
    for row, size in enumerate(sizes):
        assert found.points[row] == expected.points[size]
    limit = stored.profile.cost.domain.max_batch_size
    for size, row in zip(found.batch_sizes, found.points, strict=True):
        assert size <= limit or all(point.is_extrapolated for point in row)


def test_batches_are_powers_of_two_up_to_four_times_the_measured():
    assert map_batch_sizes(16) == (1, 2, 4, 8, 16, 32, 64)
    assert map_batch_sizes(12) == (1, 2, 4, 8, 16, 32)


def _with_speedups(found: SpeedupMap, rows: dict[int, tuple[float, ...]]) -> SpeedupMap:
    points = tuple(
        tuple(replace(point, speedup=speedup) for point, speedup in zip(own, wanted, strict=True))
        for own, wanted in zip(found.points, rows.values(), strict=False)
    )
    return replace(found, batch_sizes=tuple(rows), points=points)


def test_a_table_drafts_the_fastest_length_and_nothing_where_none_pays(made):
    gammas = [each.gamma for each in made[2].survivals]
    assert gammas == [1, 3, 5, 7]
    found = _with_speedups(
        made[2],
        {
            1: (1.1, 1.2, 1.3, 1.4),
            2: (1.1, 1.2, 1.3, 1.4),
            4: (1.1, 1.2, 1.1, 0.9),
            8: (0.9, 0.8, 0.7, 0.6),
        },
    )
    assert batch_size_table(found, 32) == ((1, 2, 7), (3, 4, 3), (5, 32, 0))
    assert batch_size_table(found, 3) == ((1, 2, 7), (3, 3, 3))
    assert batch_size_table(found, 32, least_speedup=1.3) == ((1, 2, 7), (3, 32, 0))


def test_a_table_never_drafts_more_at_a_larger_batch_because_engines_refuse_that(made):
    rising = {1: (1.3, 1.2, 1.1, 1.0), 2: (1.1, 1.2, 1.3, 1.4), 4: (0.9, 0.9, 0.9, 0.9)}
    assert batch_size_table(_with_speedups(made[2], rising), 8) == ((1, 2, 1), (3, 8, 0))


def test_at_the_break_even_acceptance_a_cycle_emits_its_break_even_tokens(made):
    point = made[2].at(8, 1)
    rate = break_even_acceptance(point, 3)
    assert 1.0 + 3 * rate == pytest.approx(point.break_even_tokens)
