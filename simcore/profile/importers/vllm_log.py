"""vLLM's log: SpecDecoding metrics lines, and iteration details for the cost of a step.

Written for vLLM 0.32; reads V1 lines in either order of their keys. Each line counts one log
interval. Counts of drafts are inverted from the line (drafted / γ, or accepted / (length - 1)),
and rates by position have three digits, so positions are known to half a thousandth.
"""

import math
import re
from dataclasses import dataclass

from simcore.errors import EngineFileError
from simcore.profile.importers.engine_file import EngineFile
from simcore.profile.importers.importer import Importer
from simcore.profile.importers.options import ImportOptions
from simcore.profile.importers.reading import CountedRecord, Reading, check_gamma, make_counts
from simcore.profile.importers.vllm_iterations import iteration_samples

MARK = "SpecDecoding metrics:"
PAIR = re.compile(r"([A-Z][a-z]+(?:[ -][a-z]+)*): ([^A-Z]*)")
STAMP = re.compile(r"\d\d-\d\d \d\d:\d\d:\d\d")
RATES = "Per-position acceptance rate"
LENGTH = "Mean acceptance length"


@dataclass(frozen=True)
class Interval:
    """One line's counts; drafts are inverted, positions rounded."""

    num_drafts: int
    drafted: int
    accepted: int
    positions: tuple[int, ...]


def recognises(file: EngineFile) -> bool:
    """Whether the text has a line of either kind."""
    return MARK in file.text or "iteration elapsed time:" in file.text


def read(files: list[EngineFile], options: ImportOptions) -> Reading:
    """Position counters summed over the intervals, and step samples. Raises EngineFileError."""
    lines = [
        (f"{file.name}, line {number}", line)
        for file in files
        for number, line in enumerate(file.text.split("\n"), start=1)
    ]
    if old := next((where for where, line in lines if "System efficiency" in line), None):
        raise EngineFileError(
            f"{old} is of vLLM's V0 engine, whose acceptance also counted tokens after the first "
            "rejection; use a V1 engine's log"
        )
    said, repeated = _without_repeats([pair for pair in lines if MARK in pair[1]])
    intervals = [_interval(where, line, options) for where, line in said]
    drafted = [each for each in intervals if each is not None]
    samples, notes = iteration_samples(lines)
    if not drafted and samples is None:
        raise EngineFileError(
            f"{files[0].name} has neither a SpecDecoding line with drafts nor iteration details; "
            "serve with speculation, or with --enable-logging-iteration-details"
        )
    if repeated:
        notes = (*notes, f"{repeated} repeated lines (same time, same figures) count once.")
    records = () if not drafted else (_record(files[0].name, drafted, options),)
    if drafted:
        notes = (*notes, _rounding(drafted))
    return Reading("vLLM", records, samples, whole_steps=samples is not None, notes=notes)


def _without_repeats(lines: list[tuple[str, str]]) -> tuple[list[tuple[str, str]], int]:
    """Lines with a time stamp count once; the same line again is the same interval."""
    seen: set[str] = set()
    kept = []
    for where, line in lines:
        if STAMP.search(line):
            if line in seen:
                continue
            seen.add(line)
        kept.append((where, line))
    return kept, len(lines) - len(kept)


def _interval(where: str, line: str, options: ImportOptions) -> Interval | None:
    """The counts of one line; None where it drafted nothing."""
    pairs = {key: value.strip(" ,\r") for key, value in PAIR.findall(line.split(MARK, 1)[1])}
    drafted = _tokens(where, pairs, "Drafted")
    if drafted == 0:
        return None
    accepted = _tokens(where, pairs, "Accepted")
    rates = [_number(where, RATES, text) for text in pairs.get(RATES, "").split(",")]
    gamma = check_gamma(where, len(rates), options.gamma)
    drafts = _drafts(where, pairs, drafted, accepted, gamma)
    counted = sorted((min(round(rate * drafts), drafts) for rate in rates), reverse=True)
    # Rates have three digits: each position is off by 0.0005 drafts and a rounding at most.
    if abs(sum(counted) - accepted) > gamma * (0.0005 * drafts + 1.0):
        raise EngineFileError(
            f"{where}: rates by position sum to {sum(counted) / drafts:.3f} accepted drafts a "
            f"cycle, the counts to {accepted / drafts:.3f}; expected the same: the line is damaged"
        )
    if counted != [min(round(rate * drafts), drafts) for rate in rates]:
        raise EngineFileError(f"{where}: {RATES} {rates} increases; expected it to fall")
    return Interval(drafts, drafted, accepted, tuple(counted))


def _drafts(where: str, pairs: dict[str, str], drafted: int, accepted: int, gamma: int) -> int:
    """Cycles with a draft: drafted / γ if that fits the mean length, else by inversion."""
    length = _number(where, LENGTH, pairs.get(LENGTH, ""))
    full = drafted / gamma
    if full == math.floor(full) and abs(1.0 + accepted / full - length) <= 0.0051:  # noqa: PLR2004 - the length has two digits
        return int(full)
    if accepted == 0:
        return math.ceil(full)
    if not 1.0 < length <= 1.0 + gamma:
        raise EngineFileError(
            f"{where}: {LENGTH} {length:g} with {accepted} accepted; expected it between 1 and "
            f"{1 + gamma}, the bonus included"
        )
    drafts = round(accepted / (length - 1.0))
    if not full <= drafts + 1 or drafts < 1:
        raise EngineFileError(
            f"{where}: {drafted} drafted tokens in {drafts} drafts; expected at most {gamma} each"
        )
    return max(drafts, math.ceil(full))


def _record(name: str, intervals: list[Interval], options: ImportOptions) -> CountedRecord:
    gammas = {len(each.positions) for each in intervals}
    if len(gammas) > 1:
        raise EngineFileError(
            f"{name} shows {sorted(gammas)} draft positions in turn; expected one γ a log: cut it "
            "where the server was restarted"
        )
    gamma = gammas.pop()
    positions = [sum(each.positions[k] for each in intervals) for k in range(gamma)]
    drafts = sum(each.num_drafts for each in intervals)
    counts = make_counts(
        name,
        num_drafts=drafts,
        num_draft_tokens=max(sum(each.drafted for each in intervals), sum(positions)),
        num_accepted_tokens=sum(positions),
        num_cycles=drafts if options.always_drafts else None,
        accepted_per_position=positions,
    )
    return CountedRecord(kind="position_counters", scope="intervals", counts={gamma: counts})


def _rounding(intervals: list[Interval]) -> str:
    accepted = sum(each.accepted for each in intervals)
    rounded = sum(sum(each.positions) for each in intervals)
    return (
        f"{len(intervals)} log intervals: {accepted} accepted drafts; by position, from rates of "
        f"three digits, {rounded}."
    )


def _tokens(where: str, pairs: dict[str, str], key: str) -> int:
    value = _number(where, key, pairs.get(key, "").removesuffix("tokens"))
    if value != math.floor(value):
        raise EngineFileError(f"{where}: {key} {value:g} tokens; expected a whole number")
    return int(value)


def _number(where: str, key: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0.0 <= value < 2**53:
        raise EngineFileError(
            f"{where}: {key} {text.strip()[:40]!r}; expected a number: the line was cut or is of "
            "another version"
        )
    return value


IMPORTER = Importer(
    written_for="vLLM 0.32",
    gives="position counters by log interval; step cost from iteration details",
    recognises=recognises,
    read=read,
)
