"""Prometheus' text exposition: samples of counters, and the difference of two scrapes."""

import math
import re

from simcore.errors import EngineFileError
from simcore.profile.importers.engine_file import EngineFile

LINE = re.compile(
    r"(?P<name>[A-Za-z_:][\w:]*)(?:\{(?P<labels>[^\n]*)\})?[ \t]+(?P<value>\S+)(?:[ \t]+-?\d+)?\s*"
)
LABEL = re.compile(r'\s*([A-Za-z_]\w*)="((?:[^"\\]|\\.)*)"\s*(?:,|$)')

Series = tuple[str, tuple[tuple[str, str], ...]]  # name, labels in order
Scrape = dict[Series, float]


def read_scrape(file: EngineFile) -> Scrape:
    """Every sample of one scrape. Raises EngineFileError at a line that is none."""
    if not file.text.endswith("\n"):
        raise EngineFileError(
            f"{file.name} does not end with a line feed as Prometheus text does; it was cut: "
            "scrape it again"
        )
    scrape: Scrape = {}
    for number, line in enumerate(file.text.split("\n"), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        where = f"{file.name}, line {number}"
        series, value = _sample(where, line)
        if series in scrape:
            raise EngineFileError(
                f"{where} repeats {series[0]} with the same labels; expected one scrape a file"
            )
        scrape[series] = value
    return scrape


def difference(name: str, before: Scrape, after: Scrape) -> Scrape:
    """What counters grew by between two scrapes of one server. Raises EngineFileError on a reset.

    A `_created` time that moved or a value that fell shows a restart. Series are compared one by
    one, before any sum, so that the restart of one rank is not hidden by the others.
    """
    grown: Scrape = {}
    for series, value in after.items():
        earlier = before.get(series, 0.0)
        if series[0].endswith("_created") and series in before and value != earlier:
            raise EngineFileError(f"{name}: {series[0]} moved; {RESTARTED}")
        if series[0].endswith("_total"):
            if value < earlier:
                raise EngineFileError(
                    f"{name}: {series[0]} fell from {earlier:g} to {value:g}; {RESTARTED}"
                )
            grown[series] = value - earlier
    if gone := [s for s in before if s[0].endswith("_total") and s not in after]:
        raise EngineFileError(f"{name}: {gone[0][0]} is gone with its labels; {RESTARTED}")
    return grown


RESTARTED = (
    "the server was restarted between the scrapes, or they are in the wrong order or of two "
    "servers: give scrapes of one run, oldest first"
)


def _sample(where: str, line: str) -> tuple[Series, float]:
    found = LINE.fullmatch(line)
    if found is None:
        raise EngineFileError(f"{where} is no Prometheus sample; expected name{{labels}} value")
    try:
        value = float(found["value"])
    except ValueError:
        raise EngineFileError(
            f"{where}: value {found['value'][:40]!r}; expected a number"
        ) from None
    return (found["name"], _labels(where, found["labels"] or "")), value


def _labels(where: str, text: str) -> tuple[tuple[str, str], ...]:
    labels, position = [], 0
    while position < len(text):
        found = LABEL.match(text, position)
        if found is None:
            raise EngineFileError(f'{where}: labels {text[:60]!r}; expected name="value", ...')
        labels.append((found[1], found[2]))
        position = found.end()
    return tuple(sorted(labels))


def whole(where: str, value: float) -> int:
    """A counter's value as the whole number it is. Raises EngineFileError."""
    if not (math.isfinite(value) and 0.0 <= value < 2**53 and value == math.floor(value)):
        raise EngineFileError(f"{where} is {value:g}; expected a whole number from 0 on")
    return int(value)
