"""The published schemas: those in docs are the models', documents meet them, units are said."""

import json
import re
from pathlib import Path
from typing import get_args

import jsonschema
import pytest
import yaml

from simcore.planner.plan import make_plan
from simcore.planner.published_schema import DocumentKind, published_schema
from simcore.profile.store import bundled_profiles
from simcore.scenario_files import bundled_scenarios
from tests.factories import make_scenario

KINDS = get_args(DocumentKind)
SCHEMAS = Path(__file__).parents[2] / "docs" / "schemas"
# A name that says what a number counts or in what it is measured.
UNIT = re.compile(
    r"(^|_)(s|bytes|tokens?|requests?|steps|j|w|usd|cycles|hour|fraction|probability)(_|$)"
    r"|^num_|^schema_version$"
)


def models(schema: dict) -> dict[str, dict]:
    return {schema["title"]: schema, **schema["$defs"]}


def holds_number(field: object) -> bool:
    """Whether a value of this field is a number, or a list or mapping of numbers."""
    if isinstance(field, list):
        return any(holds_number(each) for each in field)
    if not isinstance(field, dict):
        return False
    parts = ("anyOf", "items", "prefixItems", "additionalProperties")
    return field.get("type") in ("integer", "number") or any(
        holds_number(field.get(part)) for part in parts
    )


@pytest.mark.parametrize("kind", KINDS)
def test_the_schema_in_the_documentation_is_that_of_the_models(kind):
    written = json.loads((SCHEMAS / f"{kind}.schema.json").read_text(encoding="utf-8"))
    assert written == published_schema(kind), f"run: specplan schema {kind} > docs/schemas/…"


@pytest.mark.parametrize("kind", KINDS)
def test_a_schema_is_one_and_every_model_says_what_it_is(kind):
    schema = published_schema(kind)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert [name for name, each in models(schema).items() if not each.get("description")] == []


@pytest.mark.parametrize("kind", KINDS)
def test_every_number_has_its_unit_in_its_name_or_a_description(kind):
    silent = [
        f"{model}.{name}"
        for model, each in models(published_schema(kind)).items()
        for name, field in each.get("properties", {}).items()
        if holds_number(field) and not UNIT.search(name) and not field.get("description")
    ]
    assert silent == []


def test_a_number_without_unit_would_be_found():
    assert holds_number({"anyOf": [{"type": "number"}, {"type": "null"}]})
    assert holds_number({"type": "array", "prefixItems": [{"type": "integer"}]})
    assert not holds_number({"type": "string"})
    assert not UNIT.search("threshold")
    assert UNIT.search("kv_bytes_per_token")
    assert UNIT.search("mean_s")


def test_a_plan_meets_its_schema_and_a_damaged_one_does_not(recorded_profile):
    scenario = make_scenario(
        recorded_profile, **{"workload.num_requests": 40, "speculation.proposer": "ngram"}
    )
    raw = json.loads(
        make_plan(scenario, stored=recorded_profile, num_replications=2).model_dump_json()
    )
    validator = jsonschema.Draft202012Validator(published_schema("plan"))
    assert list(validator.iter_errors(raw)) == []
    for field, value in (("schema_version", 2), ("decision", {}), ("surprise", 1)):
        assert list(validator.iter_errors(raw | {field: value})), field


@pytest.mark.parametrize("path", bundled_scenarios().values(), ids=bundled_scenarios())
def test_a_bundled_scenario_meets_the_schema_as_it_is_written(path):
    raw = yaml.safe_load(path.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator(published_schema("scenario")).validate(raw)


@pytest.mark.parametrize("folder", bundled_profiles().values(), ids=bundled_profiles())
def test_a_bundled_profile_meets_the_schema_as_it_is_written(folder):
    raw = json.loads((folder / "profile.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator(published_schema("profile")).validate(raw)
