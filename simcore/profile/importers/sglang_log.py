"""SGLang's log: Decode batch lines, for a look at acceptance and for the cost of a step.

Written for SGLang 0.5.18. A line holds rounded means over its interval and no counts, so no
acceptance record follows. A step lasts accept len × running / gen throughput, if no prefill lies
in the interval.
"""

import math
import re
from dataclasses import dataclass

from simcore.errors import EngineFileError
from simcore.profile.importers.engine_file import EngineFile
from simcore.profile.importers.importer import Importer
from simcore.profile.importers.options import ImportOptions
from simcore.profile.importers.reading import Reading
from simcore.profile.importers.samples import Step, step_samples

DECODE, PREFILL = "Decode batch", "Prefill batch"
PAIR = re.compile(r"([#A-Za-z][\w# ()/.-]*?): ([\w.]+)")
MAX_CHARACTERS = 20
RATE_TOLERANCE = 0.011  # rate and length have two digits each


@dataclass(frozen=True)
class Line:
    """One Decode batch line."""

    where: str
    running: float
    tokens: float
    length: float | None
    rate: float | None
    throughput: float


def recognises(file: EngineFile) -> bool:
    """Whether the text has a decode line."""
    return DECODE in file.text and "gen throughput" in file.text


def read(files: list[EngineFile], options: ImportOptions) -> Reading:
    """Figures, and step samples where --gamma says how many tokens a request scores."""
    decode, steps, polluted = list[Line](), list[Step](), 0
    for file in files:
        last: Line | None = None  # the line before, if no prefill lies between
        for number, text in enumerate(file.text.split("\n"), start=1):
            if PREFILL in text:
                last = None
            elif DECODE in text:
                line = _line(f"{file.name}, line {number}", text, options)
                step = _step(last, line, options)
                polluted += step is None
                steps += [step] if step is not None else []
                decode.append(line)
                last = line
    lengths = [line.length for line in decode if line.length is not None]
    if not lengths:
        raise EngineFileError(
            f"{files[0].name} has no Decode batch line with an accept len; serve with "
            "--speculative-algorithm"
        )
    notes = (
        "The lines hold rounded means and no counts: a mean alone gives no survival. Import "
        "meta_info of the answers.",
        _about_steps(steps, polluted, options),
    )
    samples = step_samples(steps) if steps else None
    figures = {
        "shortest mean acceptance length of an interval": min(lengths),
        "longest mean acceptance length of an interval": max(lengths),
        "decode lines": float(len(decode)),
    }
    return Reading(
        "SGLang", (), samples, whole_steps=samples is not None, figures=figures, notes=notes
    )


def _about_steps(steps: list[Step], polluted: int, options: ImportOptions) -> str:
    if options.gamma is None:
        return "State --gamma to turn the lines into step samples."
    return (
        f"{len(steps)} intervals became step samples, drafting included; {polluted} first, with a "
        "prefill before them, idle, or whose batch changed were left out."
    )


def _line(where: str, text: str, options: ImportOptions) -> Line:
    pairs = dict(PAIR.findall(text.split(DECODE, 1)[1]))
    line = Line(
        where,
        running=_needed(where, pairs, "#running-req"),
        tokens=_needed(where, pairs, "#token"),
        length=_number(where, pairs, "accept len"),
        rate=_number(where, pairs, "accept rate"),
        throughput=_needed(where, pairs, "gen throughput (token/s)"),
    )
    _check_rate(line, options.gamma)
    return line


def _check_rate(line: Line, gamma: int | None) -> None:
    """Newer builds divide accepted drafts by γ, older ones the whole length by γ + 1."""
    if gamma is None or line.length is None:
        return
    if line.length > gamma + 1.0:
        raise EngineFileError(
            f"{line.where}: accept len {line.length:g}; expected at most γ + 1 = {gamma + 1}"
        )
    if line.rate is None:
        return
    new, old = (line.length - 1.0) / gamma, line.length / (gamma + 1.0)
    if min(abs(line.rate - new), abs(line.rate - old)) > RATE_TOLERANCE:
        raise EngineFileError(
            f"{line.where}: accept rate {line.rate:g} with accept len {line.length:g}; expected "
            f"{new:.2f} for a chain of {gamma} (older builds {old:.2f}): a tree, or another γ"
        )


def _step(last: Line | None, line: Line, options: ImportOptions) -> Step | None:
    if last is None or options.gamma is None or line.length is None:
        return None
    if last.running != line.running or line.running < 1 or not line.throughput > 0.0:
        return None
    context = round(line.tokens / line.running)
    seconds = line.length * line.running / line.throughput
    return Step(int(line.running), options.gamma + 1, context, seconds)


def _needed(where: str, pairs: dict[str, str], key: str) -> float:
    value = _number(where, pairs, key)
    if value is None:
        raise EngineFileError(
            f"{where} has no {key!r}; expected it in a Decode batch line: the line was cut"
        )
    return value


def _number(where: str, pairs: dict[str, str], key: str) -> float | None:
    text = pairs.get(key)
    if text is None:
        return None
    try:
        value = float(text) if len(text) <= MAX_CHARACTERS else math.nan
    except ValueError:
        value = math.nan
    if not 0.0 <= value < 2**53:
        raise EngineFileError(f"{where}: {key} {text[:40]!r}; expected a number")
    return value


IMPORTER = Importer(
    written_for="SGLang 0.5.18",
    gives="mean acceptance lengths, shown only; step cost with --gamma",
    recognises=recognises,
    read=read,
)
