"""What engines and load generators already measured, read into acceptance records and samples."""

from simcore.profile.importers.engine_file import EngineFile, checked_files, open_files
from simcore.profile.importers.kinds import AUTO, IMPORTERS, read_files
from simcore.profile.importers.options import ImportOptions
from simcore.profile.importers.reading import CountedRecord, Reading

__all__ = [
    "AUTO",
    "IMPORTERS",
    "CountedRecord",
    "EngineFile",
    "ImportOptions",
    "Reading",
    "checked_files",
    "open_files",
    "read_files",
]
