"""GuideLLM's report (JSON): latencies only; it holds no figures of speculation.

Written for GuideLLM 0.8. `inter_token_latency_ms` is (last - first) / (tokens - 1) of a request,
so TPOT; `time_per_output_token_ms` holds the TTFT too. `output_tokens_per_iteration` counts the
tokens of a chunk: the acceptance length of an engine that streams a cycle as one chunk (vLLM), 1 of
one that streams token by token (llama.cpp).
"""

from simcore.errors import EngineFileError
from simcore.profile.importers.engine_file import EngineFile
from simcore.profile.importers.importer import Importer
from simcore.profile.importers.json_fields import Fields, first_object, objects
from simcore.profile.importers.options import ImportOptions
from simcore.profile.importers.reading import Reading

FIGURES = {
    "time_to_first_token_ms": "mean TTFT, ms",
    "inter_token_latency_ms": "mean TPOT, ms",
    "output_tokens_per_iteration": "tokens a chunk",
}


def recognises(file: EngineFile) -> bool:
    """Whether the first object is such a report, whole or one benchmark of it."""
    first = first_object(file)
    metrics = first.get("metrics")
    return "benchmarks" in first or (
        isinstance(metrics, dict) and "output_tokens_per_iteration" in metrics
    )


def read(files: list[EngineFile], options: ImportOptions) -> Reading:
    """Figures only. Raises EngineFileError."""
    del options
    benchmarks = [each for file in files for found in objects(file) for each in _benchmarks(found)]
    if not benchmarks:
        raise EngineFileError(f"{files[0].name} holds no benchmark; expected at least one")
    figures: dict[str, float] = {}
    for number, each in enumerate(benchmarks, start=1):
        prefix = f"benchmark {number}: " if len(benchmarks) > 1 else ""
        metrics = each.section("metrics")
        for key, text in FIGURES.items():
            if metrics.has(key) and metrics.section(key).has("successful"):
                mean = metrics.section(key).section("successful").maybe_number("mean")
                figures |= {} if mean is None else {prefix + text: mean}
    if not figures:
        raise EngineFileError(f"{files[0].name} has none of {', '.join(FIGURES)}; all failed?")
    note = (
        "GuideLLM does not see acceptance: tokens a chunk is the mean acceptance length only of "
        "an engine that streams a cycle as one chunk. Import the engine's own counters."
    )
    return Reading("GuideLLM", figures=figures, notes=(note,))


def _benchmarks(found: Fields) -> list[Fields]:
    if not found.has("benchmarks"):
        return [found]
    each = [(f"{found.where}, benchmark {i + 1}", value) for i, value in found.items("benchmarks")]
    if bad := next((where for where, value in each if not isinstance(value, dict)), None):
        raise EngineFileError(f"{bad} is no object; expected a benchmark")
    return [Fields(where, value) for where, value in each]


IMPORTER = Importer(
    written_for="GuideLLM 0.8",
    gives="latencies, shown only",
    recognises=recognises,
    read=read,
)
