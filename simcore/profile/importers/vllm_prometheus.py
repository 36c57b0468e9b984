"""vLLM's /metrics: four counters of speculation, by rank and position.

Written for vLLM 0.32 (V1 counters, unchanged since 0.9). Per-position counts are unconditional,
excludes the bonus, and steps without a draft are in none of the four.
"""

from simcore.profile.importers.engine_file import EngineFile
from simcore.profile.importers.importer import Importer
from simcore.profile.importers.options import ImportOptions
from simcore.profile.importers.reading import Reading
from simcore.profile.importers.spec_counters import mentions, read_spec_counters

PREFIX = "vllm"


def recognises(file: EngineFile) -> bool:
    """Whether the file is a scrape of a vLLM server that speculates."""
    return mentions(file, PREFIX)


def read(files: list[EngineFile], options: ImportOptions) -> Reading:
    """Position counters, ranks summed. Raises EngineFileError."""
    return read_spec_counters(
        files, options, engine="vLLM", prefix=PREFIX, generated="vllm:generation_tokens_total"
    )


IMPORTER = Importer(
    written_for="vLLM 0.32",
    gives="position counters, from one scrape of /metrics or from two around a run",
    recognises=recognises,
    read=read,
)
