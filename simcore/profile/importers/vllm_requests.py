"""vLLM's answers with --per-request-spec-decode-metrics: JSON or JSONL of whole responses.

Written for vLLM 0.32, where the metrics are marked experimental. Only cycles with a draft are
listed; the rest follows from usage.completion_tokens.
"""

from simcore.errors import EngineFileError
from simcore.profile.importers.engine_file import EngineFile
from simcore.profile.importers.importer import Importer
from simcore.profile.importers.json_fields import Fields, first_object, objects
from simcore.profile.importers.options import ImportOptions
from simcore.profile.importers.reading import Reading
from simcore.profile.importers.request_counts import RequestCounts, requests_record
from simcore.profile.importers.spec_record import read_spec_record


def recognises(file: EngineFile) -> bool:
    """Whether the first object is such an answer."""
    metrics = first_object(file).get("metrics")
    return isinstance(metrics, dict) and "speculative_decoding" in metrics


def read(files: list[EngineFile], options: ImportOptions) -> Reading:
    """Request counters, with cycles in order where `detailed` was on. Raises EngineFileError."""
    by_gamma: dict[int, list[RequestCounts]] = {}
    answers = [answer for file in files for answer in objects(file)]
    models, seen, without = set[str | None](), set[str](), 0
    for answer in answers:
        _check_new(answer, seen)
        models.add(answer.text("model"))
        metrics = answer.section("metrics")
        if not metrics.has("speculative_decoding"):
            without += 1
            continue
        output = answer.section("usage").count("completion_tokens") if answer.has("usage") else None
        gamma, counts = read_spec_record(metrics.section("speculative_decoding"), options, output)
        by_gamma.setdefault(gamma, []).append(counts)
    if not any(each.num_drafts for requests in by_gamma.values() for each in requests):
        raise EngineFileError(
            f"{files[0].name}: no answer speculated; serve with --per-request-spec-decode-metrics "
            "summary or detailed"
        )
    note = f"{without} answers without speculation were left out." if without else ""
    return Reading(
        engine="vLLM",
        records=tuple(requests_record(each, gamma) for gamma, each in by_gamma.items()),
        model=models.pop() if len(models) == 1 else None,
        notes=(note,) if note else (),
    )


def _check_new(answer: Fields, seen: set[str]) -> None:
    name = answer.text("id")
    if name is None:
        return
    if name in seen:
        raise EngineFileError(f"{answer.where}: answer {name[:40]!r} came before; expected it once")
    seen.add(name)


IMPORTER = Importer(
    written_for="vLLM 0.32",
    gives="request counters with histograms; cycles in order with `detailed`",
    recognises=recognises,
    read=read,
)
