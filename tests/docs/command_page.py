"""The command line as a page: every command with its help, arguments and options."""

import inspect
from collections.abc import Callable, Iterator
from enum import Enum
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import typer
from typer.models import ArgumentInfo

from simcore.cli import app

INTRODUCTION = """\
# Command line

Made by `make docs` from the commands' own help. Results go to stdout, progress and errors to
stderr; bad input is one sentence and exit code 2."""
HEADER = "| argument or option | value | default | meaning |\n| --- | --- | --- | --- |"


def command_page() -> str:
    """Markdown: one section a command."""
    sections = [INTRODUCTION]
    for path, words, function in sorted(commands("specplan", app), key=lambda each: each[0]):
        sections.append(f"## {path}\n\n{words}")
        if rows := list(_rows(function)):
            sections.append("\n".join([HEADER, *rows]))
    return "\n\n".join(sections) + "\n"


def commands(path: str, group: typer.Typer) -> Iterator[tuple[str, str, Callable[..., Any]]]:
    """Each command as it is typed, its help, and its function; those of nested groups too."""
    for each in group.registered_commands:
        function = each.callback
        assert function is not None
        name = each.name or function.__name__.replace("_", "-")
        yield f"{path} {name}", _words(each.help or function.__doc__ or ""), function
    for nested in group.registered_groups:
        assert nested.typer_instance is not None
        yield from commands(f"{path} {nested.name}", nested.typer_instance)


def _rows(function: Callable[..., Any]) -> Iterator[str]:
    hints = get_type_hints(function, include_extras=True)
    for name, parameter in inspect.signature(function).parameters.items():
        kind, info = get_args(hints[name])[:2]
        names = _names(name, info)
        cells = (names, _value(kind, info), _default(parameter.default), _words(info.help or ""))
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _names(name: str, info: Any) -> str:
    if isinstance(info, ArgumentInfo):
        return f"`{name.upper()}`"
    first = [info.default] if isinstance(info.default, str) else []  # Annotated holds it there
    given = [*first, *(info.param_decls or ())]
    return ", ".join(f"`{each}`" for each in given or [f"--{name.replace('_', '-')}"])


def _value(kind: Any, info: Any) -> str:
    if get_origin(kind) in (Union, UnionType):
        kind = next(each for each in get_args(kind) if each is not NoneType)
    if get_origin(kind) is list:
        return f"{_value(get_args(kind)[0], info)}, several"
    if get_origin(kind) is Literal:
        return " or ".join(map(str, get_args(kind)))
    if get_origin(kind) is tuple:
        return ", ".join(_value(each, info) for each in get_args(kind))
    if issubclass(kind, Enum):
        return " or ".join(str(each.value) for each in kind)
    ends = (("≥", info.min), ("≤", info.max))
    bounds = [f"{sign} {bound:g}" for sign, bound in ends if bound is not None]
    name = {bool: "flag", str: "text", int: "whole number", float: "number"}.get(kind, "path")
    return f"{name} {', '.join(bounds)}".rstrip()


def _default(default: Any) -> str:
    if default is inspect.Parameter.empty:
        return "required"
    value = getattr(default, "value", default)
    return "–" if value is None or value is False else f"`{value}`"


def _words(text: str) -> str:
    return " ".join(text.split())
