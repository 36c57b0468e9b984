"""A report shows energy and cost where the profile lets it, and is silent where not."""

import csv
import io

import pytest

from simcore.metrics.consumption import Consumption
from simcore.planner.document import Plan
from simcore.report.flags import engine_settings
from simcore.report.render import render_html, render_markdown
from simcore.report.tables_csv import candidates_csv

NAMES = tuple(Consumption.model_fields)
PRICED = Consumption(
    energy_j=None,
    energy_j_per_output_token=None,
    average_power_w=None,
    cost_usd=0.5,
    cost_usd_per_million_output_tokens=12.25,
)


@pytest.fixture(scope="module")
def priced_plan(plan: Plan) -> Plan:
    candidates = tuple(
        each.model_copy(update={"summary": each.summary.model_copy(update={"consumption": PRICED})})
        for each in plan.candidates
    )
    return plan.model_copy(update={"candidates": candidates})


def test_the_page_and_the_text_have_the_table_only_where_a_figure_is_known(plan, priced_plan):
    for render in (render_html, render_markdown):
        assert "Energy and cost" not in render(plan, engine_settings(plan))
        shown = render(priced_plan, engine_settings(priced_plan))
        assert "Energy and cost" in shown
        assert "12.25 USD" in shown


def test_the_csv_has_only_the_columns_that_are_known(plan, priced_plan):
    def columns(of: Plan) -> dict[str, str]:
        return next(csv.DictReader(io.StringIO(candidates_csv(of))))

    assert set(NAMES) & set(columns(plan)) == set()
    known = columns(priced_plan)
    assert set(NAMES) & set(known) == {"cost_usd", "cost_usd_per_million_output_tokens"}
    assert float(known["cost_usd"]) == 0.5
