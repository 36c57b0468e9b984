"""From counted cycles to what can be planned with, each conversion by name, or the reason why not.

    histogram            -> survival      s_k = Σ_{j ≥ k} h_j / cycles with a draft
    position counters    -> survival      s_k = accepted_k / cycles with a draft
    ... drafted by position -> survival   s_k = accepted_k / drafted_k
    histogram            -> position counters, at one fixed γ (back: acceptance/evidence.py)
    survival             -> conditional   a_k = s_k / s_{k-1}

Survival counts every decode cycle: where a lookup finds nothing a cycle accepts nothing, so the
share of cycles that drafted multiplies it.
"""

import numpy as np

from simcore.acceptance.survival import FloatArray, conditional_from_survival
from simcore.errors import ConversionError
from simcore.profile.counts import Counts
from simcore.profile.schema import AcceptanceRecord

# Drafts are cut at a request's end (llama.cpp) or by a grammar (vLLM). Up to this share of short
# drafts counts as one fixed γ; each survival may then be low by that share of the drafts.
MAX_SHORT_SHARE = 0.02


def convertible_gammas(record: AcceptanceRecord) -> tuple[int, ...]:
    """The draft lengths of `record` that can be planned with, ascending."""
    return tuple(gamma for gamma in record.gammas() if refusal(record, gamma) is None)


def refusal(record: AcceptanceRecord, gamma: int) -> str | None:
    """Why `record` gives no conditional acceptance at γ; None where it does (or replays)."""
    if record.kind == "trace":
        return None
    try:
        conditional_acceptance(record, gamma)
    except ConversionError as error:
        return str(error)
    return None


def conditional_acceptance(record: AcceptanceRecord, gamma: int) -> FloatArray:
    """(a_1 .. a_γ) at cycle starts, every cycle counted in a_1. Raises ConversionError."""
    if record.kind == "trace":
        raise ConversionError(
            f"record {record.key} is a trace: replay it; its rates depend on the walk"
        )
    if gamma not in record.gammas():
        raise ConversionError(
            f"record {record.key} was counted at γ = {list(record.gammas())}, not at {gamma}"
        )
    if record.kind == "survival":
        return np.array(record.conditional_acceptance[gamma])
    return conditional_from_survival(survival_from_counts(record.counts[gamma], gamma))


def match_probability(record: AcceptanceRecord, gamma: int) -> float:
    """Share of cycles that drafted anything at γ."""
    return _draft_share(record.counts[gamma]) if record.counts else record.match_probability


def survival_from_counts(counts: Counts, gamma: int) -> FloatArray:
    """(s_1 .. s_γ) over all decode cycles. Raises ConversionError with the reason."""
    return _draft_share(counts) * survival_with_draft(counts, gamma)


def survival_with_draft(counts: Counts, gamma: int) -> FloatArray:
    """(s_1 .. s_γ) over the cycles that drafted. Raises ConversionError with the reason."""
    if counts.drafted_per_position:
        return _survival_from_drafted(counts)
    if counts.num_drafts is None:
        raise ConversionError(
            "the source does not count the cycles that drafted, so accepted drafts have no "
            "denominator at cycle starts; use the engine's counters by position or its histogram"
        )
    _check_fixed_length(counts, gamma)
    return _accepted_per_position(counts, gamma) / counts.num_drafts


def positions_from_histogram(accepted_lengths: tuple[int, ...]) -> tuple[int, ...]:
    """[γ] cycles that accepted position k, from [γ + 1] cycles by accepted drafts."""
    tails = np.cumsum(np.array(accepted_lengths, dtype=np.int64)[::-1])[::-1]
    return tuple(int(each) for each in tails[1:])


def _accepted_per_position(counts: Counts, gamma: int) -> FloatArray:
    if counts.accepted_lengths:
        return np.array(positions_from_histogram(counts.accepted_lengths), dtype=np.float64)
    if counts.accepted_per_position:
        return np.array(counts.accepted_per_position, dtype=np.float64)
    if gamma == 1:
        return np.array([counts.num_accepted_tokens], dtype=np.float64)
    raise ConversionError(
        f"a mean alone gives no survival at γ = {gamma}: many survival curves have it; use the "
        "engine's counters by position, its histogram or an acceptance trace"
    )


def _check_fixed_length(counts: Counts, gamma: int) -> None:
    """Refuse where drafts were shortened so often that rejected and not drafted are one."""
    assert counts.num_drafts is not None
    if counts.num_draft_tokens is None:
        return
    longest = gamma * counts.num_drafts
    short_share = (longest - counts.num_draft_tokens) / longest
    if short_share > MAX_SHORT_SHARE:
        raise ConversionError(
            f"draft lengths varied: {counts.num_draft_tokens} drafted tokens in "
            f"{counts.num_drafts} drafts is {short_share:.1%} short of γ = {gamma}, so counts by "
            "position mix rejected with not drafted and give no conditional rates; count at a "
            "fixed γ, or record an acceptance trace"
        )
    if short_share < 0.0:
        raise ConversionError(
            f"{counts.num_draft_tokens} drafted tokens in {counts.num_drafts} drafts exceed "
            f"γ = {gamma}: a tree, or another γ; survival of a chain does not follow"
        )


def _survival_from_drafted(counts: Counts) -> FloatArray:
    """Holds if an engine shortens drafts for reasons apart from acceptance (load, a schedule)."""
    drafted = np.array(counts.drafted_per_position, dtype=np.float64)
    if (drafted == 0.0).any():
        raise ConversionError(
            f"positions drafted {counts.drafted_per_position}: one was never drafted; state a "
            "shorter γ"
        )
    survival = np.array(counts.accepted_per_position, dtype=np.float64) / drafted
    if (np.diff(survival) > 0.0).any():
        raise ConversionError(
            f"accepted / drafted by position, {survival.round(4).tolist()}, increases: the engine "
            "shortened drafts where acceptance was low; count at a fixed γ"
        )
    return np.asarray(survival)


def _draft_share(counts: Counts) -> float:
    if counts.num_cycles is None:
        raise ConversionError(
            "cycles without a draft were not counted, and this proposer drafts only where its "
            "lookup matches; state them, or record an acceptance trace"
        )
    if counts.num_drafts is None or counts.num_cycles == 0:
        raise ConversionError("no cycle with a draft was counted; nothing to convert")
    return counts.num_drafts / counts.num_cycles
