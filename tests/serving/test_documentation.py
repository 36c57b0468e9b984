"""The pages name every field and every default that a deployment or a policy has."""

import re
from pathlib import Path

import pytest
import yaml
from pydantic_core import PydanticUndefined

from simcore import speculation
from simcore.scenario import Deployment, Failures, Outage
from simcore.speculation import Speculation
from tests.factories import make_scenario

DOCS = Path(__file__).parents[2] / "docs"
SCENARIO, POLICIES, PRESETS = (
    (DOCS / "reference" / name).read_text(encoding="utf-8")
    for name in ("scenario.md", "policies.md", "presets.md")
)
POLICY_KINDS = [
    kind
    for kind in vars(speculation).values()
    if isinstance(kind, type) and "kind" in getattr(kind, "model_fields", {})
]


@pytest.mark.parametrize("model", [Deployment, Failures, Outage, Speculation])
def test_every_field_is_named_on_the_scenarios_page(model):
    nested = {"failures"}  # a section of its own
    missing = {n for n in model.model_fields if f"`{n}`" not in SCENARIO} - nested
    assert missing == set()


@pytest.mark.parametrize("model", [Deployment, Failures, Speculation])
def test_every_default_on_the_scenarios_page_is_the_one_in_force(model):
    rows = dict(re.findall(r"^\|[^|]*\| `(\w+)` \| ([^|]+) \|", SCENARIO, flags=re.MULTILINE))
    for name, field in model.model_fields.items():
        if isinstance(field.default, bool | int | float | str):
            said = rows[name]
            assert said == str(field.default).lower().removesuffix(".0"), name


@pytest.mark.parametrize("kind", POLICY_KINDS, ids=lambda kind: kind.__name__)
def test_every_policy_has_a_rule_and_its_defaults(kind):
    name = kind.model_fields["kind"].annotation.__args__[0]
    assert f"| `{name}` |" in POLICIES
    line = re.search(rf"^\| `{name}` \| (.*) \|$", POLICIES.split("Fields and defaults")[1], re.M)
    for field, info in kind.model_fields.items():
        if field == "kind":
            continue
        assert line is not None, name
        assert f"`{field}`" in line[1]
        if isinstance(info.default, int | float):
            assert f"`{field}` {info.default:g}" in line[1]
        assert (info.default is PydanticUndefined) == (f"`{field}`, required" in line[1])


@pytest.mark.parametrize("page", [POLICIES, PRESETS], ids=["policies", "presets"])
def test_every_example_is_a_scenario(twin_profile, page):
    examples = re.findall(r"```yaml\n(.*?)```", page, flags=re.DOTALL)
    assert examples
    for example in examples:
        for section, fields in yaml.safe_load(example).items():
            make_scenario(
                twin_profile, **{f"{section}.{name}": value for name, value in fields.items()}
            )
