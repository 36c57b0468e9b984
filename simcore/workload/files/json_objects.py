"""JSON objects of a file: one a line, or one for all."""

import json
from collections.abc import Iterator
from typing import Any

from simcore.errors import ScenarioError
from simcore.json_text import DECODER, RepeatedKeyError
from simcore.workload.files.source import Source


def first_object(source: Source) -> tuple[dict[str, Any], str]:
    """The object at the file's beginning, and the text after it. Raises ScenarioError."""
    text = source.text.lstrip()
    try:
        found, end = DECODER.raw_decode(text)
    except (ValueError, RecursionError) as error:
        raise ScenarioError(f"{source.name}: {_failure(error)}; expected a JSON object") from None
    if not isinstance(found, dict):
        raise ScenarioError(
            f"{source.name} begins with a {type(found).__name__}; expected a JSON object"
        )
    return found, text[end:]


def object_lines(source: Source) -> Iterator[tuple[int, dict[str, Any]]]:
    """(line number, object) of every line that is not blank. Raises ScenarioError."""
    for number, line in enumerate(source.text.split("\n"), start=1):
        if not line.strip():
            continue
        where = f"{source.name}, row {number}"
        try:
            found = DECODER.decode(line.strip())
        except (ValueError, RecursionError) as error:
            raise ScenarioError(f"{where}: {_failure(error)}; expected a JSON object") from None
        if not isinstance(found, dict):
            raise ScenarioError(f"{where}: got {type(found).__name__}; expected a JSON object")
        yield number, found


def number_of(where: str, name: str, value: object) -> float:
    """A JSON number; raises ScenarioError for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ScenarioError(f"{where}: {name} is {_shown(value)}; expected a number")
    try:
        return float(value)
    except OverflowError:
        raise ScenarioError(f"{where}: {name} is too large; expected a number") from None


def list_of(where: str, name: str, value: object) -> list[Any]:
    """A JSON list; raises ScenarioError for anything else."""
    if not isinstance(value, list):
        raise ScenarioError(f"{where}: {name} is {_shown(value)}; expected a list")
    return value


def _shown(value: object) -> str:
    return "missing" if value is None else f"a {type(value).__name__}"


def _failure(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg.removesuffix(' at')} at column {error.colno}"
    if isinstance(error, RepeatedKeyError):
        return str(error)
    return "nested too deeply" if isinstance(error, RecursionError) else "a number is too long"
