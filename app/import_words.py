"""The command line's names of an import's options, as the form on Calibrate calls them."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from simcore.errors import SpecplanError

DOMAIN, PROPOSER, GAMMA = "Domain", "Proposer", "γ (0: as the file says)"
TEMPERATURE, COLUMN, COUNTS, PER = (
    "Temperature (0: greedy)",
    "Column of a trace",
    "What the list counts",
    "One entry a",
)
REPLACE = "Replace records"
FIELDS = {
    "domain": DOMAIN,
    "proposer": PROPOSER,
    "gamma": GAMMA,
    "temperature": TEMPERATURE,
    "column": COLUMN,
    "counts": COUNTS,
    "per": PER,
    "replace": REPLACE,
}
OPTION = re.compile(rf"--({'|'.join(FIELDS)})(?![\w-])")
SAID_OTHERWISE = (  # what the form has no field for, and the way that it has
    (re.compile(r"say --target \S+"), "tick the box that says so"),
    (
        re.compile(r"state them, or"),
        f"choose another “{PROPOSER}” if yours drafts in every cycle, or",
    ),
)


def page_words(text: str) -> str:
    """A sentence of an importer with the labels of the page; an engine's own options stay."""
    for found, said in SAID_OTHERWISE:
        text = found.sub(said, text)
    return OPTION.sub(lambda found: f"“{FIELDS[found[1]].partition(' (')[0]}”", text)


@contextmanager
def in_page_words() -> Iterator[None]:
    """Errors of an import speak of the form's fields."""
    try:
        yield
    except SpecplanError as error:
        raise type(error)(page_words(str(error))) from error
