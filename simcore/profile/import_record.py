"""What an importer counted, with the identity that the user states: an acceptance record."""

from simcore.errors import EngineFileError
from simcore.profile.counts import Origin
from simcore.profile.importers.options import ImportOptions
from simcore.profile.importers.reading import CountedRecord, Reading
from simcore.profile.schema import AcceptanceRecord, Contract, Sampling


def complete_record(
    found: CountedRecord, reading: Reading, options: ImportOptions, files: tuple[str, ...]
) -> AcceptanceRecord:
    """The record, its key still 0. Raises EngineFileError where something was not said."""
    sampling = _sampling(found, options)
    if sampling is None or options.proposer is None:
        raise EngineFileError(
            "the files do not say "
            + " and ".join(
                text
                for text, value in (
                    ("which proposer drafted (--proposer)", options.proposer),
                    ("how tokens were sampled (--temperature)", sampling),
                )
                if value is None
            )
            + "; acceptance belongs to them: state them"
        )
    greedy = sampling.temperature == 0.0
    return AcceptanceRecord(
        key=0,
        proposer=options.proposer,
        domain=found.domain or options.domain,
        sampling=sampling,
        contract=Contract.GREEDY_EQUALITY if greedy else Contract.EXACT_SAMPLING,
        kind=found.kind,
        max_num_speculative_tokens=found.max_gamma or max(found.counts),
        num_requests=found.num_requests,
        counted_at="every_position" if found.kind == "trace" else "cycle_starts",
        counts=found.counts,
        origin=_origin(found, reading, options, files),
    )


def _sampling(found: CountedRecord, options: ImportOptions) -> Sampling | None:
    """What the user states, or the file; they may not differ."""
    said = options.sampling
    if found.temperature is None:
        return said
    if said is not None and said.temperature != found.temperature:
        raise EngineFileError(
            f"the files hold cycles at temperature {found.temperature:g}, --temperature says "
            f"{said.temperature:g}; expected the same: say theirs, or give the rows of yours"
        )
    return said or Sampling(temperature=found.temperature)


def _origin(
    found: CountedRecord, reading: Reading, options: ImportOptions, files: tuple[str, ...]
) -> Origin:
    return Origin(
        engine=reading.engine,
        engine_version=options.engine_version,
        scope=found.scope,
        target=options.target or reading.model,
        target_revision=options.target_revision,
        target_dtype=options.target_dtype,
        target_quantization=options.target_quantization,
        draft=options.draft,
        draft_revision=options.draft_revision,
        draft_dtype=options.draft_dtype,
        draft_quantization=options.draft_quantization,
        context_tokens=options.context_tokens,
        files=files,
        notes=reading.notes,
    )
