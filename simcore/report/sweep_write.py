"""A sweep's tables as files, beside the store that its runs are kept in."""

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import yaml

from simcore.errors import SpecplanError
from simcore.planner.sweep_result import SweepResult
from simcore.report.plain import spreadsheet_text

STORE_FILE = "runs.duckdb"
FILES = ("runs.parquet", "configurations.csv", "best.csv", "omitted.csv", "sweep.yaml")


def check_sweep_folder(folder: Path) -> None:
    """Refuse a folder with files of others. Raises SpecplanError."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise SpecplanError(f"{folder} is a file; expected a new or empty folder")
    own = {
        *FILES,
        *(f".{name}" for name in FILES),
        STORE_FILE,
        f"{STORE_FILE}.wal",
        f"{STORE_FILE}.tmp",
    }
    if foreign := sorted({path.name for path in folder.iterdir()} - own):
        raise SpecplanError(
            f"{folder} holds {', '.join(foreign[:3])}, which no sweep wrote; choose a new folder, "
            "or that of an earlier sweep to go on with its runs"
        )


def write_sweep(found: SweepResult, folder: Path) -> list[Path]:
    """Write FILES to `folder`, each whole or not at all; tables of an earlier sweep are replaced.

    Raises SpecplanError where the file system refuses.
    """
    omitted = pd.DataFrame(
        [
            {"what": what, "reason": each.reason, **each.labels}
            for what in ("invalid", "pruned", "merged")
            for each in getattr(found, what)
        ],
        columns=["what", "reason", *found.space.axes],
    )
    raw = found.space.model_dump(mode="json", by_alias=True)
    text = yaml.safe_dump(raw, sort_keys=False, allow_unicode=True)
    writers: dict[str, Callable[[Path], object]] = {
        "runs.parquet": lambda path: found.runs.to_parquet(path, index=False),
        "configurations.csv": lambda path: _plain(found.configurations).to_csv(path, index=False),
        "best.csv": lambda path: _plain(found.best).to_csv(path, index=False),
        "omitted.csv": lambda path: _plain(omitted).to_csv(path, index=False),
        "sweep.yaml": lambda path: path.write_text(text, encoding="utf-8"),
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, write in writers.items():
            work = folder / f".{name}"
            write(work)
            work.replace(folder / name)
    except OSError as error:
        raise SpecplanError(
            f"cannot write {folder}: {error.strerror or error}; the runs are in its store, choose "
            "another folder with --store for them"
        ) from None
    return [folder / name for name in writers]


def _plain(table: pd.DataFrame) -> pd.DataFrame:
    """The table as a spreadsheet may open it: no text in it runs as a formula."""
    return table.map(lambda cell: spreadsheet_text(cell) if isinstance(cell, str) else cell)
