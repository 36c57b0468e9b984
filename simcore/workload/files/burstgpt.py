"""BurstGPT traces: CSV with seconds from the beginning."""

import pyarrow as pa

from simcore.workload.files.csv_columns import number_columns
from simcore.workload.files.rows import request_table
from simcore.workload.files.source import Source

COLUMNS = ("Timestamp", "Request tokens", "Response tokens")


def read_burstgpt(source: Source) -> pa.Table:
    """Requests of a BurstGPT file; its model and log type are not used."""
    arrival_s, prompt, output = number_columns(source, COLUMNS).values()
    return request_table(
        source.name, arrival_s=arrival_s, prompt_tokens=prompt, output_tokens=output
    )
