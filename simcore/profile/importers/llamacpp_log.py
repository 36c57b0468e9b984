"""llama.cpp server's log: every cycle at debug level, or a summary of each request.

Written for llama.cpp of October 2026. At verbosity 5 each cycle says how many of its drafts it
accepted; below, a request says its counts, its mean length (bonus included, two digits) and, at
trace level, its rates by position (three digits). `statistics` lines time the drafting.
"""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

from simcore.errors import EngineFileError
from simcore.profile.importers.engine_file import EngineFile
from simcore.profile.importers.importer import Importer
from simcore.profile.importers.options import ImportOptions
from simcore.profile.importers.reading import CountedRecord, Reading, make_counts
from simcore.profile.importers.request_counts import RequestCounts, histogram, requests_record
from simcore.profile.schema import RecordKind

CYCLE = re.compile(r"task (\d{1,12}) \| accepted +(\d{1,4})/ *(\d{1,4}) draft tokens")
TOTAL = re.compile(
    r"task (\d{1,12}) \| draft acceptance = [\d.]+ "
    r"\( *(\d{1,12}) accepted / *(\d{1,12}) generated\)(?:, mean len = *([\d.]{1,12}))?"
)
POSITIONS = re.compile(r"task (\d{1,12}) \| +acc per pos = \(([\d., ]+)\)")
STATISTICS = re.compile(
    r"statistics +(\S+): .*#gen drafts = *(\d{1,12}), .*dur\(b,g,a\) = *[\d.]+, *([\d.]{1,20}),"
)


@dataclass(frozen=True)
class Summary:
    """What a request's closing lines say."""

    where: str
    accepted: int
    generated: int
    length: float | None
    rates: tuple[float, ...] | None


def recognises(file: EngineFile) -> bool:
    """Whether the text has a line of either kind."""
    return bool(TOTAL.search(file.text) or CYCLE.search(file.text))


def read(files: list[EngineFile], options: ImportOptions) -> Reading:
    """Request counters from cycles, else position counters. Raises EngineFileError."""
    cycles: dict[str, list[tuple[int, int]]] = {}
    summaries: dict[str, Summary] = {}
    drafting: dict[str, tuple[int, float]] = {}
    for where, file, line in _lines(files):
        if found := CYCLE.search(line):
            cycles.setdefault(f"{file}, task {found[1]}", []).append((int(found[2]), int(found[3])))
        elif found := TOTAL.search(line):
            _add_total(summaries, f"{file}, task {found[1]}", where, found)
        elif found := POSITIONS.search(line):
            _add_positions(summaries, f"{file}, task {found[1]}", where, found)
        elif found := STATISTICS.search(line):
            drafting[found[1]] = (int(found[2]), _number(where, found[3]))
    figures = {
        f"drafting, {name}, ms a draft": ms / drafts
        for name, (drafts, ms) in drafting.items()
        if drafts
    }
    drafted = {task: each for task, each in summaries.items() if each.generated}
    if cycles:
        record = _from_cycles(cycles, drafted, options)
        note = f"{len(cycles)} requests, cycle by cycle."
    elif drafted:
        record = _from_summaries(list(drafted.values()), options)
        note = f"{len(drafted)} requests by their closing lines: positions are rounded."
    else:
        raise EngineFileError(
            f"{files[0].name} has no request that drafted; serve with a draft, and with "
            "--verbosity 5 for cycles"
        )
    return Reading("llama.cpp", (record,), figures=figures, notes=(note,))


def _lines(files: list[EngineFile]) -> Iterator[tuple[str, str, str]]:
    for file in files:
        for number, line in enumerate(file.text.split("\n"), start=1):
            yield f"{file.name}, line {number}", file.name, line


def _add_total(summaries: dict[str, Summary], task: str, where: str, found: re.Match[str]) -> None:
    if task in summaries:
        raise EngineFileError(f"{where}: {task} ended before; expected the log of one server run")
    length = _number(where, found[4]) if found[4] else None
    summaries[task] = Summary(where, int(found[2]), int(found[3]), length, None)


def _add_positions(
    summaries: dict[str, Summary], task: str, where: str, found: re.Match[str]
) -> None:
    if task not in summaries:
        raise EngineFileError(f"{where}: positions of {task} before its counts; the log was cut")
    last = summaries[task]
    rates = tuple(_number(where, text) for text in found[2].split(","))
    summaries[task] = Summary(last.where, last.accepted, last.generated, last.length, rates)


def _from_cycles(
    cycles: dict[str, list[tuple[int, int]]], summaries: dict[str, Summary], options: ImportOptions
) -> CountedRecord:
    longest = max(drafted for each in cycles.values() for _, drafted in each)
    gamma = options.gamma or max(longest, 1)
    if longest > gamma:
        raise EngineFileError(
            f"a cycle drafted {longest} tokens, --gamma says {gamma}; expected at most that"
        )
    requests = []
    for task, pairs in cycles.items():
        whole = _with_last_cycle(task, pairs, summaries.get(task), gamma)
        accepted, drafted = (tuple(column) for column in zip(*whole, strict=True))
        requests.append(
            RequestCounts(
                where=task,
                num_accepted_tokens=sum(accepted),
                num_drafts=len(accepted),
                num_draft_tokens=sum(drafted),
                num_cycles=len(accepted) if options.always_drafts else None,
                accepted_lengths=histogram(accepted, gamma),
                cycle_accepted=accepted,
                cycle_drafted=drafted,
            )
        )
    return requests_record(requests, gamma)


def _with_last_cycle(
    task: str, pairs: list[tuple[int, int]], said: Summary | None, gamma: int
) -> list[tuple[int, int]]:
    """The cycle that ends a request is no line of its own: what its totals hold beyond the rest."""
    if any(accepted > drafted for accepted, drafted in pairs):
        raise EngineFileError(f"{task} accepted more drafts than it had; the log is damaged")
    if said is None:
        return pairs
    accepted = said.accepted - sum(pair[0] for pair in pairs)
    drafted = said.generated - sum(pair[1] for pair in pairs)
    if not 0 <= accepted <= drafted <= gamma:
        raise EngineFileError(
            f"{task}: its cycles leave {accepted} of {drafted} drafts to its last one; expected "
            f"between 0 and {gamma}: lines were lost or repeated"
        )
    return [*pairs, (accepted, drafted)] if drafted else pairs


def _from_summaries(summaries: list[Summary], options: ImportOptions) -> CountedRecord:
    widths = {len(each.rates) for each in summaries if each.rates is not None}
    gamma = options.gamma or max(widths, default=0)
    if not gamma or any(width > gamma for width in widths):
        raise EngineFileError(
            f"{summaries[0].where}: {sorted(widths) or 'no'} positions, --gamma "
            f"{options.gamma}; state the draft length (--spec-draft-n-max)"
        )
    drafts = [_num_drafts(each) for each in summaries]
    by_position = all(each.rates is not None for each in summaries)
    positions = [0] * gamma
    for each, count in zip(summaries, drafts, strict=True):
        for k, rate in enumerate(each.rates or ()):
            positions[k] += min(round(rate * count), count)
    accepted = sum(each.accepted for each in summaries)
    total = sum(drafts)
    counts = make_counts(
        summaries[0].where,
        num_drafts=total or None,
        num_draft_tokens=sum(each.generated for each in summaries),
        num_accepted_tokens=sum(positions) if by_position else accepted,
        num_cycles=total if options.always_drafts else None,
        accepted_per_position=positions if by_position else (),
    )
    kind: RecordKind = "position_counters" if by_position else "totals"
    return CountedRecord(kind, "requests", {gamma: counts}, num_requests=len(summaries))


def _num_drafts(said: Summary) -> int:
    """Cycles with a draft, from the rates by position (three digits) or the mean length (two)."""
    if said.rates and sum(said.rates) > 0.0:
        drafts = round(said.accepted / sum(said.rates))
    elif said.length is not None and said.length > 1.0:
        drafts = round(said.accepted / (said.length - 1.0))
    else:
        return 0 if said.rates is None else math.ceil(said.generated / len(said.rates))
    if said.length is not None and abs(1.0 + said.accepted / max(drafts, 1) - said.length) > 0.02:  # noqa: PLR2004 - both are rounded
        raise EngineFileError(
            f"{said.where}: mean len {said.length:g} with {said.accepted} accepted in about "
            f"{drafts} drafts; expected 1 + accepted / drafts: the log is damaged"
        )
    return drafts


def _number(where: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise EngineFileError(f"{where}: {text.strip()[:40]!r}; expected a number") from None


IMPORTER = Importer(
    written_for="llama.cpp of October 2026",
    gives="request counters with cycles in order (verbosity 5), else position counters",
    recognises=recognises,
    read=read,
)
