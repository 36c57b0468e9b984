"""A published schema as a page: every field with its type, default and meaning."""

import json
from typing import Any

from simcore.planner.published_schema import published_schema

UNITS = (
    "A name carries its unit: `_s` seconds, `_per_s` a second, `_tokens` tokens, `_bytes` bytes, "
    "`_j` joules, `_w` watts, `_usd` US dollars, `_fraction` a share of one, `num_` a count. Where "
    "the name has none, the meaning says it."
)
TITLES = {
    "scenario": ("Fields of a scenario", "scenario.md", "scenarios in prose"),
    "profile": ("Fields of profile.json", "profile-format.md", "profiles in prose"),
    "plan": ("Fields of plan.json", "plan-file.md", "plans in prose"),
}
BOUNDS = (
    ("minimum", "≥"),
    ("exclusiveMinimum", ">"),
    ("maximum", "≤"),
    ("exclusiveMaximum", "<"),
    ("minItems", "items ≥"),
    ("maxItems", "items ≤"),
)

Schema = dict[str, Any]


def schema_page(kind: str) -> str:
    """Markdown: one section a model, the document itself first."""
    schema = published_schema(kind)
    title, link, prose = TITLES[kind]
    made = f"Made by `make docs` from `specplan schema {kind}`; [{prose}]({link})."
    lines = [f"# {title}", "", made, "", UNITS]
    models = {schema["title"]: schema, **schema["$defs"]}
    for name, model in models.items():
        lines += ["", f"## {name}", "", _words(model.get("description", "")), *_table(model)]
    return "\n".join(lines).rstrip() + "\n"


def _table(model: Schema) -> list[str]:
    if "enum" in model:
        return ["", f"One of {_values(model['enum'])}."]
    lines = ["", "| field | type | default | meaning |", "| --- | --- | --- | --- |"]
    required = model.get("required", [])
    for name, field in model.get("properties", {}).items():
        cells = (
            f"`{name}`",
            type_of(field),
            "required" if name in required else _default(field),
            _words(field.get("description", "")),
        )
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return lines


def type_of(field: Schema) -> str:
    """What a field may hold, in words, with its bounds."""
    if "$ref" in field:
        name = field["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    for union in ("anyOf", "oneOf"):
        if union in field:
            return " or ".join(dict.fromkeys(type_of(each) for each in field[union]))
    if "const" in field:
        return _values([field["const"]])
    if "enum" in field:
        return _values(field["enum"])
    bounds = (f"{sign} {field[key]:,}" for key, sign in BOUNDS if key in field)
    return f"{_kind(field)} {', '.join(bounds)}".rstrip()


def _kind(field: Schema) -> str:
    kind = field.get("type", "anything")
    if kind == "array" and "prefixItems" in field:
        return f"[{', '.join(type_of(each) for each in field['prefixItems'])}]"
    if kind == "array":
        return f"list of {type_of(field.get('items', {}))}"
    if kind == "object" and isinstance(field.get("additionalProperties"), dict):
        return f"name → {type_of(field['additionalProperties'])}"
    return str(kind)


def _default(field: Schema) -> str:
    if "default" not in field:
        return "its own defaults"
    default = field["default"]
    if isinstance(default, dict) and default:
        return "its own defaults"
    return "–" if default is None else f"`{json.dumps(default)}`"


def _values(values: list[Any]) -> str:
    return ", ".join(f"`{json.dumps(each)}`" for each in values)


def _words(text: str) -> str:
    return " ".join(text.split())
