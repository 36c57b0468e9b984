"""The reference is what the schemas, the docstrings and the commands say today."""

import re

import pytest

import simcore as sp
from simcore.cli import app
from simcore.planner.published_schema import published_schema
from tests.docs.command_page import commands
from tests.docs.reference import PAGES, REFERENCE
from tests.docs.schema_page import type_of


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_what_the_code_says(name):
    assert (REFERENCE / name).read_text(encoding="utf-8") == PAGES[name](), "run: make docs"


def test_no_page_says_that_it_is_made_where_nothing_makes_it():
    made = {
        path.name
        for path in REFERENCE.iterdir()
        if "Made by `make docs`" in path.read_text(encoding="utf-8")
    }
    assert made == set(PAGES)


@pytest.mark.parametrize("kind", ["scenario", "profile", "plan"])
def test_every_field_of_every_model_has_its_row(kind):
    schema = published_schema(kind)
    page = (REFERENCE / f"{kind}-fields.md").read_text(encoding="utf-8")
    for name, model in {schema["title"]: schema, **schema["$defs"]}.items():
        section = page.split(f"## {name}\n")[1].split("\n## ")[0]
        assert re.findall(r"^\| `(\w+)` \|", section, re.M) == list(model.get("properties", {}))


def test_links_inside_a_page_lead_to_a_section():
    for name in PAGES:
        page = (REFERENCE / name).read_text(encoding="utf-8")
        sections = {line[3:].lower() for line in page.splitlines() if line.startswith("## ")}
        assert set(re.findall(r"\]\(#([^)]+)\)", page)) <= sections


def test_every_public_name_has_words_of_its_own():
    page = (REFERENCE / "python.md").read_text(encoding="utf-8")
    for name in (*sp.__all__, *(f"figures.{each}" for each in sp.figures.__all__)):
        section = re.split(rf"^#+ sp\.{re.escape(name)}\n", page, flags=re.M)[1]
        words = re.sub(r"```.*?```", "", section.split("\n## ")[0].split("\n### ")[0], flags=re.S)
        assert words.strip() or name == "CallerPolicy", name  # that is the name of a type


def test_nothing_of_one_run_is_written():
    for name in PAGES:
        page = (REFERENCE / name).read_text(encoding="utf-8")
        assert not re.search(r"0x[0-9a-f]{6}|/home/|/tmp/", page)


def test_every_command_has_help_and_says_what_each_option_is():
    found = list(commands("specplan", app))
    assert len(found) > 15
    assert [path for path, words, _ in found if not words] == []
    page = (REFERENCE / "command-line.md").read_text(encoding="utf-8")
    assert re.findall(r"^\|.*\|\s*\|$", page, re.M) == []


def test_types_are_said_with_their_bounds():
    assert type_of({"type": "integer", "minimum": 1, "maximum": 1000}) == "integer ≥ 1, ≤ 1,000"
    assert type_of({"anyOf": [{"type": "number"}, {"type": "null"}]}) == "number or null"
    assert type_of({"type": "array", "items": {"$ref": "#/$defs/Hour"}}) == "list of [Hour](#hour)"
    assert type_of({"enum": ["a", "b"]}) == '`"a"`, `"b"`'
