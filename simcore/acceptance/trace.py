"""Acceptance traces in memory: for every output position, what a cycle that starts there does.

One trace serves every γ up to the longest draft: accept min(A, γ), emit one more, jump, repeat.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from simcore.compiled import compiled_entry
from simcore.errors import ProfileError

RANK_ABSENT = 32767  # the realised token was no candidate of the proposer
MIN_STRATUM = 4
MAX_STRATA = 5


@dataclass(frozen=True)
class TraceSet:
    """Recorded requests of one proposer under one sampling, all domains.

    Rows are output positions, request after request. `ratio` is q(v)/p(v) of the realised token
    per depth [num_rows, max_gamma], or has no columns where the proposer is deterministic.
    """

    domain_names: tuple[str, ...]
    accepted: NDArray[np.int8]  # [num_rows]
    proposed: NDArray[np.int8]  # [num_rows]
    ratio: NDArray[np.float64]  # [num_rows, max_gamma or 0]
    offset: NDArray[np.int64]  # [num_requests] first row
    output_tokens: NDArray[np.int64]  # [num_requests]
    prompt_tokens: NDArray[np.int64]  # [num_requests]
    domain: NDArray[np.int64]  # [num_requests] index into domain_names
    max_gamma: int
    # Rank of the realised token per depth [num_rows, max_gamma]; None where nobody recorded it.
    rank: NDArray[np.int16] | None = None
    # The proposer's probability of its top candidate per depth [num_rows, max_gamma], likewise.
    confidence: NDArray[np.float32] | None = None

    @property
    def num_requests(self) -> int:
        """Recorded requests over all domains."""
        return len(self.offset)

    def requests_of(self, domain: str) -> NDArray[np.int64]:
        """Indices of the recorded requests of a domain."""
        return np.flatnonzero(self.domain == self.domain_names.index(domain))

    @cached_property
    def strata(self) -> "Strata":
        """Requests of one domain grouped by their mean acceptance, for stitching."""
        return _stratify(self)


@dataclass(frozen=True)
class Strata:
    """Groups of recorded requests that may continue one another.

    `members[begin[i]:end[i]]` are the requests of request i's own group.
    """

    members: NDArray[np.int64]
    begin: NDArray[np.int64]
    end: NDArray[np.int64]


def trace_set_from_rows(
    table: pa.Table, record_domains: dict[int, str], max_gamma: int
) -> TraceSet:
    """The trace set of the records named in `record_domains` (record key -> domain).

    `table` holds rows as docs/reference/profile-format.md defines them, request after request.
    """
    record = np.asarray(table.column("record").to_numpy())
    chosen = np.isin(record, list(record_domains))
    table = table.filter(pa.array(chosen))
    record = record[chosen]
    start = np.asarray(table.column("start").to_numpy())
    offset = np.flatnonzero(start == 0).astype(np.int64)
    if len(offset) == 0:
        raise ProfileError("the acceptance trace holds no request; measure one")
    names = tuple(dict.fromkeys(record_domains.values()))
    domain_of = {key: names.index(name) for key, name in record_domains.items()}
    return TraceSet(
        domain_names=names,
        # Copies: Arrow's arrays are read-only, which is another type to compiled code.
        accepted=np.array(table.column("accepted").to_numpy(), dtype=np.int8),
        proposed=np.array(table.column("proposed").to_numpy(), dtype=np.int8),
        ratio=_dense_ratio(table, max_gamma),
        offset=offset,
        output_tokens=np.diff(np.append(offset, len(start))).astype(np.int64),
        prompt_tokens=np.asarray(table.column("prompt_tokens").to_numpy(), dtype=np.int64)[offset],
        domain=np.array([domain_of[int(key)] for key in record[offset]], dtype=np.int64),
        max_gamma=max_gamma,
        rank=dense_column(table, "rank", max_gamma, RANK_ABSENT).astype(np.int16),
        confidence=_confidence(table, max_gamma),
    )


def _confidence(table: pa.Table, max_gamma: int) -> NDArray[np.float32] | None:
    """None where drafts were recorded without any: unknown is not the same as hopeless."""
    if len(table.column("confidence").combine_chunks().flatten()) == 0:
        return None
    return dense_column(table, "confidence", max_gamma, 0.0).astype(np.float32)


def _dense_ratio(table: pa.Table, max_gamma: int) -> NDArray[np.float64]:
    """[num_rows, max_gamma]; depths past the end of a list count as never accepted (0).

    Where records with and without ratios stand together, those without were decided when they
    were recorded: 1 up to the accepted depth.
    """
    column = table.column("ratio")
    if column.null_count == len(column):
        return np.zeros((len(column), 0), dtype=np.float64)
    dense = dense_column(table, "ratio", max_gamma, 0.0)
    decided = np.asarray(column.is_null().to_numpy())
    accepted = np.asarray(table.column("accepted").to_numpy())
    dense[decided] = np.arange(max_gamma) < accepted[decided, None]
    return dense


def dense_column(table: pa.Table, name: str, max_gamma: int, missing: float) -> NDArray[np.float64]:
    """A list column as [num_rows, max_gamma], `missing` past the end of a list."""
    column = table.column(name).combine_chunks()
    lengths = np.asarray(column.value_lengths().fill_null(0).to_numpy(zero_copy_only=False))
    dense = np.full((len(column), max_gamma), missing)
    rows = np.repeat(np.arange(len(column)), lengths)
    depths = np.arange(len(rows)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    values = np.asarray(column.flatten().to_numpy(zero_copy_only=False), dtype=np.float64)
    kept = depths < max_gamma
    dense[rows[kept], depths[kept]] = values[kept]
    return dense


def _stratify(traces: TraceSet) -> Strata:
    """Quantile groups of mean acceptance within each domain, at least MIN_STRATUM members each."""
    mean = np.add.reduceat(traces.accepted.astype(np.int64), traces.offset) / traces.output_tokens
    members: list[NDArray[np.int64]] = []
    begin = np.zeros(traces.num_requests, dtype=np.int64)
    end = np.zeros(traces.num_requests, dtype=np.int64)
    position = 0
    for domain in range(len(traces.domain_names)):
        own = np.flatnonzero(traces.domain == domain)
        ordered = own[np.argsort(mean[own], kind="stable")]
        count = max(1, min(MAX_STRATA, len(ordered) // MIN_STRATUM))
        for group in np.array_split(ordered, count):
            members.append(group)
            begin[group], end[group] = position, position + len(group)
            position += len(group)
    return Strata(np.concatenate(members), begin, end)


@dataclass(frozen=True)
class Walk:
    """Cycles of a renewal walk, pooled over requests in order."""

    accepted: NDArray[np.int64]  # [num_cycles] uncut accepted drafts
    proposed: NDArray[np.int64]  # [num_cycles]
    emitted: NDArray[np.int64]  # [num_cycles] after the cut at the request's end
    request: NDArray[np.int64]  # [num_cycles] index into the walked requests


def walk(
    traces: TraceSet, gamma: int, *, start: int = 1, requests: NDArray[np.int64] | None = None
) -> Walk:
    """The cycles that chain speculation with γ drafts would run on the recorded requests.

    Starts at output position `start` (1: prefill emits position 0). Deterministic: uses the
    `accepted` that the trace holds, not its ratios.
    """
    chosen = np.arange(traces.num_requests) if requests is None else requests
    size = int(traces.output_tokens[chosen].sum())
    out = np.zeros((4, max(size, 1)), dtype=np.int64)
    num_cycles = _walk(
        traces.accepted,
        traces.proposed,
        traces.offset[chosen],
        traces.output_tokens[chosen],
        gamma,
        start,
        out,
    )
    accepted, proposed, emitted, request = out[:, :num_cycles]
    return Walk(accepted, proposed, emitted, request)


@compiled_entry
def _walk(
    accepted: NDArray[np.int8],
    proposed: NDArray[np.int8],
    offset: NDArray[np.int64],
    length: NDArray[np.int64],
    gamma: int,
    start: int,
    out: NDArray[np.int64],
) -> int:
    count = 0
    for request in range(len(offset)):
        position = start
        while position < length[request]:
            row = offset[request] + position
            kept = min(int(accepted[row]), gamma)
            out[0, count] = kept
            out[1, count] = min(int(proposed[row]), gamma)
            out[2, count] = min(kept + 1, int(length[request]) - position)
            out[3, count] = request
            position += kept + 1
            count += 1
    return count
