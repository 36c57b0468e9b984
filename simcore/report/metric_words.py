"""How a summary's headline numbers are written."""

from collections.abc import Callable, Mapping

from simcore.metrics.headlines import Headline, Unit
from simcore.report.units import NOTHING, digits, dollars, joules, percent, rate, seconds, watts


def written(headline: Headline, value: float | None) -> str:
    """A value of this number, with its unit."""
    return NOTHING if value is None else _WRITERS[headline.unit](value)


_WRITERS: Mapping[Unit, Callable[[float], str]] = {
    "s": seconds,
    "requests/s": rate,
    "tokens/s": lambda value: f"{value:,.4g} tokens/s",
    "tokens": lambda value: f"{digits(value)} tokens",
    "requests": lambda value: f"{digits(value)} requests",
    "": digits,
    "share": percent,
    "J": joules,
    "W": watts,
    "USD": dollars,
}
