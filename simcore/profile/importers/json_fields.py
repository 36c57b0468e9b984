"""JSON objects of a file (one, a list, one a line) and their fields, checked one by one."""

import json
import math
import re
from dataclasses import dataclass
from typing import Any

from simcore.errors import EngineFileError
from simcore.json_text import DECODER, RepeatedKeyError
from simcore.profile.importers.engine_file import EngineFile

BETWEEN = re.compile(r"[\s\x1e]*")  # white space, and the separator of JSON text sequences
MAX_COUNT = 2**53


@dataclass(frozen=True)
class Fields:
    """One JSON object and the words that say where it stands."""

    where: str
    values: dict[str, Any]

    def has(self, *keys: str) -> bool:
        """Whether all of these hold something else than null."""
        return all(self.values.get(key) is not None for key in keys)

    def text(self, key: str) -> str | None:
        """A text, or None where something else or nothing stands there."""
        value = self.values.get(key)
        return value if isinstance(value, str) else None

    def number(self, key: str) -> float:
        """A finite number. Raises EngineFileError."""
        value = self.values.get(key)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.wrong(key, _shown(value), "a number")
        try:
            found = float(value)
        except OverflowError:
            found = math.inf
        if not math.isfinite(found):
            raise self.wrong(key, "not finite", "a number")
        return found

    def count(self, key: str) -> int:
        """A whole number from 0 on. Raises EngineFileError."""
        return self._whole(key, self.number(key))

    def maybe_number(self, key: str) -> float | None:
        """A number, or None where the object does not hold it."""
        return self.number(key) if self.has(key) else None

    def maybe_count(self, key: str) -> int | None:
        """A whole number, or None where the object does not hold it."""
        return self.count(key) if self.has(key) else None

    def numbers(self, key: str) -> list[float]:
        """A list of finite numbers. Raises EngineFileError."""
        values = self.items(key)
        return [Fields(self.where, {f"{key}[{i}]": v}).number(f"{key}[{i}]") for i, v in values]

    def counts(self, key: str) -> tuple[int, ...]:
        """A list of whole numbers from 0 on. Raises EngineFileError."""
        return tuple(self._whole(key, value) for value in self.numbers(key))

    def items(self, key: str) -> list[tuple[int, Any]]:
        """The entries of a list with their indices. Raises EngineFileError."""
        value = self.values.get(key)
        if not isinstance(value, list):
            raise self.wrong(key, _shown(value), "a list")
        return list(enumerate(value))

    def section(self, key: str) -> "Fields":
        """An object inside this one. Raises EngineFileError."""
        value = self.values.get(key)
        if not isinstance(value, dict):
            raise self.wrong(key, _shown(value), "an object")
        return Fields(f"{self.where}, {key}", value)

    def wrong(self, key: str, found: str, expected: str) -> EngineFileError:
        """The error that says so."""
        return EngineFileError(f"{self.where}: {key} is {found}; expected {expected}")

    def _whole(self, key: str, value: float) -> int:
        if not (0.0 <= value < MAX_COUNT and value == math.floor(value)):
            raise self.wrong(key, f"{value:g}", "a whole number from 0 on")
        return int(value)


def objects(file: EngineFile) -> list[Fields]:
    """Every object of the file: the one, those of a list, or one after another (JSONL).

    Raises EngineFileError where anything else stands in it or it was cut.
    """
    text, position, found = file.text, 0, list[Fields]()
    line, counted = 1, 0
    while (position := _skip(text, position)) < len(text):
        line, counted = line + text.count("\n", counted, position), position
        try:
            value, position = DECODER.raw_decode(text, position)
        except (ValueError, RecursionError) as error:
            raise EngineFileError(
                f"{file.name}, line {line}: {_failure(error)}; expected whole JSON objects"
            ) from None
        values = value if isinstance(value, list) else [value]
        found += [_fields(file, line, each) for each in values]
    if not found:
        raise EngineFileError(f"{file.name} holds no JSON object; expected at least one")
    return found


def first_object(file: EngineFile) -> dict[str, Any]:
    """The first object, or an empty one where the file begins with something else."""
    text = file.text
    start = _skip(text, 0)
    start = _skip(text, start + 1) if text[start : start + 1] == "[" else start
    if text[start : start + 1] != "{":
        return {}
    try:
        value, _ = DECODER.raw_decode(text, start)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _fields(file: EngineFile, line: int, value: object) -> Fields:
    if not isinstance(value, dict):
        raise EngineFileError(
            f"{file.name}, line {line}: got {_shown(value)}; expected a JSON object"
        )
    return Fields(f"{file.name}, line {line}", value)


def _skip(text: str, position: int) -> int:
    between = BETWEEN.match(text, position)
    assert between is not None
    return between.end()


def _shown(value: object) -> str:
    return "missing" if value is None else f"a {type(value).__name__}"


def _failure(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} at column {error.colno}"
    if isinstance(error, RepeatedKeyError):
        return str(error)
    return "nested too deeply" if isinstance(error, RecursionError) else "a number is too long"
