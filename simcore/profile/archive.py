"""A profile as files that were handed over: a zip, or profile.json with its tables, in a folder.

What is handed over may come from anybody. Only JSON and Parquet are read, under the names of
docs/reference/profile-format.md and within limits; nothing is executed or unpickled, and no name
in a zip says where anything is written.
"""

import io
import lzma
import re
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from simcore.errors import ProfileError
from simcore.folders import whole_folder
from simcore.profile import tables
from simcore.profile.store import PROFILE_FILE, StoredProfile, load_profile, read_checked

MAX_ENTRIES = 100  # of a zip
MAX_BYTES = 64 << 20  # of all files together, unpacked
MAX_TABLE_BYTES = 512 << 20  # of one table in memory
NUMBER_BYTES = 8  # of the widest
KNOWN = re.compile(r"profile\.json|[A-Za-z0-9_-][A-Za-z0-9_.-]*\.parquet")
ZIP_START = b"PK"
NO_ZIP = (  # all that zipfile and its decompressors raise for damaged content
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError),
    *(ValueError, IndexError, NotImplementedError, RuntimeError),
)
EXPECTED = "expected a zip of a profile's folder, or its profile.json with its Parquet tables"


class HandedFile(NamedTuple):
    """One file as it was handed over."""

    name: str
    content: bytes


def unpack_profile(files: Sequence[HandedFile], folder: Path) -> StoredProfile:
    """Write the files to the new `folder` and read the profile there, its tables checked.

    Raises ProfileError, with nothing written, for anything but one whole profile.
    """
    contents = _contents(files)
    if PROFILE_FILE not in contents:
        raise ProfileError(f"no {PROFILE_FILE} among {sorted(contents) or 'no files'}; {EXPECTED}")
    with whole_folder(folder) as work:
        for name, content in contents.items():
            (work / name).write_bytes(content)
        try:
            _check(work)
        except ProfileError as error:
            # Where the files lie for the moment is nobody's business.
            said = str(error).replace(f"{work}/", "").replace(str(work), "the profile")
            raise ProfileError(said) from None
    return load_profile(folder)


def pack_profile(stored: StoredProfile) -> bytes:
    """The profile's folder as a zip that `unpack_profile` reads."""
    buffer, name = io.BytesIO(), stored.profile.name
    tables = sorted(entry.file for entry in stored.profile.tables.values())
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in (PROFILE_FILE, *tables):
            archive.write(stored.folder / file, f"{name}/{file}")
    return buffer.getvalue()


def _contents(files: Sequence[HandedFile]) -> dict[str, bytes]:
    """Known name -> content, of the zip or of the files themselves."""
    found: dict[str, bytes] = {}
    room = MAX_BYTES
    for file in files:
        parts = _unzipped(file, room) if file.content.startswith(ZIP_START) else [file]
        for name, content in parts:
            if name in found:
                raise ProfileError(f"{name} was handed over twice; {EXPECTED}, of one profile")
            found[name] = content
            room -= len(content)
        if room < 0:
            raise ProfileError(f"{MAX_BYTES - room:,} bytes; expected at most {MAX_BYTES:,} in all")
    unknown = [name for name in found if not KNOWN.fullmatch(name)]
    if unknown:
        raise ProfileError(f"{unknown[0]!r} is no file of a profile; {EXPECTED}")
    return found


def _unzipped(file: HandedFile, room: int) -> list[HandedFile]:
    """Its files of known names, at most `room` bytes; others are left where they are."""
    try:
        with zipfile.ZipFile(io.BytesIO(file.content)) as archive:
            entries = archive.infolist()
            if len(entries) > MAX_ENTRIES:
                raise ProfileError(f"{file.name} holds {len(entries):,} files; {EXPECTED}")
            return _known_entries(archive, entries, room)
    except NO_ZIP as error:
        raise ProfileError(f"{file.name} cannot be unpacked: {error}; {EXPECTED}") from None


def _known_entries(
    archive: zipfile.ZipFile, entries: Sequence[zipfile.ZipInfo], room: int
) -> list[HandedFile]:
    found = []
    for entry in entries:
        path = PurePosixPath(entry.filename.replace("\\", "/"))
        if path.is_absolute() or ".." in path.parts:
            raise ProfileError(f"{entry.filename!r} leaves its folder; {EXPECTED}")
        if entry.is_dir() or not KNOWN.fullmatch(path.name):
            continue
        with archive.open(entry) as stream:
            content = stream.read(room + 1)  # what the entry says of its size may be wrong
        room -= len(content)
        if room < 0:
            raise ProfileError(f"more than {MAX_BYTES:,} bytes unpacked; expected at most that")
        found.append(HandedFile(path.name, content))
    return found


def _check(folder: Path) -> None:
    """The profile and every table that it names. Raises ProfileError."""
    stored = load_profile(folder)
    for name, entry in stored.profile.tables.items():
        _check_size(name, folder / entry.file)
        read_checked(stored.profile, folder, name)


def _check_size(name: str, path: Path) -> None:
    """Before anything is read whole: a few bytes of a file may stand for millions of equal rows."""
    try:
        footer = pq.read_metadata(path)
        tables.check_schema(name, footer.schema.to_arrow_schema())
        widest = NUMBER_BYTES + _longest_text(path, footer.schema.to_arrow_schema())
    except (OSError, pa.ArrowInvalid) as error:
        raise ProfileError(f"cannot read {path}: {error}; expected a Parquet table") from None
    groups = (footer.row_group(index) for index in range(footer.num_row_groups))
    values = sum(
        group.column(index).num_values for group in groups for index in range(group.num_columns)
    )
    if (size := values * widest) > MAX_TABLE_BYTES:
        raise ProfileError(
            f"{path} takes up to {size:,} bytes in memory; expected at most {MAX_TABLE_BYTES:,}"
        )


def _longest_text(path: Path, schema: pa.Schema) -> int:
    """Bytes; every text is read once, however often it stands there."""
    names = [field.name for field in schema if pa.types.is_string(field.type)]
    if not names:
        return 0
    read = pq.read_table(path, columns=names, read_dictionary=names)
    texts = (chunk.dictionary for column in read.columns for chunk in column.chunks)
    lengths = (pc.max(pc.binary_length(each)).as_py() for each in texts)
    return max((length or 0 for length in lengths), default=0)
