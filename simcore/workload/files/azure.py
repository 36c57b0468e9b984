"""Azure LLM inference traces (2023, 2024): CSV with a date and time a request."""

import re

import pyarrow as pa

from simcore.workload.files.csv_columns import parsed, text_columns
from simcore.workload.files.rows import request_table
from simcore.workload.files.source import Source

COLUMNS = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
WITH_ZONE = re.compile(r"(Z|[+-]\d\d:?\d\d)$")
NANOSECONDS = 1e9


def read_azure(source: Source) -> pa.Table:
    """Requests of an Azure trace; times have up to nine fractional digits."""
    texts = text_columns(source, COLUMNS)
    zone = "UTC" if WITH_ZONE.search(texts["TIMESTAMP"][0].as_py()) else None
    stamps = parsed(
        source.name,
        "TIMESTAMP",
        texts["TIMESTAMP"],
        pa.timestamp("ns", tz=zone),
        "a date and time such as 2023-11-16 18:15:46.6805900, with a zone in every row or in none",
    ).astype("datetime64[ns]")
    prompt, output = (
        parsed(source.name, column, texts[column], pa.float64(), "a number")
        for column in COLUMNS[1:]
    )
    return request_table(
        source.name,
        arrival_s=(stamps - stamps.min()).astype("int64") / NANOSECONDS,
        prompt_tokens=prompt,
        output_tokens=output,
    )
