"""Free text as a reader may safely see it: what is invisible is shown, what could run cannot.

Names and notes of profiles and scenarios are written by others. Data files keep them exactly;
whatever is read by a person, a terminal or a spreadsheet goes through here.
"""

import re

# Control characters, marks that turn the direction of the text around them, and what no file holds.
INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ufffe\uffff]"
)
FORMULA_SIGNS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


def visible(text: str) -> str:
    """The text with every invisible character as its code point; tabs and line ends stay."""
    return INVISIBLE.sub(lambda found: f"<U+{ord(found[0]):04X}>", text)


def one_line(text: object) -> str:
    """The text on one line, runs of white space as one space, the invisible made visible."""
    return visible(" ".join(str(text).split()))


def spreadsheet_text(text: str) -> str:
    """Text for a cell: a spreadsheet runs what begins like a formula; an apostrophe stops it.

    A lone carriage return, which ends a row for some readers and is quoted by few writers, is
    shown like all that is invisible.
    """
    shown = visible(text)
    return f"'{shown}" if shown.startswith(FORMULA_SIGNS) else shown
