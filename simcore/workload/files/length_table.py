"""Prompt and output lengths from two named columns of a CSV or Parquet file."""

from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from simcore.errors import ScenarioError
from simcore.workload.files.csv_columns import number_columns
from simcore.workload.files.rows import FloatArray, whole_tokens
from simcore.workload.files.source import open_source, read_bytes

PARQUET_MAGIC = b"PAR1"


def read_lengths(
    path: Path, prompt_column: str, output_column: str
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(prompt, output) tokens, row by row. Raises ScenarioError.

    A file is read once, and again when it has changed.
    """
    try:
        stat = path.stat()
    except (OSError, ValueError):
        return _read(path, prompt_column, output_column, 0, 0)
    return _read(path, prompt_column, output_column, stat.st_mtime_ns, stat.st_size)


@lru_cache(maxsize=8)
def _read(
    path: Path, prompt_column: str, output_column: str, _mtime_ns: int, _size: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    content = read_bytes(path)
    names = (prompt_column, output_column)
    if content.startswith(PARQUET_MAGIC):
        columns = _parquet_columns(str(path), content, names)
    else:
        columns = number_columns(open_source(path), names)
    return (
        whole_tokens(str(path), "prompt", columns[prompt_column]),
        whole_tokens(str(path), "output", columns[output_column]),
    )


def _parquet_columns(name: str, content: bytes, wanted: tuple[str, ...]) -> dict[str, FloatArray]:
    try:
        table = pq.read_table(pa.BufferReader(content))
    except (pa.ArrowException, OSError):
        raise ScenarioError(f"{name} is a damaged Parquet file; copy it again") from None
    for column in wanted:
        if table.column_names.count(column) != 1:
            raise ScenarioError(
                f"{name} has no column {column!r}; expected it once, found "
                f"{', '.join(table.column_names)}"
            )
    return {column: _as_numbers(name, column, table.column(column)) for column in wanted}


def _as_numbers(name: str, column: str, values: pa.ChunkedArray) -> FloatArray:
    if not (pa.types.is_integer(values.type) or pa.types.is_floating(values.type)):
        raise ScenarioError(f"{name}: column {column!r} holds {values.type}; expected numbers")
    return np.asarray(pc.cast(values, pa.float64(), safe=False).to_numpy(), dtype=np.float64)
