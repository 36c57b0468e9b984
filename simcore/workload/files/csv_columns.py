"""Named columns of a CSV file, as text and as numbers."""

import csv
import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from simcore.errors import ScenarioError
from simcore.workload.files.rows import FloatArray
from simcore.workload.files.source import Source

MAX_SHOWN_CHARACTERS = 60
FIRST_LINE = re.compile(r"[^\r\n]*(\r\n|\r|\n|$)")
WRONG_WIDTH = re.compile(r"Row #(\d+): Expected (\d+) columns, got (\d+)")


def header(source: Source) -> list[str]:
    """The column names of the first line."""
    first = FIRST_LINE.match(source.text)
    assert first is not None
    try:
        return [name.strip() for name in next(csv.reader([first[0]]), [])]
    except csv.Error as error:
        raise ScenarioError(
            f"{source.name}, line 1: {error}; expected the names of the columns"
        ) from None


def text_columns(source: Source, wanted: tuple[str, ...]) -> dict[str, pa.ChunkedArray]:
    """These columns as text, without spaces around. Raises ScenarioError."""
    names = header(source)
    for name in wanted:
        if names.count(name) != 1:
            held = ", ".join(names)
            raise ScenarioError(
                f"{source.name} has {names.count(name) or 'no'} column {name!r}; expected it once, "
                f"found {_short(held)}"
            )
    first = FIRST_LINE.match(source.text)
    assert first is not None
    body = source.text[first.end() :].encode()
    if not body.strip():
        raise ScenarioError(f"{source.name} has a header and no row; expected at least one request")
    try:
        table = pa_csv.read_csv(
            pa.BufferReader(body),
            # One block: row numbers in errors count from the top, and a long row never straddles.
            read_options=pa_csv.ReadOptions(
                column_names=names, block_size=len(body) + 1, use_threads=False
            ),
            convert_options=pa_csv.ConvertOptions(
                include_columns=wanted,
                column_types={name: pa.string() for name in wanted},
                strings_can_be_null=False,
            ),
        )
    except pa.ArrowInvalid as error:
        raise ScenarioError(f"{source.name}, {_parse_failure(error)}") from None
    return {name: pc.utf8_trim_whitespace(table.column(name)) for name in wanted}


def number_columns(source: Source, wanted: tuple[str, ...]) -> dict[str, FloatArray]:
    """These columns as numbers. Raises ScenarioError."""
    return {
        name: parsed(source.name, name, texts, pa.float64(), "a number")
        for name, texts in text_columns(source, wanted).items()
    }


def parsed(
    name: str, column: str, texts: pa.ChunkedArray, wanted: pa.DataType, expected: str
) -> np.ndarray:
    """The column as values of the wanted type; ScenarioError names the first that is not."""
    try:
        return np.asarray(pc.cast(texts, wanted).to_numpy())
    except pa.ArrowInvalid:
        row = _first_failure(texts, wanted)
        raise ScenarioError(
            f"{name}, row {row + 1}: column {column!r} holds {_short(texts[row].as_py())!r}; "
            f"expected {expected}"
        ) from None


def _first_failure(texts: pa.ChunkedArray, wanted: pa.DataType) -> int:
    """The first text that cannot be cast, by bisection over how many can."""
    good, bad = 0, len(texts)
    while bad - good > 1:
        middle = (good + bad) // 2
        try:
            pc.cast(texts.slice(good, middle - good), wanted)
            good = middle
        except pa.ArrowInvalid:
            bad = middle
    return good


def _parse_failure(error: Exception) -> str:
    if found := WRONG_WIDTH.search(str(error)):
        row, expected, got = found.groups()
        return f"row {row} has {got} values; expected {expected}, one a column"
    return f"{_short(str(error).splitlines()[0])}; expected comma-separated values"


def _short(text: str) -> str:
    if len(text) <= MAX_SHOWN_CHARACTERS:
        return text
    return text[: MAX_SHOWN_CHARACTERS - 1] + "…"
