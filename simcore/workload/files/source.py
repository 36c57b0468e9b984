"""A file's text, or one sentence on why there is none."""

from dataclasses import dataclass
from pathlib import Path

from simcore.errors import ScenarioError

MAX_BYTES = 1 << 30


@dataclass(frozen=True)
class Source:
    """A whole text file."""

    name: str
    text: str


def read_bytes(path: Path) -> bytes:
    """The content of a regular file. Raises ScenarioError."""
    if not path.is_file():
        found = "not a regular file" if path.exists() else "not there"
        raise ScenarioError(f"{path} is {found}; expected a file of recorded requests")
    size = path.stat().st_size
    if size > MAX_BYTES:
        raise ScenarioError(f"{path} has {size} bytes; expected at most {MAX_BYTES}: cut it")
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ScenarioError(f"cannot read {path}: {error.strerror}; check its rights") from None
    if not content.strip():
        raise ScenarioError(f"{path} is empty; expected recorded requests")
    return content


def open_source(path: Path) -> Source:
    """A file as text. Raises ScenarioError where it is not UTF-8."""
    content = read_bytes(path)
    try:
        return Source(str(path), content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ScenarioError(
            f"{path}, line {line}: byte {content[error.start]:#04x} is not UTF-8; expected text in "
            "UTF-8: convert it"
        ) from None
