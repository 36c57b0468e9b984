"""llama.cpp server's /metrics: vLLM's four names under its own prefix, no ranks.

Written for llama.cpp of October 2026. Positions are absent until the first finished request that
speculated. Drafts are cut to the tokens that a request may still emit.
"""

from simcore.profile.importers.engine_file import EngineFile
from simcore.profile.importers.importer import Importer
from simcore.profile.importers.options import ImportOptions
from simcore.profile.importers.reading import Reading
from simcore.profile.importers.spec_counters import mentions, read_spec_counters

PREFIX = "llamacpp"


def recognises(file: EngineFile) -> bool:
    """Whether the file is a scrape of a llama.cpp server that speculates."""
    return mentions(file, PREFIX)


def read(files: list[EngineFile], options: ImportOptions) -> Reading:
    """Position counters. Raises EngineFileError."""
    return read_spec_counters(
        files,
        options,
        engine="llama.cpp",
        prefix=PREFIX,
        generated="llamacpp:tokens_predicted_total",
    )


IMPORTER = Importer(
    written_for="llama.cpp of October 2026",
    gives="position counters, from one scrape of /metrics or from two around a run",
    recognises=recognises,
    read=read,
)
