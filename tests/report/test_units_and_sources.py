"""A report never shows a number without its unit, nor a table without where it comes from."""

import re

import pytest

from simcore.report.flags import engine_settings
from simcore.report.render import render_html, render_markdown
from simcore.report.view import view_of
from tests.report.test_write import Page

RESULTS = ("candidates", "load", "accounts")
UNITS = (
    *("s", "ms", "µs", "×", "%", "token", "tokens", "requests/s", "tokens/s", "cycle", "cycles"),
    *("J", "kJ", "MJ", "W", "USD", "GB"),
)
NUMBER = r"[-+]?[\d,]+(?:\.\d+)?(?:e[-+]?\d+)?"
ENDING = "|".join(re.escape(unit) for unit in UNITS)
# A number with its unit, or with an interval in that unit behind it.
QUANTITY = re.compile(rf"{NUMBER} (?:{ENDING})(?: \({NUMBER} to {NUMBER}\))?")
HEADER_WITH_UNIT = re.compile(rf"\(.*\b(?:{ENDING})\)$")
NAMES = ("candidate", "proposer", "reason", "against the best", "queue")


def bare_numbers(header: str, cell: str) -> bool:
    """Whether a cell holds a number whose unit is neither in it nor in its column's header."""
    if not re.search(r"\d", cell) or HEADER_WITH_UNIT.search(header) or header in NAMES:
        return False
    return QUANTITY.fullmatch(cell) is None


@pytest.fixture(scope="module")
def plans(plan):
    """The plan as it is, and one whose profile states power and price."""
    consumed = {
        "energy_j": 5e6,
        "energy_j_per_output_token": 0.3,
        "average_power_w": 450.0,
        "cost_usd": 1.5,
        "cost_usd_per_million_output_tokens": 0.42,
    }
    priced = tuple(
        each.model_copy(
            update={
                "summary": each.summary.model_copy(
                    update={"consumption": each.summary.consumption.model_copy(update=consumed)}
                )
            }
        )
        for each in plan.candidates
    )
    return {"as measured": plan, "priced": plan.model_copy(update={"candidates": priced})}


@pytest.mark.parametrize("name", ["as measured", "priced"])
def test_every_number_of_a_results_table_has_its_unit(plans, name):
    tables = [table for key in RESULTS for table in view_of(plans[name]).sections[key]]
    assert len(tables) == (8 if name == "priced" else 7)
    bare = [
        (table.caption, header, cell)
        for table in tables
        for row in table.rows
        for header, cell in list(zip(table.header, row, strict=True))[1:]
        if bare_numbers(header, cell)
    ]
    assert bare == []


def test_every_results_table_says_what_its_numbers_are_from(plan):
    for key in RESULTS:
        for table in view_of(plan).sections[key]:
            assert table.source, table.caption


@pytest.mark.parametrize(
    ("header", "cell", "is_bare"),
    [
        ("TTFT p95", "12.3", True),
        ("TTFT p95", "12.3 ms", False),
        ("speed-up", "1.2 × (1.1 to 1.3)", False),
        ("speed-up", "1.2 (1.1 to 1.3)", True),
        ("γ (draft tokens)", "2, 4", False),
        ("goodput", "–", False),
        ("E2E", "3 s and 4", True),
    ],
)
def test_a_number_without_unit_is_found(header, cell, is_bare):
    assert bare_numbers(header, cell) == is_bare


def cells_of_page(text: str) -> list[str]:
    return re.findall(r"<td>(.*?)</td>", text, re.DOTALL)


def test_the_pages_hold_the_tables_of_the_view_and_no_other_number_in_a_cell(plan):
    """So that what holds for the view holds for what is rendered."""
    settings, view = engine_settings(plan), view_of(plan)
    tables = [table for found in view.sections.values() for table in found]
    number_of_cells = sum(len(row) - 1 for table in tables for row in table.rows)
    assert len(cells_of_page(render_html(plan, settings))) == number_of_cells
    rows = [line for line in render_markdown(plan, settings).splitlines() if line.startswith("| ")]
    assert len(rows) == sum(len(table.rows) + 2 for table in tables if table.rows)


def test_page_and_markdown_name_profile_source_version_and_seed(plan):
    settings = engine_settings(plan)
    page = Page(render_html(plan, settings)).text
    markdown = render_markdown(plan, settings)
    for text in (page, markdown.replace("\\", "")):
        for fact in (
            f"published profile {plan.profile.name}",
            f"sha256 {plan.profile.sha256}",
            f"specplan {plan.origin['specplan_version']}",
            f"seed {plan.scenario.seed}",
            f"{plan.speedup.num_replications} replications",
        ):
            assert fact in text, fact
