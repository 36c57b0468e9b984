"""Simulated runs on disk: a DuckDB file with one row a run, by the run's key.

Every batch of rows is committed at once: whoever dies in between loses nothing that was added.
One process writes at a time; DuckDB locks the file.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import duckdb
import pyarrow as pa

from simcore.errors import StoreError
from simcore.planner.run_table import COLUMNS, RESULTS_VERSION, Row

if TYPE_CHECKING:
    import pandas as pd

TABLE = "runs"
ARROW_TYPES = {"VARCHAR": pa.string(), "BIGINT": pa.int64(), "DOUBLE": pa.float64()}
SCHEMA = pa.schema([(column.name, ARROW_TYPES[column.type]) for column in COLUMNS])


@contextmanager
def _interrupted_by_keyboard() -> Iterator[None]:
    """DuckDB takes a Ctrl-C during a query for itself and raises a RuntimeError without a type."""
    try:
        yield
    except RuntimeError as error:
        if str(error) != "Query interrupted":
            raise
        raise KeyboardInterrupt from None


class RunStore:
    """Rows by key; shared by any number of sweeps, one after the other.

    `path` None keeps them in memory only. Raises StoreError where the file is in use by another
    process, is no store of runs, or was written by a specplan whose rows are others.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = None if path is None else Path(path)
        self._connection = _connect(self.path)
        try:
            self._open_table()
        except BaseException:
            self._connection.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give the file back."""
        self._connection.close()

    def __len__(self) -> int:
        found: int = self._connection.sql(f"SELECT count(*) FROM {TABLE}").fetchall()[0][0]
        return found

    def known(self, keys: Iterable[str]) -> set[str]:
        """Those of `keys` that the store holds."""
        asked = pa.table({"key": pa.array(list(keys), pa.string())})
        found = self._select("SELECT key FROM asked SEMI JOIN runs USING (key)", asked)
        return set(found.column("key").to_pylist())

    @_interrupted_by_keyboard()
    def add(self, rows: Sequence[Row]) -> None:
        """Keep these rows, all or none; one whose key is there already changes nothing."""
        self._connection.register("added", pa.Table.from_pylist(list(rows), schema=SCHEMA))
        try:
            self._connection.execute(f"INSERT OR IGNORE INTO {TABLE} SELECT * FROM added")
        except duckdb.Error as error:
            raise StoreError(
                f"cannot write to {self.path}: {_first_line(error)}; free the disk or choose "
                "another store: what was added before is kept"
            ) from None
        finally:
            self._connection.unregister("added")

    def rows(self, keys: Sequence[str]) -> "pd.DataFrame":
        """The rows of these keys, in their order; every key must be known."""
        asked = pa.table({"key": pa.array(keys, pa.string()), "place": pa.array(range(len(keys)))})
        query = "SELECT runs.* FROM asked JOIN runs USING (key) ORDER BY asked.place"
        found: pd.DataFrame = self._select(query, asked).to_pandas()
        return found

    def export_parquet(self, path: Path) -> None:
        """Write every row, in order of keys, to a Parquet file."""
        import pyarrow.parquet as pq  # noqa: PLC0415 - only whoever exports needs it

        everything = self._connection.sql(f"SELECT * FROM {TABLE} ORDER BY key")
        pq.write_table(_table(everything), path, compression="zstd")

    @_interrupted_by_keyboard()
    def _select(self, query: str, asked: pa.Table) -> pa.Table:
        self._connection.register("asked", asked)
        try:
            return _table(self._connection.sql(query))
        except duckdb.Error as error:
            raise StoreError(
                f"cannot read {self.path}: {_first_line(error)}; restore it from a copy, or choose "
                "another store and run again"
            ) from None
        finally:
            self._connection.unregister("asked")

    def _open_table(self) -> None:
        found = self._connection.sql(
            "SELECT table_name, column_name FROM information_schema.columns "
            "ORDER BY table_name, ordinal_position"
        ).fetchall()
        if not found:
            columns = ", ".join(f"{column.name} {column.type}" for column in COLUMNS)
            self._connection.execute(f"CREATE TABLE {TABLE} ({columns}, PRIMARY KEY (key))")
        elif found != [(TABLE, column.name) for column in COLUMNS]:
            raise StoreError(
                f"{self.path} holds other tables or columns than runs of version "
                f"{RESULTS_VERSION}; choose a new file, or the specplan that wrote it"
            )


def _connect(path: Path | None) -> Any:
    if path is None:
        return duckdb.connect(":memory:")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return duckdb.connect(str(path))
    except OSError as error:
        raise StoreError(f"cannot make {path.parent}: {error.strerror}; choose another") from None
    except duckdb.Error as error:
        if "set lock" in str(error).lower():  # a damaged file has blocks in its message
            raise StoreError(
                f"{path} is in use by another process; wait until its sweep has ended, or choose "
                "another store"
            ) from None
        raise StoreError(
            f"cannot open {path}: {_first_line(error)}; expected a store of runs or no file"
        ) from None


def _table(relation: Any) -> pa.Table:
    found = relation.to_arrow_table()
    return found if isinstance(found, pa.Table) else found.read_all()


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0].rstrip(".")
