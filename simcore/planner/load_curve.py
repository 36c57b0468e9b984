"""The load of a day: read from a CSV, or an example."""

from datetime import datetime
from pathlib import Path

import numpy as np

from simcore.errors import ScenarioError
from simcore.planner.capacity_document import LoadCurve

HOURS = 24
EXAMPLE = "example"
EXAMPLE_TROUGH_SHARE, EXAMPLE_PEAK_HOUR = 0.3, 15
MAX_CURVE_BYTES = 64 << 20
EXPECTED = "expected a CSV with the columns hour or timestamp, and rate_per_s"


def example_curve(peak_per_s: float) -> LoadCurve:
    """One cosine a day, from 0.3 of the peak at 03:00 to the peak at 15:00: invented."""
    phase = 2 * np.pi * (np.arange(HOURS) - EXAMPLE_PEAK_HOUR) / HOURS
    shares = EXAMPLE_TROUGH_SHARE + (1 - EXAMPLE_TROUGH_SHARE) * (1 + np.cos(phase)) / 2
    return LoadCurve(
        name=EXAMPLE,
        source="an invented example, not measured: one cosine, trough 0.3 of the peak at 03:00",
        rates_per_s=tuple((peak_per_s * shares).tolist()),
    )


def read_curve(path: Path) -> LoadCurve:
    """24 hourly rates from a CSV with rate_per_s beside hour (0 to 23) or timestamp (ISO).

    Several rows of one hour of the day, of several days too, give its highest rate: that is what
    the replicas must carry. Raises ScenarioError.
    """
    try:
        if path.stat().st_size > MAX_CURVE_BYTES:
            raise ScenarioError(f"{path} is larger than 64 MiB; {EXPECTED}")
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ScenarioError(f"cannot read {path}: {error}; {EXPECTED}") from None
    return parse_curve(text, path.name, str(path))


def parse_curve(text: str, name: str, origin: str = "") -> LoadCurve:
    """The same from the text of a CSV; `origin` names it in errors. Raises ScenarioError."""
    origin = origin or name
    rates: dict[int, float] = {}
    for number, row in enumerate(_rows(text, origin), start=2):
        hour, rate_per_s = _hour(origin, number, row), _rate(origin, number, row)
        rates[hour] = max(rates.get(hour, 0.0), rate_per_s)
    if missing := sorted(set(range(HOURS)) - set(rates)):
        raise ScenarioError(
            f"{origin} has no rate for the hours {', '.join(map(str, missing))}; expected all of 0 "
            "to 23 (0 where nothing comes)"
        )
    if not any(rates.values()):
        raise ScenarioError(f"{origin}: every rate is 0; expected one above 0")
    return LoadCurve(
        name=name,
        source=name,
        rates_per_s=tuple(rates[hour] for hour in range(HOURS)),
    )


def _rows(text: str, origin: str) -> list[dict[str, str]]:
    import csv  # noqa: PLC0415 - only a curve of one's own needs it

    try:
        reader = csv.DictReader(text.splitlines(), strict=True)
        columns = list(reader.fieldnames or ())
        rows = list(reader)
    except csv.Error as error:
        raise ScenarioError(f"{origin}: {error}; {EXPECTED}") from None
    keys = [name for name in ("hour", "timestamp") if name in columns]
    if len(keys) != 1 or "rate_per_s" not in columns:
        raise ScenarioError(f"{origin} has the columns {', '.join(columns) or 'none'}; {EXPECTED}")
    return rows


def _hour(origin: str, number: int, row: dict[str, str]) -> int:
    key = "hour" if "hour" in row else "timestamp"
    text = (row[key] or "").strip()
    try:
        hour = int(text) if key == "hour" else datetime.fromisoformat(text).hour
    except ValueError:
        hour = -1
    if not 0 <= hour < HOURS:
        raise ScenarioError(
            f"{origin}, line {number}: {key} {text!r}; expected "
            + ("a whole hour from 0 to 23" if key == "hour" else "a time as 2026-01-31T15:00:00")
        )
    return hour


def _rate(origin: str, number: int, row: dict[str, str]) -> float:
    text = (row["rate_per_s"] or "").strip()
    try:
        rate_per_s = float(text)
    except ValueError:
        rate_per_s = np.nan
    if not 0.0 <= rate_per_s < np.inf:
        raise ScenarioError(
            f"{origin}, line {number}: rate_per_s {text!r}; expected requests a second, 0 or more"
        )
    return rate_per_s
