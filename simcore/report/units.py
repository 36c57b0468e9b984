"""Numbers as a reader wants them: three significant digits, always with the unit."""

NOTHING = "–"


def digits(value: float) -> str:
    """Three significant digits, trailing zeros kept: they were computed; no 1.23e+03."""
    rounds_to_whole, too_long = 1e3, 1e9
    if rounds_to_whole <= abs(value) < too_long:
        return f"{float(f'{value:.3g}'):,.0f}"
    return f"{value:#.3g}".removesuffix(".")


def seconds(value: float | None) -> str:
    """A duration in the unit that reads best."""
    if value is None:
        return NOTHING
    for unit, scale in (("s", 1.0), ("ms", 1e-3)):
        if abs(value) >= scale:
            return f"{digits(value / scale)} {unit}"
    return f"{digits(value * 1e6)} µs" if value else "0 s"


def rate(value: float | None, unit: str = "requests/s") -> str:
    """A rate."""
    return NOTHING if value is None else f"{digits(value)} {unit}"


def given_rate(value: float) -> str:
    """A rate as the scenario states it."""
    return f"{value:g} requests/s"


def percent(value: float | None) -> str:
    """A share of one."""
    return NOTHING if value is None else f"{100 * value:.1f} %"


def count(value: int, unit: str) -> str:
    """A whole number of something; `unit` in the plural."""
    return f"{value:,} {unit.removesuffix('s') if value == 1 else unit}"


def ratio(value: float | None) -> str:
    """How many times."""
    return NOTHING if value is None else f"{value:.3f} ×"


def mean_tokens(value: float | None) -> str:
    """Tokens a cycle."""
    return NOTHING if value is None else f"{value:.2f} tokens"


def joules(value: float | None) -> str:
    """An energy in the unit that reads best."""
    if value is None:
        return NOTHING
    for unit, scale in (("MJ", 1e6), ("kJ", 1e3)):
        if value >= scale:
            return f"{digits(value / scale)} {unit}"
    return f"{digits(value)} J"


def watts(value: float | None) -> str:
    """A power."""
    return NOTHING if value is None else f"{digits(value)} W"


def dollars(value: float | None) -> str:
    """Money, four digits: prices are compared closely."""
    return NOTHING if value is None else f"{value:,.4g} USD"


def giga(value: float, unit: str = "GB") -> str:
    """A thousand million of something."""
    return f"{digits(value / 1e9)} {unit}"


def interval(value: float, bounds: tuple[float, float]) -> str:
    """A ratio with its interval."""
    return f"{value:.3f} × ({bounds[0]:.3f} to {bounds[1]:.3f})"
