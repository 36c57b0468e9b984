"""The decision: which candidate, by how sure a margin, and what a reader must know first."""

from typing import Literal

from simcore.matching import mismatches
from simcore.planner.break_even import BreakEven
from simcore.planner.document import Candidate, Decision
from simcore.profile.store import StoredProfile
from simcore.scenario import Scenario


def best_candidate(candidates: tuple[Candidate, ...]) -> Candidate:
    """The fastest candidate, among those that meet the SLO as often as off where any does."""
    off, *speculating = candidates
    floor = off.goodput_fraction
    meeting = [
        each
        for each in speculating
        if floor is None or each.goodput_fraction is None or each.goodput_fraction >= floor
    ]
    return max(meeting or speculating, key=lambda each: each.speedup.value)


def decide(best: Candidate, edge: BreakEven) -> Decision:
    low, high = best.speedup.interval
    name = f"{best.proposer} with γ = {best.num_speculative_tokens}"
    found = (
        f"the best candidate, {name}, makes the mean request {best.speedup.value:.3f} times as "
        f"fast as without speculation ({low:.3f} to {high:.3f}, 95 % interval)"
    )
    if low > 1.0:
        return Decision(
            choice="speculate",
            proposer=best.proposer,
            num_speculative_tokens=best.num_speculative_tokens,
            verdict="pays",
            reason=f"At this load {found}.",
        )
    verdict: Literal["never_pays", "indistinguishable", "slower"] = "indistinguishable"
    reason = f"At this load {found}: the interval holds 1, so the simpler service wins."
    if high < 1.0:
        verdict, reason = "slower", f"At this load {found}."
        if edge.kind == "never_pays":
            verdict, reason = "never_pays", f"At this load {found}; and {edge.reason}."
    return Decision(
        choice="off", proposer=None, num_speculative_tokens=0, verdict=verdict, reason=reason
    )


def caveats(
    stored: StoredProfile, scenario: Scenario, candidates: tuple[Candidate, ...], best: Candidate
) -> tuple[str, ...]:
    """What a reader must know before signing; each only where it applies."""
    found = [
        f"The profile does not fit the scenario: {text}."
        for text in _all_mismatches(stored, scenario, candidates)
    ]
    if stored.profile.source.value != "measured":
        found.append(
            f"The profile's numbers are {stored.profile.source.value}, not measured on your "
            "machine; measure before you buy."
        )
    if any(record.kind == "survival" for record in stored.profile.acceptance):
        found.append(
            "Acceptance is drawn by position without correlation between or within requests: "
            "means hold, tails are too optimistic."
        )
    off = candidates[0].summary
    for label, summary in (("off", off), ("the best candidate", best.summary)):
        if summary.is_saturated:
            found.append(
                f"At this load the service is saturated with {label}: its latency grows with the "
                "length of the run, and the speed-up with it."
            )
    share = best.summary.extrapolated_step_fraction
    if share > 0:
        found.append(
            f"{share:.1%} of the best candidate's steps lie outside the measured cost domain; "
            "their time is extrapolated."
        )
    tokens = best.summary.tokens
    if tokens.stitched_tokens:
        found.append(
            f"{tokens.stitched_tokens / tokens.emitted_tokens:.1%} of output tokens replay a "
            "second recorded request of similar acceptance, because outputs are longer than the "
            "recordings."
        )
    if "target" not in stored.profile.cost.held_out_error:
        found.append("The source states no error of its cost fit; the intervals leave it out.")
    return tuple(found)


def _all_mismatches(
    stored: StoredProfile, scenario: Scenario, candidates: tuple[Candidate, ...]
) -> tuple[str, ...]:
    names = {each.proposer for each in candidates if each.proposer is not None}
    texts: dict[str, None] = {}
    for name in sorted(names):
        asked = scenario.with_(**{"speculation.proposer": name})
        texts.update(dict.fromkeys(mismatches(stored, asked)))
    return tuple(texts)
