"""The Python interface as a page: every public name with its signature and docstring."""

import inspect
import re
from dataclasses import fields, is_dataclass
from functools import cached_property
from types import ModuleType
from typing import Any

from pydantic import BaseModel

import simcore as sp

INTRODUCTION = """\
# Python interface

Made by `make docs` from the docstrings. `import simcore as sp`; every name below is one of `sp`,
and is loaded when it is first used. In a notebook results show as tables, and figures as Plotly
figures."""
MODULE_PATHS = re.compile(r"\b(?:[a-z_]\w*\.)+(?=[A-Za-z_])")  # simcore.scenario.Scenario
ARRAY = re.compile(r"ndarray\[tuple\[Any, \.\.\.\], dtype\[(\w+)\]\]")
QUOTED_TYPE = re.compile(r"'((?:\w+\.)+\w+(?: \| None)?)'")  # an import of type checkers alone
FUNCTION = re.compile(r"<function (\w+) at 0x[0-9a-f]+>")
LINE_WIDTH = 92


def python_page() -> str:
    """Markdown: one section a public name, then one a figure."""
    sections = [INTRODUCTION]
    for name in sp.__all__:
        value = getattr(sp, name)
        if not isinstance(value, ModuleType):
            sections.append(_section(f"sp.{name}", value))
    sections += ["## sp.figures", inspect.getdoc(sp.figures) or ""]
    sections += [
        _section(f"sp.figures.{name}", getattr(sp.figures, name), level="###")
        for name in sp.figures.__all__
    ]
    return "\n\n".join(sections) + "\n"


def _section(name: str, value: Any, level: str = "##") -> str:
    if isinstance(value, type):
        parts = _class_parts(value)
    elif inspect.isfunction(value):
        parts = [_signature(name, value), inspect.getdoc(value) or ""]
    else:  # the name of a type
        parts = [f"```python\n{name} = {_short(str(value))}\n```"]
    return "\n\n".join([f"{level} {name}", *parts])


def _class_parts(kind: type) -> list[str]:
    parts = [inspect.getdoc(kind) or ""]
    if rows := _fields(kind):
        parts.append("\n".join(["| field | type | meaning |", "| --- | --- | --- |", *rows]))
    for name, function in _methods(kind):
        parts += [_signature(f"{kind.__name__}.{name}", function), inspect.getdoc(function) or ""]
    return parts


def _signature(name: str, function: Any) -> str:
    signature = inspect.signature(function)
    own = [each for each in signature.parameters.values() if each.name != "self"]
    signature = signature.replace(parameters=own)
    text = name + _short(str(signature))
    if len(text) > LINE_WIDTH:
        text = f"{name}(\n{_parameters(signature)}\n){_returns(signature)}"
    return f"```python\n{text}\n```"


def _parameters(signature: inspect.Signature) -> str:
    lines, has_star = [], False
    for each in signature.parameters.values():
        if each.kind is each.KEYWORD_ONLY and not has_star:
            lines.append("    *,")
            has_star = True
        lines.append(f"    {_short(str(each))},")
    return "\n".join(lines)


def _returns(signature: inspect.Signature) -> str:
    if signature.return_annotation is inspect.Signature.empty:
        return ""
    return f" -> {_short(inspect.formatannotation(signature.return_annotation))}"


def _short(text: str) -> str:
    """Types by their own names, without modules; a function as a default by its name."""
    named = FUNCTION.sub(r"\1", QUOTED_TYPE.sub(r"\1", text))
    return MODULE_PATHS.sub("", named).replace("NoneType", "None")


def _fields(kind: type) -> list[str]:
    """Rows of the fields that a result or an input holds."""
    if issubclass(kind, BaseModel):
        found = [(n, f.annotation, f.description or "") for n, f in kind.model_fields.items()]
    elif is_dataclass(kind):
        found = [(f.name, f.type, "") for f in fields(kind) if not f.name.startswith("_")]
    else:
        return []
    found += [
        (name, inspect.signature(function).return_annotation, inspect.getdoc(function) or "")
        for name, function in _properties(kind)
    ]
    return [
        f"| `{name}` | `{_type(annotation)}` | {' '.join(meaning.split())} |"
        for name, annotation, meaning in found
    ]


def _properties(kind: type) -> list[tuple[str, Any]]:
    """Public properties that the class itself defines, with the functions behind them."""
    return [
        (name, value.fget if isinstance(value, property) else value.func)
        for name, value in vars(kind).items()
        if isinstance(value, property | cached_property) and not name.startswith("_")
    ]


def _type(annotation: Any) -> str:
    text = _short(inspect.formatannotation(annotation)).replace(" | ", " or ")
    return ARRAY.sub("array of \\1", text)


def _methods(kind: type) -> list[tuple[str, Any]]:
    """Public methods that the class itself defines, with a docstring."""
    return [
        (name, value)
        for name, value in vars(kind).items()
        if inspect.isfunction(value) and not name.startswith("_") and inspect.getdoc(value)
    ]
