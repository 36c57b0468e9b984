"""What visitors saved by name: scenarios and results in one SQLite file that survives restarts.

Everything saved is seen by all visitors of this dashboard; what is not saved stays in its session.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from simcore.errors import SpecplanError
from simcore.folders import data_folder
from simcore.version import specplan_version

Kind = Literal["scenario", "plan", "simulation", "comparison", "capacity"]
FILE = "library.sqlite3"
MAX_NAME = 120
MAX_OF_A_NAME = 1000
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
class Listed:
    """One saved thing by its name; its content, which may be long, is read when it is opened."""

    kind: Kind
    name: str
    saved_at: str  # UTC, ISO 8601
    specplan_version: str


@dataclass(frozen=True)
class Saved(Listed):
    """One saved thing; `content` is the text of its own file format (YAML or JSON)."""

    content: str


def save(kind: Kind, name: str, content: str) -> str:
    """Keep `content`; the name that it got. Raises SpecplanError.

    What others keep under `name` stays: this one then gets a number behind it.
    """
    name = name.strip()
    if not 0 < len(name) <= MAX_NAME:
        raise SpecplanError(
            f"a name of {len(name)} characters; expected 1 to {MAX_NAME}: give it a name to find "
            "it by"
        )
    rest = (datetime.now(UTC).isoformat(timespec="seconds"), specplan_version(), content)
    with _database() as database:
        for free in (name, *(f"{name} ({number})" for number in range(2, MAX_OF_A_NAME + 1))):
            if _put(database, (kind, free, *rest)):
                return free
    raise SpecplanError(f"{MAX_OF_A_NAME} things are called {name}; give it another name")


def _put(database: sqlite3.Connection, row: tuple[str, ...]) -> bool:
    """Whether it is there now; not where another content has its name."""
    database.execute("insert or ignore into saved values (?, ?, ?, ?, ?)", row)
    held = database.execute("select content from saved where kind = ? and name = ?", row[:2])
    return bool(held.fetchone()[0] == row[-1])


def listed(kind: Kind) -> tuple[Listed, ...]:
    """All of one kind, the newest first."""
    columns = "kind, name, saved_at, specplan_version"
    return tuple(Listed(*row) for row in _rows(kind, columns))


def saved(kind: Kind) -> tuple[Saved, ...]:
    """The same with their contents."""
    return tuple(Saved(*row) for row in _rows(kind, "*"))


def content_of(kind: Kind, name: str) -> str:
    """What was kept. Raises SpecplanError where it is no longer there."""
    with _database() as database:
        row = database.execute(
            "select content from saved where kind = ? and name = ?", (kind, name)
        ).fetchone()
    if row is None:
        raise SpecplanError(f"{name} is no longer there; another visitor may have deleted it")
    return str(row[0])


def _rows(kind: Kind, columns: str) -> list[tuple[Any, ...]]:
    order = "where kind = ? order by saved_at desc, name"
    with _database() as database:
        return database.execute(f"select {columns} from saved {order}", (kind,)).fetchall()


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
