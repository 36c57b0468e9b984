"""Read and write profiles: a folder with profile.json and its Parquet tables.

Written atomically (a folder appears whole or not at all) and validated on write and on read.
"""

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import ValidationError

from simcore.errors import ProfileError
from simcore.folders import whole_folder
from simcore.profile import tables
from simcore.profile.schema import SCHEMA_VERSION, Profile, ProfilePart, Source, TableFile
from simcore.validation import describe_validation_error

if TYPE_CHECKING:
    import pandas as pd

PROFILE_FILE = "profile.json"


@dataclass(frozen=True)
class StoredProfile:
    """A validated profile and the folder that holds its tables."""

    profile: Profile
    folder: Path

    @cached_property
    def traces(self) -> pa.Table:
        """Acceptance trace rows (docs/reference/profile-format.md); read once, checked."""
        return self._table("traces")

    @cached_property
    def cost_samples(self) -> pa.Table:
        """Timed samples behind the cost law; read once, checked."""
        return self._table("cost")

    @cached_property
    def requests(self) -> pa.Table:
        """Counters of single requests behind records of that kind; read once, checked."""
        return self._table("requests")

    @cached_property
    def content_hash(self) -> str:
        """sha256 of profile.json, which names the hashes of its tables."""
        return _sha256(self.folder / PROFILE_FILE)

    def _table(self, name: str) -> pa.Table:
        return read_checked(self.profile, self.folder, name)


def bundled_profiles() -> dict[str, Path]:
    """Name -> folder of the profiles that specplan ships."""
    root = Path(str(resources.files("profiles")))
    found = sorted(path.parent for path in root.glob(f"*/{PROFILE_FILE}"))
    return {folder.name: folder for folder in found}


def load_profile(name_or_path: str | Path) -> StoredProfile:
    """Read a bundled profile by name, or a profile folder (or its profile.json) by path.

    Raises ProfileError where it is missing, damaged or of another schema version.
    """
    profile, folder = load_profile_or_part(name_or_path)
    if isinstance(profile, ProfilePart):
        raise ProfileError(
            f"{folder} is an import without {' and '.join(profile.missing)}, so nothing can be "
            "planned with it; import its files again with --into a profile that has them"
        )
    return StoredProfile(profile, folder)


def load_profile_or_part(name_or_path: str | Path) -> tuple[Profile | ProfilePart, Path]:
    """A profile, or what an import left without identity or cost, and its folder.

    Raises ProfileError where it is missing, damaged or of another schema version.
    """
    folder = _find(str(name_or_path))
    path = folder / PROFILE_FILE
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise ProfileError(
            f"cannot read {path}: {error}; expected a whole profile.json (measure or copy it again)"
        ) from None
    profile = _parse(raw, path)
    for entry in profile.tables.values():
        _check_file(folder / entry.file, entry)
    return profile, folder


def read_checked(profile: Profile | ProfilePart, folder: Path, name: str) -> pa.Table:
    """A table of the profile, checked against it. Raises ProfileError."""
    entry = profile.tables.get(name)  # type: ignore[call-overload]  # any name may be asked for
    if entry is None:
        raise ProfileError(
            f"profile {profile.name!r} has no {name!r} table (source "
            f"{profile.source.value}); choose a profile that was measured with one"
        )
    table = _read_table(folder / entry.file, entry)
    tables.check(name, table, profile)
    return table


def write_profile(
    profile: Profile,
    folder: Path,
    *,
    cost: "pd.DataFrame | None",
    traces: "pd.DataFrame | None",
    requests: "pd.DataFrame | None" = None,
) -> StoredProfile:
    """Write `profile` with its tables to `folder`, replacing a profile that is there.

    `profile.tables` is filled in here. Raises ProfileError, with nothing written, where a table
    does not fit the schema or the profile.
    """
    write_profile_or_part(profile, folder, {"cost": cost, "traces": traces, "requests": requests})
    return load_profile(folder)


def write_profile_or_part(
    profile: Profile | ProfilePart, folder: Path, frames: "dict[str, pd.DataFrame | None]"
) -> None:
    """Write `profile` with its tables to `folder`, replacing a profile that is there.

    `profile.tables` is filled in here. Raises ProfileError, with nothing written, where a table
    does not fit the schema or the profile.
    """
    folder = Path(folder)
    if folder.exists() and not (folder / PROFILE_FILE).exists() and any(folder.iterdir()):
        raise ProfileError(f"{folder} exists and holds no profile; choose an empty or new folder")
    with whole_folder(folder) as work:
        written: dict[str, TableFile] = {}
        for name, frame in frames.items():
            if frame is not None:
                written[name] = _write_table(work / f"{name}.parquet", tables.to_arrow(name, frame))
        complete = _parse(profile.model_dump(mode="json") | {"tables": _dump(written)}, folder)
        text = complete.model_dump_json(indent=1) + "\n"
        (work / PROFILE_FILE).write_text(text, encoding="utf-8")
        for name in written:
            read_checked(complete, work, name)


def _find(name_or_path: str) -> Path:
    bundled = bundled_profiles()
    if name_or_path in bundled:
        return bundled[name_or_path]
    path = Path(name_or_path)
    folder = path.parent if path.name == PROFILE_FILE else path
    if not (folder / PROFILE_FILE).is_file():
        raise ProfileError(
            f"no profile {name_or_path!r}: it is neither a folder with a {PROFILE_FILE} nor "
            f"bundled; bundled are {', '.join(bundled) or 'none'}"
        )
    return folder


def _parse(raw: Any, path: Path) -> Profile | ProfilePart:
    version = raw.get("schema_version") if isinstance(raw, dict) else None
    if version != SCHEMA_VERSION:
        raise ProfileError(
            f"{path}: schema version {version!r}; this specplan reads version {SCHEMA_VERSION} "
            "(measure again, or use the specplan that wrote it)"
        )
    try:
        # Through JSON, so that enums and tuples are read as they are stored.
        schema: type[Profile] | type[ProfilePart] = ProfilePart if "missing" in raw else Profile
        profile = schema.model_validate_json(json.dumps(raw))
    except (ValidationError, ValueError) as error:
        raise ProfileError(f"{path}: {describe_validation_error(error)}") from None
    _check_tables_named(profile, path)
    return profile


def _check_tables_named(profile: Profile | ProfilePart, path: Path) -> None:
    needed = set()
    if any(record.kind == "trace" for record in profile.acceptance):
        needed.add("traces")
    if any(record.kind == "request_counters" for record in profile.acceptance):
        needed.add("requests")
    if profile.source is Source.MEASURED:
        needed.add("cost")
    if missing := needed - set(profile.tables):
        raise ProfileError(
            f"{path}: no {sorted(missing)} table; a {profile.source.value} profile with records of "
            f"kind {sorted({record.kind for record in profile.acceptance})} needs it"
        )


def _dump(entries: dict[str, TableFile]) -> dict[str, Any]:
    return {name: entry.model_dump(mode="json") for name, entry in entries.items()}


def _write_table(path: Path, table: pa.Table) -> TableFile:
    pq.write_table(table, path, compression="zstd", compression_level=19, use_dictionary=True)
    return TableFile(file=path.name, rows=max(table.num_rows, 1), sha256=_sha256(path))


def _check_file(path: Path, entry: TableFile) -> None:
    if not path.is_file():
        raise ProfileError(f"{path} is missing; the profile names it with {entry.rows} rows")
    found = _sha256(path)
    if found != entry.sha256:
        raise ProfileError(
            f"{path} has sha256 {found[:12]}…, the profile expects {entry.sha256[:12]}…: the file "
            "is truncated or was changed; copy or measure the profile again"
        )


def _read_table(path: Path, entry: TableFile) -> pa.Table:
    _check_file(path, entry)
    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowInvalid) as error:
        raise ProfileError(f"cannot read {path}: {error}; expected a Parquet table") from None
    if table.num_rows != entry.rows:
        raise ProfileError(
            f"{path} holds {table.num_rows} rows, the profile expects {entry.rows}; a trace or "
            "cost table must not be empty or cut"
        )
    return table


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
