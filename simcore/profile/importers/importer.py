"""The one protocol of all importers."""

from collections.abc import Callable
from dataclasses import dataclass

from simcore.profile.importers.engine_file import EngineFile
from simcore.profile.importers.options import ImportOptions
from simcore.profile.importers.reading import Reading


@dataclass(frozen=True)
class Importer:
    """One format: how it is recognised and read, and what it was written for."""

    written_for: str  # program and version
    gives: str  # one line, for the list of kinds
    recognises: Callable[[EngineFile], bool]
    read: Callable[[list[EngineFile], ImportOptions], Reading]
