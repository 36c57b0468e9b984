"""llama.cpp server's answers: `timings` of each request, JSON or JSONL.

Written for llama.cpp of October 2026. draft_n counts generated drafts, discarded ones too; steps
and positions are not counted, so there is a mean and no survival beyond γ = 1.
"""

from simcore.errors import EngineFileError
from simcore.profile.importers.engine_file import EngineFile
from simcore.profile.importers.importer import Importer
from simcore.profile.importers.json_fields import Fields, first_object, objects
from simcore.profile.importers.options import ImportOptions
from simcore.profile.importers.reading import Reading
from simcore.profile.importers.request_counts import RequestCounts, requests_record


def recognises(file: EngineFile) -> bool:
    """Whether the first object is such an answer."""
    timings = first_object(file).get("timings")
    return isinstance(timings, dict) and "predicted_n" in timings


def read(files: list[EngineFile], options: ImportOptions) -> Reading:
    """Request counters without histograms. Raises EngineFileError."""
    answers = [answer.section("timings") for file in files for answer in objects(file)]
    drafted = [each for each in answers if (each.maybe_count("draft_n") or 0) > 0]
    if not drafted:
        raise EngineFileError(
            f"{files[0].name}: no answer has draft_n above 0; serve with a draft (--spec-type)"
        )
    if options.gamma is None:
        raise EngineFileError(
            f"{files[0].name} does not say the draft length; state it with --gamma "
            "(--spec-draft-n-max)"
        )
    requests = [_counts(each) for each in drafted]
    tokens = sum(each.output_tokens or 0 for each in requests)
    steps = tokens - sum(each.num_accepted_tokens for each in requests)
    decoding_ms = sum(each.maybe_number("predicted_ms") or 0.0 for each in drafted)
    plain = len(answers) - len(drafted)
    notes = (
        "Totals by request: a mean, and no survival; import /metrics or the log.",
        *([f"{plain} answers without drafts were left out."] if plain else []),
    )
    figures = {"tokens a step, with or without a draft": tokens / steps} if steps else {}
    # predicted_ms runs from the first token on, which is prefill's.
    cycles = steps - len(requests)
    if cycles > 0 and decoding_ms:
        figures["step, ms"] = decoding_ms / cycles
    return Reading(
        "llama.cpp", (requests_record(requests, options.gamma),), figures=figures, notes=notes
    )


def _counts(timings: Fields) -> RequestCounts:
    output, accepted = timings.count("predicted_n"), timings.count("draft_n_accepted")
    if accepted > max(output - 1, 0):
        raise timings.wrong(
            "draft_n_accepted", f"{accepted}", f"under the {output} tokens that were generated"
        )
    return RequestCounts(
        where=timings.where,
        num_accepted_tokens=accepted,
        num_draft_tokens=timings.count("draft_n"),
        num_cycles=output - 1 - accepted,
        output_tokens=output,
    )


IMPORTER = Importer(
    written_for="llama.cpp of October 2026",
    gives="request counters without positions (a mean); step time is shown",
    recognises=recognises,
    read=read,
)
