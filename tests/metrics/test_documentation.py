"""docs/reference/metrics.md defines what a summary holds, all of it and nothing else."""

import re
from pathlib import Path

from pydantic import BaseModel

from simcore.metrics.summary import Distribution, Summary

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "metrics.md"


def _documented() -> dict[str, str]:
    """Field -> definition, from the page's table."""
    found = {}
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)]
        if len(cells) == 6 and cells[2].startswith("`"):
            for name in re.findall(r"`([^`]+)`", cells[2]):
                assert name not in found, f"{name} is defined twice"
                found[name] = cells[3]
    return found


def _fields(model: type[BaseModel], prefix: str = "") -> set[str]:
    """Dotted names of every number; a latency's own name, and its points once for all."""
    names = set()
    for name, field in model.model_fields.items():
        kind = field.annotation
        if kind is Distribution:
            names |= {prefix + name} | {f"*.{point}" for point in Distribution.model_fields}
        elif isinstance(kind, type) and issubclass(kind, BaseModel):
            names |= _fields(kind, f"{prefix}{name}.")
        else:
            names.add(prefix + name)
    return names


def test_every_field_of_a_summary_is_defined():
    assert _fields(Summary) - set(_documented()) == set()


def test_every_defined_field_exists_and_has_a_definition():
    documented = _documented()
    assert set(documented) - _fields(Summary) == set()
    assert [name for name, definition in documented.items() if len(definition) < 1] == []
