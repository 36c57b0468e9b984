"""The requests of a recorded file that a workload takes, and how many."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from simcore.errors import ScenarioError
from simcore.workload.files import read_requests
from simcore.workload_kinds import Recording, Workload

WHAT_COLUMNS_ARE = {
    "arrival_s": "arrival times; use another kind of arrivals, or a file that has them",
    "prompt_tokens": "prompt lengths; use another kind of lengths, or a file that has them",
    "output_tokens": "output lengths; use another kind of lengths, or a file that has them",
}


def recorded_requests(recording: Recording) -> pa.Table:
    """The file's requests from `start_s` on, at most `max_requests`. Raises ScenarioError.

    Columns are those of files.rows.request_table; `arrival_s` still counts from the first
    request of the file.
    """
    table = read_requests(Path(recording.path), recording.format)
    if recording.start_s > 0.0:
        times_s = recorded_column(table, "arrival_s", recording)
        table = table.slice(int(np.searchsorted(times_s, recording.start_s)))
        if table.num_rows == 0:
            raise ScenarioError(
                f"{recording.path} ends {times_s[-1]:.9g} s after its first request; expected "
                f"requests from start_s {recording.start_s:g} on: lower it"
            )
    return table.slice(0, recording.max_requests)


def recorded_column(table: pa.Table, name: str, recording: Recording) -> NDArray[Any]:
    """One column as an array; ScenarioError where the file does not hold it."""
    if name not in table.column_names:
        raise ScenarioError(f"{recording.path} holds no {WHAT_COLUMNS_ARE[name]}")
    return np.asarray(table.column(name).to_numpy())


def num_requests(workload: Workload) -> int:
    """Requests of the workload; ScenarioError where its file holds fewer than it asks for."""
    asked = workload.num_requests
    if workload.recording is None:
        assert asked is not None
        return asked
    held = recorded_requests(workload.recording).num_rows
    if asked is not None and held < asked:
        raise ScenarioError(
            f"{workload.recording.path} gives {held} requests (start_s and max_requests applied), "
            f"num_requests is {asked}; lower it, or set it to null for all of them"
        )
    return asked or held
