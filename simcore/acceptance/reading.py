"""Reading recorded acceptance lists: Parquet, JSON or JSON lines, one row a request.

The profile's own trace table (one row an output position) is read too.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from simcore.acceptance.lists import AcceptanceLists, IntArray
from simcore.errors import AcceptanceError
from simcore.json_text import DECODER

Counts = Literal["accepted", "emitted"]
Per = Literal["position", "cycle"]

TRACE_COLUMNS = ("record", "request", "start", "accepted", "proposed", "output_tokens")
LARGEST_COUNT = 1_000_000  # more drafts in one cycle is a damaged file
LARGEST_WHOLE = 2**40  # so is a longer output or draft; sums stay exact
LENGTH_COLUMN = "output_tokens"
GAMMA_COLUMN = "gamma"


def read_lists(
    path: Path,
    *,
    column: str | None = None,
    counts: Counts | None = None,
    per: Per | None = None,
    proposed: str | None = None,
    record: int | None = None,
) -> AcceptanceLists:
    """The acceptance lists of a file.

    `column` may stay open where one column holds lists of counts, or the file is a profile's trace
    table; `counts` where the column's name begins with it or a 0 is among the values; `per` where
    no `gamma` column says that the rows may be cycles. `record` picks one record of a trace
    table. Raises AcceptanceError for what cannot be read or does not fit.
    """
    table = _table(path)
    if column is None and set(TRACE_COLUMNS) <= set(table.column_names):
        return _from_trace_table(table, path, record)
    if record is not None:
        raise AcceptanceError(f"{path}: --record is for a profile's trace table; this is none")
    name = column or _only_list_column(table, path)
    values = _count_lists(table, name, path)
    per = per or _per_of(table, path)
    accepted = _accepted(values, counts or _counts_of(name, values, path), name, path)
    offered = None if proposed is None else _count_lists(table, proposed, path)
    if offered is not None:
        _check_proposed(accepted, offered, proposed, path)
    return AcceptanceLists(
        accepted=accepted,
        per=per,
        output_tokens=_output_tokens(table, accepted, per, path),
        proposed=offered,
        gamma=_own_gamma(table, accepted, offered, path) if per == "cycle" else None,
    )


def _table(path: Path) -> pa.Table:
    try:
        if path.suffix == ".parquet":
            table = pq.read_table(path)
        else:
            table = pa.Table.from_pylist(_json_rows(path))
    except (
        OSError,
        ValueError,
        TypeError,
        OverflowError,
        pa.ArrowException,
        RecursionError,
    ) as error:
        reason = " ".join(str(error).split())[:200]
        raise AcceptanceError(
            f"{path} cannot be read ({reason}); expected Parquet (.parquet), JSON lines or a JSON "
            "array, one object a request"
        ) from error
    if table.num_rows == 0:
        raise AcceptanceError(f"{path} holds no row; expected one a request")
    return table


def _json_rows(path: Path) -> list[dict[str, Any]]:
    text = path.read_text(encoding="utf-8")
    if text.lstrip().startswith("["):
        rows = DECODER.decode(text.strip())
    else:
        rows = [DECODER.decode(line.strip()) for line in text.splitlines() if line.strip()]
    if not all(isinstance(row, dict) for row in rows):
        raise ValueError("a row is no object")
    return list(rows)


def _only_list_column(table: pa.Table, path: Path) -> str:
    found = [
        field.name
        for field in table.schema
        if _is_list(field.type) and pa.types.is_integer(field.type.value_type)
    ]
    if len(found) != 1:
        raise AcceptanceError(
            f"{path} holds {'no column' if not found else f'columns {found}'} of lists of counts; "
            f"name one with --column (columns: {table.column_names})"
        )
    return str(found[0])


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def _count_lists(table: pa.Table, name: str, path: Path) -> tuple[IntArray, ...]:
    """A column of lists of counts, one array a request."""
    if name not in table.column_names:
        raise AcceptanceError(f"{path} has no column {name!r}; it has {table.column_names}")
    column = table.column(name)
    kind = column.type
    whole = _is_list(kind) and (
        pa.types.is_integer(kind.value_type) or pa.types.is_floating(kind.value_type)
    )
    if not whole:
        raise AcceptanceError(
            f"{path}, column {name!r} holds {kind}; expected lists of whole numbers"
        )
    flat = column.combine_chunks().flatten()
    if column.null_count or flat.null_count:
        raise AcceptanceError(f"{path}, column {name!r} has missing values; expected none")
    values = flat.to_numpy(zero_copy_only=False)
    if not bool(np.all((values >= 0) & (values <= LARGEST_COUNT) & (values == np.floor(values)))):
        raise AcceptanceError(
            f"{path}, column {name!r} holds negative, fractional or huge values; expected counts "
            "of drafts or tokens"
        )
    lengths = column.combine_chunks().value_lengths().to_numpy(zero_copy_only=False)
    return tuple(np.split(values.astype(np.int64), np.cumsum(lengths)[:-1]))


def _per_of(table: pa.Table, path: Path) -> Per:
    if GAMMA_COLUMN in table.column_names:
        raise AcceptanceError(
            f"{path} states a γ for each row: say whether a list holds one entry a cycle "
            "(--per cycle) or one an output position (--per position)"
        )
    return "position"


def _counts_of(name: str, values: Sequence[IntArray], path: Path) -> Counts:
    if name.startswith("emitted"):
        return "emitted"
    if name.startswith("acc") or any(bool(np.any(each == 0)) for each in values):
        return "accepted"
    raise AcceptanceError(
        f"{path}, column {name!r}: every value is at least 1, so they may be accepted drafts or "
        "emitted tokens; say --counts accepted or --counts emitted"
    )


def _accepted(
    values: Sequence[IntArray], counts: Counts, name: str, path: Path
) -> tuple[IntArray, ...]:
    if counts == "accepted":
        return tuple(values)
    if any(bool(np.any(each == 0)) for each in values):
        raise AcceptanceError(
            f"{path}, column {name!r} holds 0; a cycle emits at least one token: these are "
            "accepted drafts (--counts accepted)"
        )
    return tuple(each - 1 for each in values)


def _check_proposed(
    accepted: Sequence[IntArray], proposed: Sequence[IntArray], name: str | None, path: Path
) -> None:
    for request, (kept, offered) in enumerate(zip(accepted, proposed, strict=True)):
        if len(kept) != len(offered) or bool(np.any(kept > offered)):
            raise AcceptanceError(
                f"{path}, row {request}: column {name!r} holds {len(offered)} entries for "
                f"{len(kept)}, or fewer drafts than were accepted; expected one for each, at "
                "least as large"
            )


def _output_tokens(table: pa.Table, accepted: Sequence[IntArray], per: Per, path: Path) -> IntArray:
    if LENGTH_COLUMN in table.column_names:
        return _whole_column(table, LENGTH_COLUMN, path)
    if per == "cycle":
        return np.array([int(np.sum(each + 1)) for each in accepted], dtype=np.int64)
    return np.array([len(each) for each in accepted], dtype=np.int64)


def _own_gamma(
    table: pa.Table,
    accepted: Sequence[IntArray],
    proposed: Sequence[IntArray] | None,
    path: Path,
) -> IntArray:
    """γ of each request's cycles: stated, or the most that any cycle proposed or accepted."""
    if GAMMA_COLUMN in table.column_names:
        return _whole_column(table, GAMMA_COLUMN, path)
    longest = max((int(each.max(initial=0)) for each in proposed or accepted), default=0)
    return np.full(len(accepted), longest, dtype=np.int64)


def _whole_column(table: pa.Table, name: str, path: Path) -> IntArray:
    column = table.column(name)
    if column.null_count or not pa.types.is_integer(column.type):
        raise AcceptanceError(
            f"{path}, column {name!r} holds {column.type}, {column.null_count} missing; expected "
            "whole numbers"
        )
    values = column.to_numpy()
    if bool(np.any((values < 0) | (values > LARGEST_WHOLE))):
        raise AcceptanceError(
            f"{path}, column {name!r} holds negative or huge values; expected 0 or more"
        )
    return np.asarray(values, dtype=np.int64)


def _from_trace_table(table: pa.Table, path: Path, record: int | None) -> AcceptanceLists:
    """Rows of docs/reference/profile-format.md: one an output position, `start` running from 0."""
    records = np.unique(_whole_column(table, "record", path))
    if record is None and len(records) > 1:
        raise AcceptanceError(
            f"{path} holds records {records.tolist()}, of several proposers or settings; pick one "
            "with --record"
        )
    wanted = int(records[0]) if record is None else record
    if wanted not in records:
        raise AcceptanceError(f"{path} has no record {wanted}; it has {records.tolist()}")
    table = table.filter(pa.array(_whole_column(table, "record", path) == wanted))
    start = _whole_column(table, "start", path)
    offset = np.flatnonzero(start == 0)
    length = np.diff(np.append(offset, len(start)))
    expected = np.arange(len(start)) - np.repeat(offset, length) if len(offset) else start - 1
    if len(offset) == 0 or offset[0] != 0 or not np.array_equal(start, expected):
        raise AcceptanceError(
            f"{path}, record {wanted}: `start` does not run from 0 in every request; the table is "
            "cut or reordered"
        )
    accepted = tuple(np.split(_whole_column(table, "accepted", path), offset[1:]))
    proposed = tuple(np.split(_whole_column(table, "proposed", path), offset[1:]))
    _check_proposed(accepted, proposed, "proposed", path)
    return AcceptanceLists(
        accepted=accepted,
        per="position",
        output_tokens=_whole_column(table, "output_tokens", path)[offset],
        proposed=proposed,
    )
