"""Every example of docs/reference/workloads.md is a workload, and every kind has one row there."""

import re
from pathlib import Path

import pytest
import yaml

from simcore.scenario import Workload
from simcore.workload.files import FORMATS
from simcore.workload_kinds import Arrivals, Lengths
from tests.workload.conftest import FIXED

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "workloads.md").read_text()
EXAMPLES = re.findall(r"```yaml\n(.*?)```", PAGE, flags=re.DOTALL)
KINDS = [
    each.model_fields["kind"].annotation.__args__[0]
    for union in (Arrivals, Lengths)
    for each in union.__args__
]


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_example_is_a_workload(example):
    raw = yaml.safe_load(example)
    whole = {"arrivals": {"kind": "batch"}, "lengths": FIXED} | raw.get("workload", raw)
    assert Workload.model_validate(whole)


@pytest.mark.parametrize("name", [*KINDS, *FORMATS])
def test_every_kind_and_format_has_a_row(name):
    assert f"| `{name}` |" in PAGE
