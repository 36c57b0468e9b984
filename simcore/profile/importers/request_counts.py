"""Counts of single requests, pooled into one record and kept row by row."""

from collections.abc import Sequence
from dataclasses import dataclass

from simcore.profile.counts import Counts
from simcore.profile.importers.reading import CountedRecord, make_counts


@dataclass(frozen=True)
class RequestCounts:
    """One request's cycles with a draft; None where its source does not say."""

    where: str
    num_accepted_tokens: int
    num_drafts: int | None = None
    num_draft_tokens: int | None = None
    num_cycles: int | None = None
    output_tokens: int | None = None
    accepted_lengths: tuple[int, ...] | None = None  # [γ + 1]
    cycle_accepted: tuple[int, ...] | None = None  # in order
    cycle_drafted: tuple[int, ...] | None = None

    def checked(self) -> Counts:
        """The same as Counts. Raises EngineFileError where an identity fails."""
        return make_counts(
            self.where,
            num_drafts=self.num_drafts or None,
            num_draft_tokens=self.num_draft_tokens,
            num_accepted_tokens=self.num_accepted_tokens,
            num_cycles=self.num_cycles,
            accepted_lengths=self.accepted_lengths if self.num_drafts else (),
        )


def requests_record(
    requests: Sequence[RequestCounts],
    gamma: int,
    *,
    domain: str | None = None,
    temperature: float | None = None,
) -> CountedRecord:
    """One record of kind request_counters. Raises EngineFileError where an identity fails.

    `requests` may be empty of drafts one by one, but not all together.
    """
    import pandas as pd  # noqa: PLC0415 - slow to import, needed only to import files

    for each in requests:
        each.checked()
    rows = pd.DataFrame(
        [
            {
                "num_speculative_tokens": gamma,
                "request": index,
                "num_drafts": each.num_drafts,
                "num_draft_tokens": each.num_draft_tokens,
                "num_accepted_tokens": each.num_accepted_tokens,
                "output_tokens": each.output_tokens,
                "accepted_lengths": _listed(each.accepted_lengths),
                "cycle_accepted": _listed(each.cycle_accepted),
                "cycle_drafted": _listed(each.cycle_drafted),
            }
            for index, each in enumerate(requests)
        ]
    )
    return CountedRecord(
        kind="request_counters",
        scope="requests",
        counts={gamma: pooled(requests)},
        num_requests=len(requests),
        domain=domain,
        temperature=temperature,
        rows=rows,
    )


def pooled(requests: Sequence[RequestCounts]) -> Counts:
    """Sums over requests: counts are added, rates never averaged."""
    lengths = [each.accepted_lengths for each in requests if each.accepted_lengths is not None]
    whole = len(lengths) == len(requests)
    return make_counts(
        requests[0].where,
        num_drafts=_total([each.num_drafts for each in requests]) or None,
        num_draft_tokens=_total([each.num_draft_tokens for each in requests]),
        num_accepted_tokens=sum(each.num_accepted_tokens for each in requests),
        num_cycles=_total([each.num_cycles for each in requests]),
        accepted_lengths=[sum(column) for column in zip(*lengths, strict=True)] if whole else (),
    )


def histogram(cycles: Sequence[int], gamma: int) -> tuple[int, ...]:
    """[γ + 1] cycles by accepted drafts."""
    counts = [0] * (gamma + 1)
    for accepted in cycles:
        counts[accepted] += 1
    return tuple(counts)


def _total(values: list[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def _listed(values: tuple[int, ...] | None) -> list[int] | None:
    return None if values is None else list(values)
