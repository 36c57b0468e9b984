"""The Parquet tables of a profile: columns, types, and the checks on their contents."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from simcore.errors import ProfileError
from simcore.profile.schema import Profile, ProfilePart

if TYPE_CHECKING:
    import pandas as pd

COST_SCHEMA = pa.schema(
    [
        ("phase", pa.string()),
        ("proposer", pa.string()),
        ("batch_size", pa.int32()),
        ("num_query_tokens", pa.int32()),
        ("context_tokens", pa.int32()),
        ("num_speculative_tokens", pa.int32()),
        ("median_s", pa.float64()),
        ("p10_s", pa.float64()),
        ("p90_s", pa.float64()),
        ("min_s", pa.float64()),
        ("repeats", pa.int32()),
    ]
)
TRACE_SCHEMA = pa.schema(
    [
        ("record", pa.int16()),
        ("request", pa.int32()),
        ("prompt_tokens", pa.int32()),
        ("output_tokens", pa.int32()),
        ("start", pa.int32()),
        ("proposed", pa.int8()),
        ("accepted", pa.int8()),
        ("rank", pa.list_(pa.int16())),
        ("confidence", pa.list_(pa.float32())),
        ("ratio", pa.list_(pa.float32())),
        ("specinfer_child", pa.list_(pa.int16())),
        ("sequoia_child", pa.list_(pa.int16())),
        ("dynamic_order", pa.list_(pa.int16())),
    ]
)
REQUEST_SCHEMA = pa.schema(
    [
        ("record", pa.int16()),
        ("num_speculative_tokens", pa.int16()),
        ("request", pa.int32()),
        ("num_drafts", pa.int64()),
        ("num_draft_tokens", pa.int64()),
        ("num_accepted_tokens", pa.int64()),
        ("output_tokens", pa.int64()),
        ("accepted_lengths", pa.list_(pa.int64())),
        ("cycle_accepted", pa.list_(pa.int16())),
        ("cycle_drafted", pa.list_(pa.int16())),
    ]
)
OPTIONAL_COLUMNS = {"specinfer_child", "sequoia_child", "dynamic_order"}
SCHEMAS = {"cost": COST_SCHEMA, "traces": TRACE_SCHEMA, "requests": REQUEST_SCHEMA}
PHASES = ("target", "propose", "reconcile", "overhead")


def to_arrow(name: str, frame: "pd.DataFrame") -> pa.Table:
    """Cast a data frame to the table's schema; ProfileError names a column that does not fit."""
    schema = _schema(name, frame.columns)
    missing = [field.name for field in schema if field.name not in frame.columns]
    if missing:
        raise ProfileError(f"the {name} table lacks columns {missing}; expected {schema.names}")
    if frame.empty:
        raise ProfileError(f"the {name} table is empty; expected at least one row")
    try:
        return pa.Table.from_pandas(frame[schema.names], schema=schema, preserve_index=False)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise ProfileError(f"the {name} table does not fit its schema: {error}") from None


def check(name: str, table: pa.Table, profile: Profile | ProfilePart) -> None:
    """Raise ProfileError where the contents contradict the schema or the profile."""
    check_schema(name, table.schema)
    CHECKS[name](table, profile)


def check_schema(name: str, found: pa.Schema) -> None:
    """Raise ProfileError where columns or types are not the table's."""
    schema = _schema(name, found.names)
    if not found.equals(schema):
        raise ProfileError(f"the {name} table has columns {found.names}; expected {schema.names}")


def _schema(name: str, columns: Iterable[str]) -> pa.Schema:
    """The table's schema, with those optional columns that are there."""
    absent = OPTIONAL_COLUMNS - set(columns)
    return pa.schema([field for field in SCHEMAS[name] if field.name not in absent])


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise ProfileError(message)


def _column(table: pa.Table, name: str) -> np.ndarray:
    column = table.column(name)
    _require(column.null_count == 0, f"column {name!r} holds {column.null_count} nulls")
    return np.asarray(column.to_numpy())


def _check_cost(table: pa.Table, profile: Profile | ProfilePart) -> None:
    phases = set(table.column("phase").to_pylist())
    _require(phases <= set(PHASES), f"cost phases {sorted(phases)}; expected among {PHASES}")
    named = {value for value in table.column("proposer").to_pylist() if value is not None}
    _require(
        named <= set(profile.proposers),
        f"cost samples name proposers {sorted(named)}; expected {sorted(profile.proposers)}",
    )
    for column in ("median_s", "p10_s", "p90_s", "min_s"):
        values = _column(table, column)
        _require(
            bool(np.isfinite(values).all() and (values >= 0).all()),
            f"cost column {column!r} holds NaN, infinite or negative seconds",
        )
    for column in ("batch_size", "num_query_tokens", "repeats"):
        _require(bool((_column(table, column) >= 1).all()), f"cost column {column!r} below 1")


def _check_traces(table: pa.Table, profile: Profile | ProfilePart) -> None:
    record = _column(table, "record")
    expected = {entry.key: entry for entry in profile.acceptance if entry.kind == "trace"}
    found = set(np.unique(record).tolist())
    _require(
        found == set(expected),
        f"trace rows exist for records {sorted(found)}; the profile lists {sorted(expected)}",
    )
    proposed, accepted = _column(table, "proposed"), _column(table, "accepted")
    limit = np.array([expected[key].max_num_speculative_tokens for key in record.tolist()])
    _require(
        bool((accepted >= 0).all() and (accepted <= proposed).all() and (proposed <= limit).all()),
        "trace rows must keep 0 <= accepted <= proposed <= max_num_speculative_tokens",
    )
    _check_starts(table, record)
    for column in ("confidence", "ratio"):
        values = pc.list_flatten(table.column(column))
        flat = np.asarray(values.to_numpy())
        _require(
            values.null_count == 0 and bool(np.isfinite(flat).all() and (flat >= 0).all()),
            f"trace column {column!r} holds NaN, infinite or negative values",
        )


def _check_starts(table: pa.Table, record: np.ndarray) -> None:
    """Each request's rows stand together, starts running from 0 to output_tokens - 1."""
    request, start = _column(table, "request"), _column(table, "start")
    output = _column(table, "output_tokens")
    begins = np.flatnonzero(start == 0)
    lengths = np.diff(np.append(begins, len(start)))
    whole = (
        len(begins) > 0
        and begins[0] == 0
        and np.array_equal(start, np.arange(len(start)) - np.repeat(begins, lengths))
        and np.array_equal(output, np.repeat(lengths, lengths))
        and np.array_equal(record, np.repeat(record[begins], lengths))
        and np.array_equal(request, np.repeat(request[begins], lengths))
    )
    _require(
        bool(whole),
        "trace rows must stand request by request, with start 0, 1, .. output_tokens - 1; rows "
        "are missing or out of order",
    )


def _check_requests(table: pa.Table, profile: Profile | ProfilePart) -> None:
    """Rows of each record and γ sum to what the record pools."""
    sums = table.group_by(["record", "num_speculative_tokens"]).aggregate(
        [("num_accepted_tokens", "sum"), ("request", "count")]
    )
    found = {
        (row["record"], row["num_speculative_tokens"]): row["num_accepted_tokens_sum"]
        for row in sums.to_pylist()
    }
    expected = {
        (record.key, gamma): counts.num_accepted_tokens
        for record in profile.acceptance
        if record.kind == "request_counters"
        for gamma, counts in record.counts.items()
    }
    _require(
        found == expected,
        f"request rows hold accepted drafts {found} by record and γ; the records say {expected}",
    )


CHECKS: dict[str, Callable[[pa.Table, Profile | ProfilePart], None]] = {
    "cost": _check_cost,
    "traces": _check_traces,
    "requests": _check_requests,
}
