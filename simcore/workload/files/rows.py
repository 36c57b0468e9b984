"""The one table that every format becomes, and what holds in it."""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from simcore.errors import ScenarioError
from simcore.workload_kinds.lengths import MAX_TOKENS

FloatArray = NDArray[np.float64]


def request_table(
    name: str,
    *,
    arrival_s: FloatArray | None = None,
    prompt_tokens: FloatArray | None = None,
    output_tokens: FloatArray | None = None,
    hash_ids: list[list[int]] | None = None,
) -> pa.Table:
    """Recorded requests in order of arrival; raises ScenarioError with the row that is wrong.

    Columns, each only where the file has it: `arrival_s` (seconds after the first request),
    `prompt_tokens`, `output_tokens`, `hash_ids` (prefix blocks).
    """
    columns: dict[str, pa.Array] = {}
    if arrival_s is not None:
        columns["arrival_s"] = pa.array(_checked_times_s(name, arrival_s))
    if prompt_tokens is not None:
        columns["prompt_tokens"] = pa.array(whole_tokens(name, "prompt", prompt_tokens))
    if output_tokens is not None:
        columns["output_tokens"] = pa.array(whole_tokens(name, "output", output_tokens))
    if hash_ids is not None:
        columns["hash_ids"] = pa.array(hash_ids, pa.list_(pa.int64()))
    return pa.table(columns)


def whole_tokens(name: str, what: str, values: FloatArray) -> NDArray[np.int64]:
    """Token counts as whole numbers from 1 on. Raises ScenarioError."""
    _check_not_empty(name, values)
    # NaN fails every comparison.
    good = (values >= 1.0) & (values <= MAX_TOKENS) & (values == np.floor(values))
    if not good.all():
        row = int(np.argmin(good))
        advice = ": remove requests that failed" if values[row] == 0.0 else ""
        raise ScenarioError(
            f"{name}, row {row + 1}: {what} of {values[row]:g} tokens; expected a whole number "
            f"from 1 to {MAX_TOKENS}{advice}"
        )
    return values.astype(np.int64)


def _checked_times_s(name: str, times_s: FloatArray) -> FloatArray:
    """Times from the first one on, in order."""
    _check_not_empty(name, times_s)
    good = np.isfinite(times_s) & (times_s >= 0.0)
    if not good.all():
        row = int(np.argmin(good))
        raise ScenarioError(
            f"{name}, row {row + 1}: arrives at {times_s[row]:g} s; expected a time of 0 or later"
        )
    if (later := np.flatnonzero(np.diff(times_s) < 0.0)).size:
        row = int(later[0]) + 1
        raise ScenarioError(
            f"{name}, row {row + 1}: arrives at {times_s[row]:.9g} s, before row {row} at "
            f"{times_s[row - 1]:.9g} s; expected times in order: sort the rows"
        )
    return np.asarray(times_s - times_s[0])


def _check_not_empty(name: str, values: FloatArray) -> None:
    if not len(values):
        raise ScenarioError(f"{name} holds no request; expected at least one row")
