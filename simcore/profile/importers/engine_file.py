"""A file that an engine or a load generator wrote: its bytes, and its text if it is text."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from simcore.errors import EngineFileError

MAX_BYTES = 1 << 30


@dataclass(frozen=True)
class EngineFile:
    """A whole file; `name` is the file's own, without the folder."""

    name: str
    content: bytes

    @cached_property
    def text(self) -> str:
        """The content as UTF-8. Raises EngineFileError."""
        try:
            return self.content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = self.content.count(b"\n", 0, error.start) + 1
            raise EngineFileError(
                f"{self.name}, line {line}: byte {self.content[error.start]:#04x} is not UTF-8; "
                "expected text in UTF-8: convert it"
            ) from None


def open_files(paths: list[Path]) -> list[EngineFile]:
    """The files, each whole and none twice. Raises EngineFileError."""
    return checked_files([_open(path) for path in paths])


def checked_files(files: list[EngineFile]) -> list[EngineFile]:
    """The same files where none is empty and none is there twice. Raises EngineFileError."""
    for each in files:
        if not each.content.strip():
            raise EngineFileError(f"{each.name} is empty; expected an engine's measurements")
    for index, each in enumerate(files):
        for earlier in files[:index]:
            if each.content == earlier.content:
                raise EngineFileError(
                    f"{earlier.name} and {each.name} are the same; counting it twice would give "
                    "false confidence: name it once"
                )
    return files


def _open(path: Path) -> EngineFile:
    if not path.is_file():
        found = "not a regular file" if path.exists() else "not there"
        raise EngineFileError(f"{path} is {found}; expected a file of an engine's measurements")
    size = path.stat().st_size
    if size > MAX_BYTES:
        raise EngineFileError(f"{path} has {size} bytes; expected at most {MAX_BYTES}: cut it")
    try:
        content = path.read_bytes()
    except OSError as error:
        raise EngineFileError(f"cannot read {path}: {error.strerror}; check its rights") from None
    return EngineFile(path.name, content)
