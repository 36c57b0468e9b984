"""What visitors saved by name: scenarios and results in one SQLite file that survives restarts.

Everything saved is seen by all visitors of this dashboard; what is not saved stays in its session.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from simcore.errors import SpecplanError
from simcore.folders import data_folder
from simcore.version import specplan_version

Kind = Literal["scenario", "plan", "simulation", "comparison", "capacity"]
FILE = "library.sqlite3"
MAX_NAME = 120
BUSY_TIMEOUT_S = 10.0
TABLE = """
create table if not exists saved (
    kind text not null,
    name text not null,
    saved_at text not null,
    specplan_version text not null,
    content text not null,
    primary key (kind, name)
)
"""


@dataclass(frozen=True)
class Saved:
    """One saved thing; `content` is the text of its own file format (YAML or JSON)."""

    kind: Kind
    name: str
    saved_at: str  # UTC, ISO 8601
    specplan_version: str
    content: str


def save(kind: Kind, name: str, content: str) -> None:
    """Keep `content` under `name`, in place of what had this name. Raises SpecplanError."""
    name = name.strip()
    if not 0 < len(name) <= MAX_NAME:
        raise SpecplanError(
            f"a name of {len(name)} characters; expected 1 to {MAX_NAME}: give it a name to find "
            "it by"
        )
    row = (kind, name, datetime.now(UTC).isoformat(timespec="seconds"), specplan_version(), content)
    with _database() as database:
        database.execute("insert or replace into saved values (?, ?, ?, ?, ?)", row)


def saved(kind: Kind) -> tuple[Saved, ...]:
    """All of one kind, the newest first."""
    with _database() as database:
        rows = database.execute(
            "select * from saved where kind = ? order by saved_at desc, name", (kind,)
        ).fetchall()
    return tuple(Saved(*row) for row in rows)


def delete(kind: Kind, name: str) -> None:
    """Forget one; nothing happens where there is none."""
    with _database() as database:
        database.execute("delete from saved where kind = ? and name = ?", (kind, name))


@contextmanager
def _database() -> Iterator[sqlite3.Connection]:
    """One transaction; SQLite makes other visitors' wait for it."""
    path = _path()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(path, timeout=BUSY_TIMEOUT_S)) as database, database:
            database.execute(TABLE)
            yield database
    except (OSError, sqlite3.Error) as error:
        raise SpecplanError(
            f"cannot use {path}: {error}; expected a file that can be written, or set SPECPLAN_DATA"
        ) from error


def _path() -> Path:
    return data_folder() / FILE
