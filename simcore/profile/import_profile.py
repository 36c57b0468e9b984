"""An engine's files as a profile in one call: what `specplan import` does, from Python."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import get_args

from pydantic import ValidationError

from simcore.errors import EngineFileError
from simcore.profile.importers import AUTO, ImportOptions, open_files, read_files
from simcore.profile.merge import merge, write_merge
from simcore.profile.schema import ProposerKind
from simcore.profile.store import StoredProfile, load_profile, load_profile_or_part
from simcore.validation import describe_validation_error


def import_profile(
    files: Sequence[str | Path],
    folder: str | Path,
    *,
    into: str | Path | None = None,
    kind: str = AUTO,
    replace_records: bool = False,
    **said: object,
) -> StoredProfile:
    """What an engine or a load generator measured, kept as a profile in `folder`.

    `files` are of one kind, scrapes oldest first; `into` is a profile by name or folder that the
    import is added to (it stays as it is). `said` is what engines do not write down: `proposer`,
    `sampling={"temperature": 0.0}`, `domain`, `target` and the other options of `specplan import`.
    Raises EngineFileError for files or options that cannot be used, and ProfileError where the
    result contradicts `into` or lacks something to plan with.
    """
    start = None if into is None else str(into)
    options = with_known_kind(checked_options(said), start)
    opened = open_files([Path(each) for each in files])
    _, reading = read_files(kind, opened, options)
    merged = merge(
        reading,
        options,
        name=profile_name(Path(folder)),
        date=datetime.now(UTC).date().isoformat(),
        files=tuple(file.name for file in opened),
        into=start,
        replace_records=replace_records,
    )
    write_merge(merged, Path(folder))
    return load_profile(folder)


def checked_options(said: Mapping[str, object]) -> ImportOptions:
    """What the user says beside the files. Raises EngineFileError."""
    try:
        return ImportOptions.model_validate(said)
    except ValidationError as error:
        raise EngineFileError(f"options: {describe_validation_error(error)}") from None


def with_known_kind(options: ImportOptions, into: str | None) -> ImportOptions:
    """A proposer is of the kind that its name or the profile says, where the user does not."""
    if options.proposer_kind is not None or options.proposer is None:
        return options
    held = load_profile_or_part(into)[0].proposers if into is not None else {}
    known: dict[str, str] = {kind: kind for kind in get_args(ProposerKind)}
    known |= {name: each.kind for name, each in held.items()}
    return options.model_copy(update={"proposer_kind": known.get(options.proposer)})


def profile_name(folder: Path) -> str:
    """The folder's name in the letters that a profile's name may have."""
    letters = [
        c if c.isascii() and (c.isalnum() or c in "_.-") else "-" for c in folder.name.lower()
    ]
    return "".join(letters).lstrip("_.-") or "imported"
