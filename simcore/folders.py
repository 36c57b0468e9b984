"""Folders: write one whole or not at all; where caches and a user's own data live."""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from simcore.errors import SpecplanError


def cache_folder() -> Path:
    """Where specplan keeps what it can make again; SPECPLAN_CACHE overrides the platform's."""
    if override := os.environ.get("SPECPLAN_CACHE"):
        return Path(override)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "specplan"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", str(Path.home()))) / "specplan"
    return Path(os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache"))) / "specplan"


def data_folder() -> Path:
    """Where specplan keeps what its user made; SPECPLAN_DATA overrides the platform's."""
    if override := os.environ.get("SPECPLAN_DATA"):
        return Path(override)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "specplan"
    if sys.platform == "win32":
        return Path(os.environ.get("APPDATA", str(Path.home()))) / "specplan"
    return Path(os.environ.get("XDG_DATA_HOME", str(Path.home() / ".local" / "share"))) / "specplan"


@contextmanager
def whole_folder(folder: Path) -> Iterator[Path]:
    """A new folder to write into; it takes the place of `folder` when the block ends well.

    After any error `folder` is as it was. What it held before is gone only when the new one
    stands: the caller has checked that it may go. Raises SpecplanError where the file system
    refuses.
    """
    folder = Path(folder).resolve()
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    except OSError as error:
        raise _cannot_write(folder, error) from error
    try:
        yield work
        work.chmod(0o755)
        _swap_in(work, folder)
    except OSError as error:
        raise _cannot_write(folder, error) from error
    finally:
        shutil.rmtree(work, ignore_errors=True)


def whole_file(path: Path, text: str) -> None:
    """Write `text` to `path`: it is there whole, or as it was before. Raises SpecplanError."""
    path = Path(path).resolve()
    work = path.with_name(f".{path.name}-{os.getpid()}")
    try:
        work.write_text(text, encoding="utf-8", newline="\n")
        work.replace(path)
    except OSError as error:
        work.unlink(missing_ok=True)
        raise _cannot_write(path, error) from error


def _cannot_write(folder: Path, error: OSError) -> SpecplanError:
    why = error.strerror or str(error)
    return SpecplanError(f"cannot write {folder}: {why}; choose a folder that can be written")


def _swap_in(work: Path, folder: Path) -> None:
    if not folder.exists():
        work.rename(folder)
        return
    old = work.with_name(f"{work.name}-old")
    folder.rename(old)
    try:
        work.rename(folder)
    except OSError:
        old.rename(folder)
        raise
    shutil.rmtree(old, ignore_errors=True)
