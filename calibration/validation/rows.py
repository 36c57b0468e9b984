"""The requests of the validation as a table: where a prompt lies, its length, when it comes."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from calibration.errors import CalibrationError


@dataclass(frozen=True)
class Row:
    """One request; arrivals are those of one request a second in the mean."""

    source: str
    number: str
    domain: str  # of the calibration's, whose acceptance it is expected to have
    prompt_sha256: str
    prompt_tokens: int
    output_tokens: int
    arrival_s: float


def write_rows(path: Path, rows: Sequence[Row]) -> None:
    """As a CSV that a scenario's recorded arrivals and lengths read too."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(Row.__dataclass_fields__), lineterminator="\n")
        writer.writeheader()
        writer.writerows(vars(row) for row in rows)


def read_rows(path: Path) -> list[Row]:
    """What `write_rows` wrote; raises CalibrationError where it is missing or not whole."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = [_row(line) for line in csv.DictReader(file)]
    except OSError as error:
        said = error.strerror
    except (KeyError, TypeError, ValueError) as error:  # a column, a cell, a number
        said = f"{type(error).__name__}: {error}"
    else:
        if rows:
            return rows
        said = "no rows"
    raise CalibrationError(
        f"cannot read '{path}' ({said}); expected the requests that `workload` writes: run it first"
    )


def _row(line: dict[str, str]) -> Row:
    return Row(
        source=line["source"],
        number=line["number"],
        domain=line["domain"],
        prompt_sha256=line["prompt_sha256"],
        prompt_tokens=int(line["prompt_tokens"]),
        output_tokens=int(line["output_tokens"]),
        arrival_s=float(line["arrival_s"]),
    )
