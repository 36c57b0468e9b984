"""SGLang's answers: `meta_info` of each request, JSON or JSONL.

Written for SGLang 0.5.18; older aliases are read. The stated mean (completion / verify) counts the
prefill's token and is not used. The histogram may end at the longest accepted length; of a tree
it counts depth, which is no survival of a chain.
"""

from simcore.errors import EngineFileError
from simcore.profile.importers.engine_file import EngineFile
from simcore.profile.importers.importer import Importer
from simcore.profile.importers.json_fields import Fields, first_object, objects
from simcore.profile.importers.options import ImportOptions
from simcore.profile.importers.reading import Reading
from simcore.profile.importers.request_counts import RequestCounts, requests_record

HISTOGRAMS = ("spec_correct_drafts_histogram", "spec_accept_histogram")
ACCEPTED = ("spec_num_correct_drafts", "spec_accepted_drafts")
PROPOSED = ("spec_num_proposed_drafts", "spec_proposed_drafts")


def recognises(file: EngineFile) -> bool:
    """Whether the first object is such an answer."""
    meta = first_object(file).get("meta_info")
    return isinstance(meta, dict) and "spec_verify_ct" in meta


def read(files: list[EngineFile], options: ImportOptions) -> Reading:
    """Request counters with histograms where the answers have them. Raises EngineFileError."""
    metas = [answer.section("meta_info") for file in files for answer in objects(file)]
    _check_once(metas)
    speculative = [meta for meta in metas if (meta.maybe_count("spec_verify_ct") or 0) > 0]
    if not speculative:
        raise EngineFileError(
            f"{files[0].name}: no answer has a spec_verify_ct above 0; serve with "
            "--speculative-algorithm"
        )
    gamma = _gamma(speculative, options)
    record = requests_record([_counts(meta, gamma, options) for meta in speculative], gamma)
    plain = len(metas) - len(speculative)
    notes = (f"{plain} answers without a verify step were left out.",) if plain else ()
    return Reading(engine="SGLang", records=(record,), notes=notes)


def _check_once(metas: list[Fields]) -> None:
    names = [name for meta in metas if (name := meta.text("id")) is not None]
    if len(set(names)) < len(names):
        raise EngineFileError(f"{metas[0].where}: an answer stands twice; expected each once")


def _gamma(metas: list[Fields], options: ImportOptions) -> int:
    """The chain's draft length. A histogram shorter than what was drafted is cut, or a tree's."""
    longest = max((len(_histogram(meta) or ()) for meta in metas), default=0) - 1
    drafted = max((_named(meta, PROPOSED) or 0) / meta.count("spec_verify_ct") for meta in metas)
    gamma = options.gamma
    if gamma is None and drafted == longest:
        gamma = longest
    if gamma is None:
        raise EngineFileError(
            f"{metas[0].where}: {drafted:g} drafts a verify step and a histogram up to "
            f"{longest}: a chain whose histogram was cut, a tree, or a length that changed; state "
            "the chain's length with --gamma (a tree is refused)"
        )
    if drafted > gamma or longest > gamma:
        raise EngineFileError(
            f"{metas[0].where}: {drafted:g} drafts a verify step and a histogram up to {longest}, "
            f"--gamma {gamma}; expected at most that: a tree's counts give no survival of a chain"
        )
    return gamma


def _counts(meta: Fields, gamma: int, options: ImportOptions) -> RequestCounts:
    drafts = meta.count("spec_verify_ct")
    accepted = _named(meta, ACCEPTED)
    histogram = _histogram(meta)
    if accepted is None:
        raise meta.wrong(ACCEPTED[0], "missing", "the accepted drafts")
    lengths = None if histogram is None else (*histogram, *[0] * (gamma + 1 - len(histogram)))
    return RequestCounts(
        where=meta.where,
        num_accepted_tokens=accepted,
        num_drafts=drafts,
        num_draft_tokens=_named(meta, PROPOSED),
        num_cycles=drafts if options.always_drafts else None,
        output_tokens=meta.maybe_count("completion_tokens"),
        accepted_lengths=lengths,
    )


def _named(meta: Fields, keys: tuple[str, ...]) -> int | None:
    return next((meta.count(key) for key in keys if meta.has(key)), None)


def _histogram(meta: Fields) -> tuple[int, ...] | None:
    key = next((key for key in HISTOGRAMS if meta.has(key)), None)
    return (meta.counts(key) or None) if key else None


IMPORTER = Importer(
    written_for="SGLang 0.5.18",
    gives="request counters with histograms",
    recognises=recognises,
    read=read,
)
