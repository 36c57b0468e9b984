"""The tutorial runs from top to bottom; what is committed of it is small and clean."""

import json
import re

import pytest

from tests.docs import tutorial

LARGEST_BYTES = 600_000
PLOTLY = "application/vnd.plotly.v1+json"


@pytest.fixture(scope="module")
def committed():
    return tutorial.read()


@pytest.fixture(scope="module")
def executed():
    return tutorial.execute(tutorial.read())


def shown(notebook) -> list[dict]:
    """Data of every output, by cell in order."""
    return [
        output.data
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
        if "data" in output
    ]


def test_every_cell_runs_and_shows_what_kind_it_did(committed, executed):
    kinds = [[sorted(data) for data in shown(each)] for each in (committed, executed)]
    assert kinds[0] == kinds[1]


def test_results_are_shown_as_tables_and_figures_as_plotly(executed):
    found = shown(executed)
    assert sum("<table" in data.get("text/html", "") for data in found) >= 6
    assert sum(PLOTLY in data for data in found) >= 6


def test_the_file_is_small_and_holds_no_path_of_a_machine_and_no_warning(committed):
    text = tutorial.TUTORIAL.read_text(encoding="utf-8")
    assert len(text.encode()) < LARGEST_BYTES
    assert not re.search(r"/tmp|/root|/home|/Users|site-packages", text)
    assert "stderr" not in {
        output.get("name") for cell in committed.cells for output in cell.get("outputs", [])
    }


def test_the_tutorial_was_run_from_top_to_bottom(committed):
    code = [cell for cell in committed.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    assert set(committed.metadata) == {"kernelspec"}


def test_links_of_the_tutorial_lead_somewhere(committed):
    words = [cell.source for cell in committed.cells if cell.cell_type == "markdown"]
    links = re.findall(r"\]\(([^)#:]+)\)", "\n".join(words))
    assert len(links) >= 3
    assert [each for each in links if not (tutorial.TUTORIAL.parent / each).exists()] == []


def test_the_first_cell_is_five_lines_to_a_decision(committed):
    first = next(cell for cell in committed.cells if cell.cell_type == "code")
    assert len(first.source.split("\n")) <= 5
    assert "Speculate with" in json.dumps(first.outputs)
