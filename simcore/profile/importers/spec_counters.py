"""The four counters that vLLM and llama.cpp export alike, under another prefix."""

from itertools import pairwise

from simcore.errors import EngineFileError
from simcore.profile.importers.engine_file import EngineFile
from simcore.profile.importers.options import ImportOptions
from simcore.profile.importers.prometheus_text import Scrape, difference, read_scrape, whole
from simcore.profile.importers.reading import CountedRecord, Reading, make_counts

DRAFTS = "spec_decode_num_drafts_total"
DRAFT_TOKENS = "spec_decode_num_draft_tokens_total"
ACCEPTED = "spec_decode_num_accepted_tokens_total"
BY_POSITION = "spec_decode_num_accepted_tokens_per_pos_total"
FEW_OTHERS = 0.02  # share of decode steps without a draft that goes without saying


def mentions(file: EngineFile, prefix: str) -> bool:
    """Whether the file is a scrape of these counters."""
    return f"\n{prefix}:spec_decode_num_drafts" in "\n" + file.text


def read_spec_counters(
    files: list[EngineFile],
    options: ImportOptions,
    *,
    engine: str,
    prefix: str,
    generated: str,
) -> Reading:
    """Counters since the server's start (one scrape), or their growth from first to last.

    `generated` names the counter of generated tokens. Raises EngineFileError.
    """
    scrapes = [read_scrape(file) for file in files]
    names = ", ".join(file.name for file in files)
    grown = difference(names, {}, scrapes[0])
    if len(scrapes) > 1:
        for before, after in pairwise(scrapes):
            difference(names, before, after)
        grown = difference(names, scrapes[0], scrapes[-1])
    model, grown = _one_model(names, grown, options.target)
    return _reading(names, grown, options, engine, prefix, generated, model, len(files) > 1)


def _reading(
    names: str,
    grown: Scrape,
    options: ImportOptions,
    engine: str,
    prefix: str,
    generated: str,
    model: str | None,
    is_difference: bool,
) -> Reading:
    drafts = _total(names, grown, f"{prefix}:{DRAFTS}")
    if drafts == 0:
        raise EngineFileError(
            f"{names}: nothing was drafted; expected scrapes around requests that speculate"
        )
    accepted = _total(names, grown, f"{prefix}:{ACCEPTED}")
    positions = _positions(names, grown, f"{prefix}:{BY_POSITION}", options.gamma)
    tokens = _maybe_total(names, grown, generated)
    requests = _maybe_total(names, grown, f"{prefix}:request_success_total")
    requests = options.num_requests if requests is None else requests
    # Each decode step of a request emits one token that is no draft; so does its prefill.
    steps = None if tokens is None or requests is None else tokens - accepted - requests
    cycles: int | None = drafts
    if not options.always_drafts:
        cycles = None if steps is None else max(steps, drafts)
    counts = make_counts(
        names,
        num_drafts=drafts,
        num_draft_tokens=_total(names, grown, f"{prefix}:{DRAFT_TOKENS}"),
        num_accepted_tokens=accepted,
        num_cycles=cycles,
        accepted_per_position=positions,
    )
    record = CountedRecord(
        kind="position_counters",
        scope="difference" if is_difference else "lifetime",
        counts={len(positions): counts},
        num_requests=requests or 0,
    )
    figures = {"tokens a cycle with a draft": 1.0 + accepted / drafts}
    if tokens is not None and tokens > accepted:
        figures["tokens a decode step, with or without a draft"] = tokens / (tokens - accepted)
    return Reading(
        engine=engine,
        records=(record,),
        model=model,
        figures=figures,
        notes=_notes(drafts, steps, is_difference, options),
    )


def _notes(
    drafts: int, steps: int | None, is_difference: bool, options: ImportOptions
) -> tuple[str, ...]:
    notes = []
    if not is_difference:
        notes.append(
            "One scrape: the counts run since the server's start, warm-up and other traffic "
            "included; give a scrape before and one after to count a run."
        )
    if steps is not None and drafts > steps:
        notes.append(
            f"{drafts} drafts in {steps} decode steps that the generated tokens leave: drafts are "
            "counted before an output is cut, so short outputs read high."
        )
    elif steps is not None and steps - drafts > FEW_OTHERS * steps and options.always_drafts:
        notes.append(
            f"{steps - drafts} of {steps} decode steps had no draft, though this proposer always "
            "drafts: speculation was off at times, or state --proposer-kind ngram."
        )
    return tuple(notes)


def _one_model(names: str, grown: Scrape, target: str | None) -> tuple[str | None, Scrape]:
    """The series of one served model; ranks (`engine` labels) stay, to be summed."""
    models = sorted({value for _, labels in grown for key, value in labels if key == "model_name"})
    if len(models) <= 1:
        return (models[0] if models else None), grown
    if target not in models:
        raise EngineFileError(
            f"{names} holds several models, {', '.join(models)}; choose one with --target"
        )
    return target, {s: v for s, v in grown.items() if ("model_name", target) in s[1]}


def _total(names: str, grown: Scrape, name: str) -> int:
    found = _maybe_total(names, grown, name)
    if found is None:
        raise EngineFileError(
            f"{names} has no {name}; expected it beside the others: scrape the whole of /metrics "
            "of a server that speculates"
        )
    return found


def _maybe_total(names: str, grown: Scrape, name: str) -> int | None:
    values = [value for (found, _), value in grown.items() if found == name]
    return whole(f"{names}: {name}", sum(values)) if values else None


def _positions(names: str, grown: Scrape, name: str, gamma: int | None) -> tuple[int, ...]:
    """[γ] accepted by position, summed over ranks."""
    by_position: dict[int, float] = {}
    for (found, labels), value in grown.items():
        if found == name:
            label = dict(labels).get("position", "")
            if not (label.isascii() and label.isdecimal() and len(label) <= 3):  # noqa: PLR2004 - at most 999 positions
                raise EngineFileError(
                    f"{names}: {name} with position {label[:20]!r}; expected 0, 1, .."
                )
            by_position[int(label)] = by_position.get(int(label), 0.0) + value
    if sorted(by_position) != list(range(len(by_position))) or not by_position:
        raise EngineFileError(
            f"{names}: {name} for positions {sorted(by_position)[:9]}; expected 0, 1, .. without "
            "gaps: some were lost, scrape again"
        )
    counted = [whole(f"{names}: {name}", by_position[k]) for k in range(len(by_position))]
    missing = (gamma or 0) - len(counted)
    if gamma is not None and missing < 0:
        raise EngineFileError(
            f"{names} shows {len(counted)} draft positions, --gamma says {gamma}; expected as many"
        )
    return (*counted, *[0] * max(missing, 0))
