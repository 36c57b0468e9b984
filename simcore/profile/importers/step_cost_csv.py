"""Timed steps of one's own in a CSV: one row a shape.

Columns: batch_size (or num_reqs), num_query_tokens of a request (or num_tokens of the step),
context_tokens of a request (or context_tokens_per_req), and median_s or median_ms; optional phase
(target, propose, reconcile, overhead), proposer, num_speculative_tokens, p10_, p90_, min_ in the
same unit, repeats. Rows are of one regime: with a column `execution` they must all be alike.
"""

import csv
import io
import math

from simcore.errors import EngineFileError
from simcore.profile.importers.engine_file import EngineFile
from simcore.profile.importers.importer import Importer
from simcore.profile.importers.options import ImportOptions
from simcore.profile.importers.reading import Reading
from simcore.profile.tables import PHASES

Row = dict[str, str]
MAX_TOKENS = 2**31 - 1
UNITS = {"s": 1.0, "ms": 1e-3}


def recognises(file: EngineFile) -> bool:
    """Whether the first line names a batch, a context and a median."""
    names = set(file.text.split("\n", 1)[0].replace("\r", "").split(","))
    return bool(
        {"batch_size", "num_reqs"} & names
        and {"median_s", "median_ms"} & names
        and {"context_tokens", "context_tokens_per_req"} & names
    )


def read(files: list[EngineFile], options: ImportOptions) -> Reading:
    """Samples as they stand, each shape once. Raises EngineFileError."""
    import pandas as pd  # noqa: PLC0415 - slow to import, needed only to import files

    rows = [sample for file in files for sample in _samples(file, options)]
    frame = pd.DataFrame(rows)
    shape = ["phase", "proposer", "batch_size", "num_query_tokens", "context_tokens"]
    again = frame.duplicated([*shape, "num_speculative_tokens"])
    if again.any():
        raise EngineFileError(
            f"{files[0].name}: sample {int(again.argmax()) + 1} repeats an earlier shape; expected "
            "each once: merge the repeats into one median"
        )
    return Reading("CSV", samples=frame, notes=(_one_regime(files),))


def _samples(file: EngineFile, options: ImportOptions) -> list[dict[str, object]]:
    try:
        reader = csv.DictReader(io.StringIO(file.text), strict=True)
        rows = [(f"{file.name}, line {reader.line_num}", row) for row in reader]
    except csv.Error as error:
        raise EngineFileError(f"{file.name}: {error}; expected comma-separated values") from None
    if not rows:
        raise EngineFileError(f"{file.name} has a header and no row; expected timed steps")
    kinds = {row.get("execution") for _, row in rows}
    if len(kinds) > 1:
        raise EngineFileError(
            f"{file.name} mixes execution {sorted(map(str, kinds))}; a law describes one regime: "
            "keep the rows of one"
        )
    for where, row in rows:
        if None in row or None in row.values():
            raise EngineFileError(f"{where} has too few or too many values; expected one a column")
    return [_sample(where, row, options) for where, row in rows]


def _sample(where: str, row: Row, options: ImportOptions) -> dict[str, object]:
    batch_size = _count(where, row, ("batch_size", "num_reqs"), 1)
    query = _query(where, row, batch_size)
    phase = row.get("phase") or "target"
    if phase not in PHASES:
        raise EngineFileError(f"{where}: phase {phase[:40]!r}; expected one of {', '.join(PHASES)}")
    proposer = row.get("proposer") or (options.proposer if phase == "propose" else None)
    if phase == "propose" and not proposer:
        raise EngineFileError(f"{where}: a proposal without proposer; name it with --proposer")
    unit = next((unit for unit in UNITS if f"median_{unit}" in row), None)
    if unit is None:
        raise EngineFileError(f"{where} has neither median_s nor median_ms; name the unit")
    median = _seconds(where, row, f"median_{unit}", UNITS[unit])
    drafts = row.get("num_speculative_tokens")
    times = {
        f"{name}_s": _seconds(where, row, f"{name}_{unit}", UNITS[unit])
        if row.get(f"{name}_{unit}")
        else median
        for name in ("p10", "p90", "min")
    }
    return {
        "phase": phase,
        "proposer": proposer,
        "batch_size": batch_size,
        "num_query_tokens": query,
        "context_tokens": _count(where, row, ("context_tokens", "context_tokens_per_req"), 0),
        "num_speculative_tokens": (
            _count(where, row, ("num_speculative_tokens",), 0) if drafts else query - 1
        ),
        "median_s": median,
        **times,
        "repeats": _count(where, row, ("repeats", "replays"), 1) if _has_repeats(row) else 1,
    }


def _has_repeats(row: Row) -> bool:
    return bool(row.get("repeats") or row.get("replays"))


def _query(where: str, row: Row, batch_size: int) -> int:
    if row.get("num_query_tokens"):
        return _count(where, row, ("num_query_tokens",), 1)
    tokens = _count(where, row, ("num_tokens",), 1)
    if tokens % batch_size:
        raise EngineFileError(
            f"{where}: {tokens} tokens of {batch_size} requests; expected as many for each: ragged "
            "steps cannot be told apart"
        )
    return tokens // batch_size


def _count(where: str, row: Row, names: tuple[str, ...], least: int) -> int:
    value = _number(where, row, names)
    if not (least <= value <= MAX_TOKENS and value == math.floor(value)):
        raise EngineFileError(
            f"{where}: {names[0]} is {value:g}; expected a whole number from {least} on"
        )
    return int(value)


def _seconds(where: str, row: Row, name: str, unit_s: float) -> float:
    value = _number(where, row, (name,)) * unit_s
    if not 0.0 < value < 1e6:  # noqa: PLR2004 - twelve days; NaN fails too
        raise EngineFileError(f"{where}: {name} is {row[name][:40]!r}; expected a time above 0")
    return value


def _number(where: str, row: Row, names: tuple[str, ...]) -> float:
    text = next((row[name] for name in names if row.get(name)), None)
    if text is None:
        raise EngineFileError(f"{where} has no {' or '.join(names)}; add it")
    try:
        return float(text)
    except ValueError:
        raise EngineFileError(f"{where}: {names[0]} {text[:40]!r}; expected a number") from None


def _one_regime(files: list[EngineFile]) -> str:
    return f"Samples of {len(files)} file(s), taken as one regime (all graphs, or all eager)."


IMPORTER = Importer(
    written_for="any engine; columns in docs/reference/importers.md",
    gives="step cost",
    recognises=recognises,
    read=read,
)
