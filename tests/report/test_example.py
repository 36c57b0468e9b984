"""The example of the documentation is a plan of this specplan, with all its files and pictures."""

import json

import jsonschema
import pytest

from simcore import open_scenario, read_plan
from simcore.planner.plan_file import PLAN_FILE, SCHEMA_VERSION
from simcore.planner.published_schema import published_schema
from simcore.report.render import figures_of
from simcore.report.view import verdict_sentence
from simcore.report.write import FILES, render_files
from simcore.scenario import load_scenario
from tests.report.make_example import FOLDER, NAME, PICTURES

DOCS = FOLDER.parents[1]
LARGE_BYTES = 1_000_000


@pytest.fixture(scope="module")
def plan():
    return read_plan(FOLDER)


def test_the_example_meets_the_published_schema_of_the_current_version():
    raw = json.loads((FOLDER / PLAN_FILE).read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator(published_schema("plan")).validate(raw)
    assert raw["schema_version"] == SCHEMA_VERSION


def test_it_is_of_the_bundled_scenario_as_it_is_today(plan):
    assert load_scenario(FOLDER / "scenario.yaml") == open_scenario(NAME) == plan.scenario


def test_it_has_every_file_and_a_picture_of_every_figure(plan):
    assert {path.name for path in FOLDER.iterdir()} >= set(FILES)
    pictures = {path.name for path in PICTURES.iterdir()}
    assert pictures == {"report.png", *(f"{name}.svg" for name in figures_of(plan))}
    for path in PICTURES.glob("*.svg"):
        text = path.read_text(encoding="utf-8")
        assert text.startswith("<svg")
        assert "<script" not in text


def test_page_and_markdown_state_the_decision_of_the_plan(plan):
    for name in ("report.html", "report.md"):
        text = (FOLDER / name).read_text(encoding="utf-8").replace("\\", "")
        assert verdict_sentence(plan) in text


def test_its_scripts_are_those_that_the_plan_gives_today(plan):
    rendered = render_files(plan)
    for path in FOLDER.glob("*.sh"):
        assert path.read_text(encoding="utf-8") == rendered[path.name]


def test_only_one_page_of_the_documentation_carries_the_chart_library():
    pages = [path for path in DOCS.rglob("*.html") if path.stat().st_size > LARGE_BYTES]
    assert pages == [FOLDER / "report.html"]
