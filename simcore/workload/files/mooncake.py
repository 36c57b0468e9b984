"""Mooncake traces: a JSON object a line, times in milliseconds, ids of prefix blocks."""

from typing import Any

import numpy as np
import pyarrow as pa

from simcore.errors import ScenarioError
from simcore.workload.files.json_objects import list_of, number_of, object_lines
from simcore.workload.files.rows import request_table
from simcore.workload.files.source import Source

KEYS = ("timestamp", "input_length", "output_length")
MILLISECONDS = 1e3
HASHED_TOKENS = 512  # prompt tokens that one of hash_ids stands for


def read_mooncake(source: Source) -> pa.Table:
    """Requests of a Mooncake trace; equal `hash_ids` are prefix blocks that can be shared."""
    rows, hash_ids = [], []
    for number, found in object_lines(source):
        where = f"{source.name}, row {number}"
        rows.append([number_of(where, key, found.get(key)) for key in KEYS])
        hash_ids.append(_hash_ids(where, found.get("hash_ids", [])))
    times_ms, prompt, output = np.array(rows).reshape(-1, len(KEYS)).T
    return request_table(
        source.name,
        arrival_s=times_ms / MILLISECONDS,
        prompt_tokens=prompt,
        output_tokens=output,
        hash_ids=hash_ids,
    )


def _hash_ids(where: str, value: object) -> list[Any]:
    ids = list_of(where, "hash_ids", value)
    if not all(type(each) is int and 0 <= each < 1 << 63 for each in ids):
        raise ScenarioError(f"{where}: hash_ids holds something else; expected whole numbers")
    return ids
