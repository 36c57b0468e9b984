"""Headlines of a report carry their intervals, in one unit each."""

import re

import pytest

from simcore.report.intervals_table import intervals_tables
from simcore.report.view import candidate_name, view_of


@pytest.fixture(scope="module")
def table(plan):
    (found,) = intervals_tables(plan, [candidate_name(each) for each in plan.candidates])
    return found


def test_every_candidate_has_a_row_and_every_headline_a_column(plan, table):
    assert [row[0] for row in table.rows] == [candidate_name(each) for each in plan.candidates]
    assert {"TTFT mean", "TPOT mean", "E2E mean", "goodput", "mean acceptance length"} <= set(
        table.header
    )
    assert table in view_of(plan).sections["candidates"]


def test_a_cell_holds_value_and_bounds_in_one_unit(plan, table):
    column = table.header.index("TPOT mean")
    for candidate, row in zip(plan.candidates, table.rows, strict=True):
        (found,) = (each for each in candidate.intervals if each.metric == "tpot.mean_s")
        value, low, high = re.fullmatch(r"(\S+) ms \((\S+) to (\S+)\)", row[column]).groups()
        assert float(value) == pytest.approx(1000 * found.value, rel=6e-3)
        assert float(low) == pytest.approx(1000 * found.interval[0], rel=6e-3)
        assert float(high) == pytest.approx(1000 * found.interval[1], rel=6e-3)


def test_a_plan_of_before_without_intervals_has_no_such_table(plan):
    bare = tuple(each.model_copy(update={"intervals": ()}) for each in plan.candidates)
    assert intervals_tables(plan.model_copy(update={"candidates": bare}), []) == ()
