"""TensorRT-LLM's /prometheus/metrics: drafted and accepted by position.

Written for TensorRT-LLM 1.3 (needs return_perf_metrics). The one engine that counts drafts by
position, so conditional rates follow although draft lengths vary with the load.
"""

from itertools import pairwise

from simcore.errors import EngineFileError
from simcore.profile.importers.engine_file import EngineFile
from simcore.profile.importers.importer import Importer
from simcore.profile.importers.options import ImportOptions
from simcore.profile.importers.prometheus_text import Scrape, difference, read_scrape, whole
from simcore.profile.importers.reading import (
    CountedRecord,
    Reading,
    Scope,
    check_gamma,
    make_counts,
)

DRAFTED = "trtllm_spec_decode_drafted_tokens_total"
ACCEPTED = "trtllm_spec_decode_accepted_tokens_total"
TOTALS = {
    DRAFTED: "trtllm_spec_decode_num_draft_tokens_total",
    ACCEPTED: "trtllm_spec_decode_num_accepted_tokens_total",
}


def recognises(file: EngineFile) -> bool:
    """Whether the file is a scrape of a TensorRT-LLM server that speculates."""
    return DRAFTED in file.text


def read(files: list[EngineFile], options: ImportOptions) -> Reading:
    """Position counters, drafted ones too. Raises EngineFileError."""
    names = ", ".join(file.name for file in files)
    scrapes = [read_scrape(file) for file in files]
    for before, after in pairwise(scrapes):
        difference(names, before, after)
    grown = difference(names, scrapes[0] if len(scrapes) > 1 else {}, scrapes[-1])
    drafted, accepted = (_by_position(names, grown, name) for name in (DRAFTED, ACCEPTED))
    if len(drafted) != len(accepted) or not drafted or drafted[0] == 0:
        raise EngineFileError(
            f"{names}: drafted at {len(drafted)} and accepted at {len(accepted)} positions; "
            "expected counts of both around requests that speculate"
        )
    gamma = check_gamma(names, len(drafted), options.gamma)
    counts = make_counts(
        names,
        num_drafts=drafted[0],
        num_draft_tokens=sum(drafted),
        num_accepted_tokens=sum(accepted),
        num_cycles=drafted[0] if options.always_drafts else None,
        accepted_per_position=accepted,
        drafted_per_position=drafted,
    )
    scope: Scope = "difference" if len(files) > 1 else "lifetime"
    record = CountedRecord("position_counters", scope, {gamma: counts})
    return Reading("TensorRT-LLM", (record,))


def _by_position(names: str, grown: Scrape, name: str) -> list[int]:
    """Counts in order of position, ranks summed; they sum to the engine's own total."""
    found: dict[str, float] = {}
    for (series, labels), value in grown.items():
        if series == name:
            position = dict(labels).get("token_position", "")
            found[position] = found.get(position, 0.0) + value
    width = len(found)
    for first in (0, 1):  # positions are counted from either
        order = [str(first + k) for k in range(width)]
        if set(order) == set(found):
            break
    else:
        raise EngineFileError(
            f"{names}: {name} at positions {sorted(found)[:9]}; expected them without gaps"
        )
    counts = [whole(f"{names}: {name}", found[position]) for position in order]
    totals = [value for (series, _), value in grown.items() if series == TOTALS[name]]
    if totals and sum(totals) != sum(counts):
        raise EngineFileError(
            f"{names}: {name} sums to {sum(counts)} over positions, {TOTALS[name]} says "
            f"{sum(totals):g}; expected the same"
        )
    return counts


IMPORTER = Importer(
    written_for="TensorRT-LLM 1.3",
    gives="position counters, drafted ones too, so draft lengths may vary",
    recognises=recognises,
    read=read,
)
