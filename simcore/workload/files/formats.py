"""The table of formats, how a file's own is recognised, and the one way to read it."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import pyarrow as pa

from simcore.errors import ScenarioError
from simcore.workload.files import azure, bench_detail, burstgpt, mooncake, plain_csv
from simcore.workload.files.csv_columns import header
from simcore.workload.files.json_objects import first_object
from simcore.workload.files.source import Source, open_source
from simcore.workload_kinds.recording import FileFormat


@dataclass(frozen=True)
class Format:
    """One way in which recorded requests are written."""

    read: Callable[[Source], pa.Table]
    names: tuple[str, ...]  # columns or keys that tell it from the others


# A file takes the first format all of whose names it has.
FORMATS: dict[FileFormat, Format] = {
    "azure": Format(azure.read_azure, azure.COLUMNS),
    "burstgpt": Format(burstgpt.read_burstgpt, burstgpt.COLUMNS),
    "mooncake": Format(mooncake.read_mooncake, mooncake.KEYS),
    "vllm_bench": Format(
        bench_detail.read_bench_detail, (*bench_detail.LENGTH_KEYS, bench_detail.TIME_KEY)
    ),
    "sglang_bench": Format(bench_detail.read_bench_detail, bench_detail.LENGTH_KEYS),
    "csv": Format(plain_csv.read_plain_csv, (plain_csv.TIME_COLUMN,)),
}
# A plain CSV may also hold lengths alone.
LENGTHS_ALONE = plain_csv.LENGTH_COLUMNS


def read_requests(path: Path, format_name: FileFormat = "auto") -> pa.Table:
    """The requests of a file as `rows.request_table` describes them. Raises ScenarioError.

    A file is read once, and again when it has changed.
    """
    try:
        stat = path.stat()
    except (OSError, ValueError):
        return _read(path, format_name, 0, 0)
    return _read(path, format_name, stat.st_mtime_ns, stat.st_size)


@lru_cache(maxsize=8)
def _read(path: Path, format_name: FileFormat, _mtime_ns: int, _size: int) -> pa.Table:
    source = open_source(path)
    chosen = recognise(source) if format_name == "auto" else format_name
    return FORMATS[chosen].read(source)


def recognise(source: Source) -> FileFormat:
    """The format whose columns or keys the file has. Raises ScenarioError."""
    is_json = source.text.lstrip()[:1] == "{"
    names = set(first_object(source)[0]) if is_json else set(header(source))
    for format_name, each in FORMATS.items():
        if names.issuperset(each.names):
            return format_name
    if names.issuperset(LENGTHS_ALONE):
        return "csv"
    known = "; ".join(f"{name}: {', '.join(each.names)}" for name, each in FORMATS.items())
    raise ScenarioError(
        f"{source.name} has the columns or keys of no known format; expected one of {known}"
    )
