"""vLLM's acceptance record of one request, as vLLM answers it and as AIPerf passes it on."""

from typing import Any

from simcore.errors import EngineFileError
from simcore.profile.importers.json_fields import Fields
from simcore.profile.importers.options import ImportOptions
from simcore.profile.importers.request_counts import RequestCounts, histogram

TOLERANCE = 1e-3  # of the means that the record states beside its counts


def read_spec_record(
    found: Fields, options: ImportOptions, output_tokens: int | None
) -> tuple[int, RequestCounts]:
    """(γ, counts) of one request. Raises EngineFileError where the record contradicts itself."""
    drafts = found.count("num_spec_steps")
    gamma = _gamma(found, options)
    lengths = _lengths(found, gamma)
    accepted = found.count("num_accepted_draft_tokens")
    cycles = _cycles(found, lengths, gamma)
    drafted = found.maybe_count("num_draft_tokens")
    _check_means(found, accepted, drafts, drafted)
    return gamma, RequestCounts(
        where=found.where,
        num_accepted_tokens=accepted,
        num_drafts=drafts,
        num_draft_tokens=drafted,
        num_cycles=_num_cycles(drafts, accepted, output_tokens, options),
        output_tokens=output_tokens,
        accepted_lengths=lengths,
        cycle_accepted=cycles[0],
        cycle_drafted=cycles[1],
    )


def _gamma(found: Fields, options: ImportOptions) -> int:
    stated = found.maybe_count("num_spec_tokens")
    gamma = stated or options.gamma
    if gamma is None or (stated and options.gamma and stated != options.gamma):
        raise EngineFileError(
            f"{found.where}: num_spec_tokens is {stated}, --gamma {options.gamma}; expected one "
            "draft length: state --gamma, or as the file has it"
        )
    return gamma


def _lengths(found: Fields, gamma: int) -> tuple[int, ...]:
    """[γ + 1] from vLLM's dense list or AIPerf's sparse map."""
    if isinstance(found.values.get("acceptance_histogram"), dict):
        sparse = found.section("acceptance_histogram")
        lengths = [0] * (gamma + 1)
        for key in sparse.values:
            if not (key.isascii() and key.isdecimal() and len(key) < 4 and int(key) <= gamma):  # noqa: PLR2004 - int() of a long key is slow
                raise found.wrong("acceptance_histogram", f"of {key[:20]!r}", f"0 to {gamma}")
            lengths[int(key)] = sparse.count(key)
        return tuple(lengths)
    dense = found.counts("acceptance_histogram")
    if len(dense) != gamma + 1:
        raise found.wrong(
            "acceptance_histogram", f"{len(dense)} long", f"{gamma + 1}, for 0 to {gamma} drafts"
        )
    return dense


def _cycles(
    found: Fields, lengths: tuple[int, ...], gamma: int
) -> tuple[tuple[int, ...] | None, tuple[int, ...] | None]:
    """Accepted and drafted of each cycle, where the record was kept in detail."""
    if not found.has("per_step_accepted"):
        return None, None
    accepted = found.counts("per_step_accepted")
    if max(accepted, default=0) > gamma or histogram(accepted, gamma) != lengths:
        raise found.wrong(
            "per_step_accepted", "not what acceptance_histogram counts", "the same cycles"
        )
    if not found.has("per_step_drafted"):
        return accepted, None
    drafted = found.counts("per_step_drafted")
    fits = len(drafted) == len(accepted) and all(
        a <= d <= gamma for a, d in zip(accepted, drafted, strict=True)
    )
    if not fits or sum(drafted) != found.maybe_count("num_draft_tokens"):
        raise found.wrong("per_step_drafted", "at odds with the other counts", "the same cycles")
    return accepted, drafted


def _check_means(found: Fields, accepted: int, drafts: int, drafted: int | None) -> None:
    """The bonus is in the length and not in the rate, which is a fraction."""
    expected: dict[str, Any] = {
        "mean_acceptance_length": 1.0 + accepted / drafts if drafts else None,
        "draft_acceptance_rate": accepted / drafted if drafted else None,
    }
    for key, value in expected.items():
        stated = found.maybe_number(key)
        if stated is not None and value is not None and abs(stated - value) > TOLERANCE:
            raise found.wrong(key, f"{stated:g}", f"{value:.4g} by its own counts")


def _num_cycles(
    drafts: int, accepted: int, output_tokens: int | None, options: ImportOptions
) -> int | None:
    """Decode cycles: each emits one token that is no draft; the first token is the prefill's."""
    if options.always_drafts:
        return drafts
    if output_tokens is None:
        return None
    return max(output_tokens - 1 - accepted, drafts)
