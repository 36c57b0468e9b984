"""A plain CSV: arrival times, lengths, or both."""

import pyarrow as pa

from simcore.workload.files.csv_columns import header, number_columns
from simcore.workload.files.rows import request_table
from simcore.workload.files.source import Source

TIME_COLUMN = "arrival_s"
LENGTH_COLUMNS = ("prompt_tokens", "output_tokens")


def read_plain_csv(source: Source) -> pa.Table:
    """The columns arrival_s, and prompt_tokens with output_tokens, that the file has."""
    names = header(source)
    wanted: tuple[str, ...] = (TIME_COLUMN,) if TIME_COLUMN in names else ()
    if TIME_COLUMN not in names or any(name in names for name in LENGTH_COLUMNS):
        wanted = (*wanted, *LENGTH_COLUMNS)
    columns = number_columns(source, wanted)
    return request_table(
        source.name,
        arrival_s=columns.get(TIME_COLUMN),
        prompt_tokens=columns.get(LENGTH_COLUMNS[0]),
        output_tokens=columns.get(LENGTH_COLUMNS[1]),
    )
