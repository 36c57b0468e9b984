"""AIPerf's profile_export.jsonl: one object a request; acceptance where the engine sent it.

Written for AIPerf 0.13. `inter_token_latency` is TPOT, `inter_chunk_latency` a list of gaps (about
steps). `spec_decode_acceptance` (vLLM only) is vLLM's per-request record with a sparse histogram.
"""

from simcore.errors import EngineFileError
from simcore.profile.importers.engine_file import EngineFile
from simcore.profile.importers.importer import Importer
from simcore.profile.importers.json_fields import Fields, first_object, objects
from simcore.profile.importers.options import ImportOptions
from simcore.profile.importers.reading import Reading
from simcore.profile.importers.request_counts import RequestCounts, requests_record
from simcore.profile.importers.spec_record import read_spec_record

FIGURES = {
    "time_to_first_token": "mean TTFT, ms",
    "inter_token_latency": "mean TPOT, ms",
    "request_latency": "mean E2E, ms",
}
RECORD = "spec_decode_acceptance"


def recognises(file: EngineFile) -> bool:
    """Whether the first object is such a request."""
    return {"metadata", "metrics"} <= set(first_object(file))


def read(files: list[EngineFile], options: ImportOptions) -> Reading:
    """Request counters where the records have them, latencies. Raises EngineFileError."""
    lines = [each for file in files for each in objects(file)]
    good = [each for each in lines if not each.has("error")]
    if not good:
        raise EngineFileError(f"{files[0].name}: every request failed; expected one that did not")
    _check_once(good)
    by_gamma: dict[int, list[RequestCounts]] = {}
    for each in good:
        if each.has(RECORD):
            found = each.section(RECORD)
            gamma, counts = read_spec_record(found, options, found.maybe_count("completion_tokens"))
            by_gamma.setdefault(gamma, []).append(counts)
    records = tuple(
        requests_record(requests, gamma)
        for gamma, requests in by_gamma.items()
        if any(each.num_drafts for each in requests)
    )
    return Reading("AIPerf", records, figures=_figures(good), notes=_notes(lines, good, records))


def _check_once(lines: list[Fields]) -> None:
    names = [each.section("metadata").text("x_request_id") for each in lines]
    known = [name for name in names if name is not None]
    if len(set(known)) < len(known):
        raise EngineFileError(f"{lines[0].where}: a request stands twice; expected each once")


def _figures(lines: list[Fields]) -> dict[str, float]:
    figures = {}
    for key, text in FIGURES.items():
        metrics = [each.section("metrics") for each in lines]
        values = [each.section(key).number("value") for each in metrics if each.has(key)]
        if values:
            figures[text] = sum(values) / len(values)
    return figures


def _notes(lines: list[Fields], good: list[Fields], records: tuple[object, ...]) -> tuple[str, ...]:
    notes = []
    if not records:
        notes.append(
            "No acceptance record: AIPerf reads it from vLLM only, served with "
            "--per-request-spec-decode-metrics. Import the engine's own counters."
        )
    if len(good) < len(lines):
        notes.append(f"{len(lines) - len(good)} failed requests were left out.")
    return tuple(notes)


IMPORTER = Importer(
    written_for="AIPerf 0.13",
    gives="request counters where vLLM sent them; latencies are shown",
    recognises=recognises,
    read=read,
)
