"""TensorRT-LLM's /metrics with iteration statistics: a JSON list, one object an iteration.

Written for TensorRT-LLM 1.3. Counts are totals over the batch: a mean, exact, but no survival
beyond γ = 1. `iterLatencyMS` of the iteration is the step; the one inside specDecodingStats is
drafting alone.
"""

from simcore.errors import EngineFileError
from simcore.profile.importers.engine_file import EngineFile
from simcore.profile.importers.importer import Importer
from simcore.profile.importers.json_fields import Fields, first_object, objects
from simcore.profile.importers.options import ImportOptions
from simcore.profile.importers.reading import CountedRecord, Reading, make_counts
from simcore.profile.importers.samples import Step, step_samples

TOLERANCE = 5e-3


def recognises(file: EngineFile) -> bool:
    """Whether the first object is such an iteration."""
    return {"iter", "iterLatencyMS"} <= set(first_object(file))


def read(files: list[EngineFile], options: ImportOptions) -> Reading:
    """Totals, and samples of the decode steps. Raises EngineFileError."""
    iterations = [each for file in files for each in objects(file)]
    _check_once(iterations)
    drafting = [each for each in iterations if _num_drafts(each) > 0]
    steps = [step for each in iterations for step in _steps(each, options)]
    if not drafting and not steps:
        raise EngineFileError(
            f"{files[0].name} has no decode iteration; expected iteration statistics of a server "
            "under load (enable_iter_perf_stats)"
        )
    records = (_record(files[0].name, drafting, options),) if drafting else ()
    notes = (
        f"{len(iterations)} iterations, {len(drafting)} with drafts. Context is the used KV blocks "
        "shared out over the requests. Counts are totals of a batch: where γ > 1 they give a mean "
        "and no survival; /prometheus/metrics has them by position.",
    )
    samples = step_samples(steps) if steps else None
    return Reading("TensorRT-LLM", records, samples, whole_steps=samples is not None, notes=notes)


def _check_once(iterations: list[Fields]) -> None:
    numbers = [each.count("iter") for each in iterations]
    if len(set(numbers)) < len(numbers):
        raise EngineFileError(
            f"{iterations[0].where.split(',')[0]}: an iteration stands twice; ranks or polls "
            "overlap: keep each iteration of one rank once"
        )


def _num_drafts(iteration: Fields) -> int:
    if not iteration.has("specDecodingStats"):
        return 0
    return iteration.section("specDecodingStats").count("numRequestsWithDraftTokens")


def _record(name: str, drafting: list[Fields], options: ImportOptions) -> CountedRecord:
    totals = [_totals(each.section("specDecodingStats")) for each in drafting]
    drafts, drafted, accepted = (sum(column) for column in zip(*totals, strict=True))
    longest = max(-(-tokens // requests) for requests, tokens, _ in totals)
    if options.gamma is not None and options.gamma < longest:
        raise EngineFileError(
            f"{name}: an iteration drafted {longest} tokens a request, --gamma says "
            f"{options.gamma}; expected at most that"
        )
    counts = make_counts(
        name,
        num_drafts=drafts,
        num_draft_tokens=drafted,
        num_accepted_tokens=accepted,
        num_cycles=drafts if options.always_drafts else None,
    )
    return CountedRecord("totals", "intervals", {options.gamma or max(longest, 1): counts})


def _totals(stats: Fields) -> tuple[int, int, int]:
    requests = stats.count("numRequestsWithDraftTokens")
    drafted, accepted = stats.count("numDraftTokens"), stats.count("numAcceptedTokens")
    length = stats.maybe_number("acceptanceLength")
    expected = (accepted + requests) / requests
    if length is not None and abs(length - expected) > TOLERANCE * expected:
        raise stats.wrong(
            "acceptanceLength", f"{length:g}", f"{expected:.4g}, (accepted + requests) / requests"
        )
    return requests, drafted, accepted


def _steps(iteration: Fields, options: ImportOptions) -> list[Step]:
    """The target pass of an iteration that only decodes, drafting apart where it is timed."""
    if not iteration.has("inflightBatchingStats"):
        return []
    batch = iteration.section("inflightBatchingStats")
    requests, seconds = batch.count("numGenRequests"), iteration.number("iterLatencyMS") / 1e3
    if batch.count("numContextRequests") or not requests or not seconds > 0.0:
        return []
    drafts = _num_drafts(iteration)
    drafted = iteration.section("specDecodingStats").count("numDraftTokens") if drafts else 0
    if drafts not in (0, requests) or drafted % requests:
        return []
    context = _context(iteration, requests)
    query = 1 + drafted // requests
    drafting = _draft_seconds(iteration, seconds) if drafts else 0.0
    steps = [Step(requests, query, context, seconds - drafting)]
    if drafting and options.proposer:
        steps.append(Step(requests, query, context, drafting, "propose", options.proposer))
    return steps


def _draft_seconds(iteration: Fields, seconds: float) -> float:
    stats = iteration.section("specDecodingStats")
    drafting = (stats.maybe_number("iterLatencyMS") or 0.0) / 1e3
    if not 0.0 <= drafting < seconds:
        raise stats.wrong(
            "iterLatencyMS", f"{1e3 * drafting:g}", f"drafting alone, under {1e3 * seconds:g}"
        )
    return drafting


def _context(iteration: Fields, requests: int) -> int:
    if not iteration.has("kvCacheStats"):
        return 0
    cache = iteration.section("kvCacheStats")
    return round(cache.count("usedNumBlocks") * cache.count("tokensPerBlock") / requests)


IMPORTER = Importer(
    written_for="TensorRT-LLM 1.3",
    gives="totals (a mean); step cost, drafting apart",
    recognises=recognises,
    read=read,
)
