"""Acceptance traces as lists: a Parquet or JSONL file, one request a row.

A list by position says for each output position what a cycle that starts there would do, and
becomes a trace that serves every γ. A list by cycle says what the cycles of one γ did, and becomes
request counters of that γ. Entries are accepted drafts, or emitted tokens (accepted + 1): say
which. Written for no engine; specplan's own lists and published ones look so.
"""

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from simcore.errors import EngineFileError
from simcore.profile.importers.engine_file import EngineFile
from simcore.profile.importers.importer import Importer
from simcore.profile.importers.json_fields import Fields, first_object, objects
from simcore.profile.importers.options import ImportOptions
from simcore.profile.importers.reading import CountedRecord, Reading
from simcore.profile.importers.request_counts import RequestCounts, histogram, requests_record

if TYPE_CHECKING:
    import pandas as pd

PARQUET_MAGIC = b"PAR1"
MAX_GAMMA = 64  # the longest draft that a scenario may ask for
Group = tuple[int | None, str | None, float | None]  # γ, domain, temperature of a request


def recognises(file: EngineFile) -> bool:
    """Whether the file is Parquet, or JSONL with `acc` lists as specplan writes them."""
    if file.content.startswith(PARQUET_MAGIC):
        return True
    return {"acc", "gamma"} <= set(first_object(file))


def read(files: list[EngineFile], options: ImportOptions) -> Reading:
    """One record for each γ, domain and temperature that the rows name. Raises EngineFileError."""
    requests = [row for file in files for row in _rows(file)]
    by_cycle = _is_by_cycle(requests, options)
    column, shift = _column(requests[0], options), _shift(requests[0], options)
    groups: dict[Group, list[Fields]] = {}
    for row in requests:
        groups.setdefault(_group(row, options), []).append(row)
    make = _by_cycle if by_cycle else _by_position
    records = tuple(make(key, rows, column, shift, options) for key, rows in groups.items())
    notes = ["Lists by cycle: each serves its own γ only."] if by_cycle else _about_trace(options)
    return Reading("acceptance trace", records, notes=tuple(notes))


def _about_trace(options: ImportOptions) -> list[str]:
    if options.proposed_column or options.always_drafts:
        return []
    return [
        "The file does not say where the lookup found nothing: a cycle without acceptance is "
        "priced as if it had drafted. Name the column with --proposed."
    ]


def _rows(file: EngineFile) -> list[Fields]:
    if not file.content.startswith(PARQUET_MAGIC):
        return objects(file)
    try:
        table = pq.read_table(pa.BufferReader(file.content))
        rows: list[dict[str, Any]] = table.to_pylist()
    except (pa.ArrowException, OSError, ValueError):
        raise EngineFileError(f"{file.name} is a damaged Parquet file; copy it again") from None
    if not rows:
        raise EngineFileError(f"{file.name} has no row; expected one a request")
    return [Fields(f"{file.name}, row {number}", row) for number, row in enumerate(rows, start=1)]


def _is_by_cycle(rows: list[Fields], options: ImportOptions) -> bool:
    if options.per is not None:
        return options.per == "cycle"
    if rows[0].has("acc", "gamma"):  # specplan's own lists say so by their keys
        return True
    raise EngineFileError(
        f"{rows[0].where}: say whether the lists are by position or by cycle, with --per; the "
        "mean over positions is not the mean over cycles"
    )


def _column(row: Fields, options: ImportOptions) -> str:
    name = options.column or ("acc" if row.has("acc") else None)
    if name is None or not row.has(name):
        held = [key for key, value in row.values.items() if isinstance(value, list)]
        raise EngineFileError(
            f"{row.where} has no list {name or '(--column not given)'}; expected one of "
            f"{', '.join(held) or 'its own, but it holds none'}"
        )
    return name


def _shift(row: Fields, options: ImportOptions) -> int:
    """What to take off an entry for accepted drafts."""
    if options.accepted_or_emitted is not None:
        return int(options.accepted_or_emitted == "emitted")
    if options.column in (None, "acc") and row.has("acc"):
        return 0
    raise EngineFileError(
        f"{row.where}: say whether the entries are accepted drafts or emitted tokens (one more), "
        "with --counts"
    )


def _group(row: Fields, options: ImportOptions) -> Group:
    domain = row.values.get("domain")
    said, held = options.gamma, row.maybe_count("gamma")
    if said is not None and held is not None and said != held and options.per != "position":
        raise row.wrong("gamma", str(held), f"{said}, as --gamma says")
    return (
        held if said is None else said,
        domain if isinstance(domain, str) and domain else None,
        row.maybe_number("temp"),
    )


def _entries(row: Fields, column: str, shift: int) -> list[int]:
    entries = row.counts(column)
    if not entries:
        raise row.wrong(column, "empty", "at least one entry: leave empty outputs out")
    if min(entries) < shift:
        raise row.wrong(
            column, "0 somewhere", "emitted tokens from 1 on: these are accepted drafts"
        )
    return [entry - shift for entry in entries]


def _by_cycle(
    key: Group, rows: list[Fields], column: str, shift: int, options: ImportOptions
) -> CountedRecord:
    gamma, domain, temperature = key
    if gamma is None or not 1 <= gamma <= MAX_GAMMA:
        raise EngineFileError(
            f"{rows[0].where}: draft length {gamma}; state it with --gamma, 1 to {MAX_GAMMA}"
        )
    requests = [_cycles(row, gamma, column, shift, options) for row in rows]
    if not any(each.num_drafts for each in requests):
        raise EngineFileError(f"{rows[0].where}: no cycle of γ = {gamma} drafted anything")
    return requests_record(requests, gamma, domain=domain, temperature=temperature)


def _cycles(
    row: Fields, gamma: int, column: str, shift: int, options: ImportOptions
) -> RequestCounts:
    """One request's cycles; a draft that its lookup cut short still was one of γ."""
    accepted = _entries(row, column, shift)
    proposed = _proposed(row, len(accepted), options, [gamma] * len(accepted))
    pairs = list(zip(accepted, proposed, strict=True))
    if bad := next(((a, p) for a, p in pairs if not a <= p <= gamma), None):
        raise row.wrong(column, f"{bad[0]} accepted of {bad[1]} drafted", f"at most γ = {gamma}")
    drafted = [(a, p) for a, p in pairs if p > 0]
    return RequestCounts(
        where=row.where,
        num_accepted_tokens=sum(accepted),
        num_drafts=len(drafted),
        num_cycles=len(accepted),
        output_tokens=sum(accepted) + len(accepted),
        accepted_lengths=histogram([a for a, _ in drafted], gamma),
        cycle_accepted=tuple(accepted),
        cycle_drafted=tuple(proposed),
    )


def _proposed(row: Fields, length: int, options: ImportOptions, otherwise: list[int]) -> list[int]:
    name = options.proposed_column or ("prop" if row.has("prop") else None)
    if name is None:
        return otherwise
    proposed = list(row.counts(name))
    if len(proposed) != length:
        raise row.wrong(
            name, f"{len(proposed)} long", f"{length} entries, one for each of the list"
        )
    return proposed


def _by_position(
    key: Group, rows: list[Fields], column: str, shift: int, options: ImportOptions
) -> CountedRecord:
    _, domain, temperature = key
    lists = [_entries(row, column, shift) for row in rows]
    longest = max(max(entries) for entries in lists)
    gamma = min(options.gamma or max(longest, 1), MAX_GAMMA)
    frames = [
        _trace_rows(index, row, entries, gamma, options)
        for index, (row, entries) in enumerate(zip(rows, lists, strict=True))
    ]
    import pandas as pd  # noqa: PLC0415 - slow to import, needed only to import files

    return CountedRecord(
        kind="trace",
        scope="requests",
        num_requests=len(rows),
        domain=domain,
        temperature=temperature,
        traces=pd.concat(frames, ignore_index=True),
        max_gamma=gamma,
    )


def _trace_rows(
    index: int, row: Fields, entries: list[int], gamma: int, options: ImportOptions
) -> "pd.DataFrame":
    """traces.parquet's columns; ranks, confidences and ratios were not recorded."""
    import pandas as pd  # noqa: PLC0415 - slow to import, needed only to import files

    proposed = _proposed(row, len(entries), options, [gamma] * len(entries))
    if any(a > p for a, p in zip(entries, proposed, strict=True)) and options.proposed_column:
        raise row.wrong(options.proposed_column, "below what was accepted", "at least that")
    return pd.DataFrame(
        {
            "request": index,
            "prompt_tokens": row.maybe_count("prompt_tokens") or 0,
            "output_tokens": len(entries),
            "start": range(len(entries)),
            "proposed": [min(p, gamma) for p in proposed],
            "accepted": [min(a, gamma) for a in entries],
            "rank": None,
            "confidence": None,
            "ratio": None,
        }
    )


IMPORTER = Importer(
    written_for="any engine; lists in Parquet or JSONL",
    gives="a trace for every γ (by position), or request counters of one γ (by cycle)",
    recognises=recognises,
    read=read,
)
