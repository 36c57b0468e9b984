"""The decision: which candidate, by how sure a margin, and what a reader must know first."""

from typing import Literal

from simcore.cost.price import decode_step, law_tables
from simcore.matching import FITTED, mismatches
from simcore.planner.break_even import BreakEven
from simcore.planner.document import Candidate, Decision
from simcore.planner.recommendation import Recommendation
from simcore.profile.store import StoredProfile
from simcore.scenario import Scenario
from simcore.workload.load import mean_rate_per_s

Verdict = Literal["pays", "never_pays", "indistinguishable", "slower", "misses_slo"]
LEAST_SERVED_DIFFERENCE = 0.005
MOSTLY_GOOD = 0.95
FEW_REQUESTS = 50


def decide(best: Candidate, edge: BreakEven) -> Decision:
    """Ship the best candidate only where it is surely faster and keeps the SLO as off does."""
    low, high = best.speedup.interval
    name = f"{best.proposer} with γ = {best.num_speculative_tokens}"
    found = (
        f"the best candidate, {name}, makes the mean request {best.speedup.value:.3f} times as "
        f"fast as without speculation ({low:.3f} to {high:.3f}, 95 % interval)"
    )
    if low > 1.0 and best.meets_slo_as_off:
        return Decision(
            choice="speculate",
            proposer=best.proposer,
            num_speculative_tokens=best.num_speculative_tokens,
            verdict="pays",
            reason=f"At this load {found}.",
        )
    verdict: Verdict = "indistinguishable"
    reason = f"At this load {found}: the interval holds 1, so the simpler service wins."
    if not best.meets_slo_as_off:
        verdict = "misses_slo"
        reason = f"At this load {found}, but every candidate meets the SLO less often than off."
    elif high < 1.0:
        verdict, reason = "slower", f"At this load {found}."
        if edge.kind == "never_pays":
            verdict, reason = "never_pays", f"At this load {found}; and {edge.reason}."
    return Decision(
        choice="off", proposer=None, num_speculative_tokens=0, verdict=verdict, reason=reason
    )


def decide_as_recommended(decision: Decision, found: Recommendation) -> Decision:
    """The decision for the way that the recommendation ships."""
    shipped = found.shipped
    if shipped.kind == "off":
        if decision.choice == "off":
            return decision
        return Decision(
            choice="off",
            proposer=None,
            num_speculative_tokens=0,
            verdict="indistinguishable",
            reason=f"{decision.reason} Yet off is shipped: {found.reason}.",
        )
    proposer = shipped.speculation.proposer
    length = shipped.speculation.num_speculative_tokens
    if shipped.kind == "fixed" and (proposer, length) == (
        decision.proposer,
        decision.num_speculative_tokens,
    ):
        return decision
    return Decision(
        choice="speculate",
        proposer=proposer,
        num_speculative_tokens=length,
        verdict="pays",
        reason=f"{found.reason}.",
    )


def caveats(
    stored: StoredProfile,
    scenario: Scenario,
    candidates: tuple[Candidate, ...],
    best: Candidate,
    edge: BreakEven,
    *,
    is_recommended: bool = False,
) -> tuple[str, ...]:
    """What a reader must know before signing; each only where it applies."""
    found = [
        f"The profile does not fit the scenario: {text}."
        for text in _all_mismatches(stored, scenario, candidates)
    ]
    found += _load_caveats(scenario, edge)
    if stored.profile.source.value != "measured":
        found.append(
            f"The profile's numbers are {stored.profile.source.value}, not measured on your "
            "machine; measure before you buy."
        )
    if best.summary.origin["acceptance_model"] == "positional":
        found.append(
            "Acceptance is drawn by position without correlation between or within requests: "
            "means hold, tails are too optimistic."
        )
    if scenario.workload.lengths.kind != "recorded":
        found.append(
            "Lengths are drawn apart from acceptance, though the two go together in recorded "
            "requests."
        )
    speculation = scenario.speculation
    if speculation.acceptance in FITTED:
        found.append(
            f"Acceptance is the fitted model {speculation.acceptance!r}, also at draft lengths "
            "that nobody measured; replay recorded requests where there are any."
        )
    has_own_way = speculation.policy.kind != "fixed" or speculation.schemes()[0].is_tree
    if has_own_way and not is_recommended:
        found.append(
            "The scenario's own policy or tree is left out: a plan compares fixed draft lengths; "
            "simulate the scenario to see it."
        )
    for label, each in (("off", candidates[0]), ("the best candidate", best)):
        found += _service_caveats(label, each)
    found += _unpriced_prefill(stored, best)
    found += _cheap_verification(stored, best)
    tokens = best.summary.tokens
    if tokens.stitched_tokens:
        found.append(
            f"{tokens.stitched_tokens / tokens.emitted_tokens:.1%} of output tokens replay a "
            "second recorded request of similar acceptance, because outputs are longer than the "
            "recordings."
        )
    if "target" not in stored.profile.cost.held_out_error:
        found.append(
            "The source states no error of its cost fit and none of its acceptance: the intervals "
            "hold the simulation's own noise only."
        )
    return tuple(found)


def _load_caveats(scenario: Scenario, edge: BreakEven) -> list[str]:
    rate = mean_rate_per_s(scenario.workload)
    found = []
    if rate is not None and rate > edge.saturation_rate_per_s:
        found.append(
            f"The offered load, {rate:.3g} requests a second, lies beyond the "
            f"{edge.saturation_rate_per_s:.3g} that the service sustains without speculation: "
            "latencies, and with them the speed-up, grow with the length of the run."
        )
    count = scenario.workload.num_requests
    if count is not None and count < FEW_REQUESTS:
        found.append(f"Only {count} requests a simulation: too few to see a service under load.")
    return found


def _cheap_verification(stored: StoredProfile, best: Candidate) -> list[str]:
    """A cycle that costs less than a plain step is a property of the measured engine."""
    summary, law = best.summary, stored.profile.cost
    batch = max(1, round(summary.mean_batch_size))
    context = summary.mean_context_tokens
    plain_s = decode_step(law_tables(law, None), batch, context, 0).total_s
    gamma = best.num_speculative_tokens
    cycle_s = decode_step(law_tables(law, best.proposer), batch, context, gamma).total_s
    if cycle_s >= plain_s:
        return []
    return [
        f"A cycle with {gamma} drafts takes {cycle_s * 1e3:.3g} ms and a plain step "
        f"{plain_s * 1e3:.3g} ms (batch {batch}, {context:.0f} tokens of context): the measured "
        "engine decodes single tokens with a slower attention kernel, and part of the gain is that."
    ]


def _service_caveats(label: str, each: Candidate) -> list[str]:
    found = []
    if each.summary.is_saturated:
        found.append(
            f"At this load the service is saturated with {label}: its latency grows with the "
            "length of the run, and the speed-up with it."
        )
    if each.served_fraction < 1.0 - LEAST_SERVED_DIFFERENCE:
        found.append(
            f"With {label} only {each.served_fraction:.1%} of the requests were served to the end; "
            "latencies are those of the served ones."
        )
    good = each.goodput_fraction
    if good is not None and good < MOSTLY_GOOD:
        found.append(f"With {label} only {good:.1%} of the requests meet the SLO.")
    share = each.summary.extrapolated_step_fraction
    if share > 0:
        found.append(
            f"{share:.1%} of the steps with {label} lie outside the measured cost domain; their "
            "time is extrapolated."
        )
    return found


def _unpriced_prefill(stored: StoredProfile, best: Candidate) -> list[str]:
    name = best.proposer or ""
    run = stored.profile.cost.proposer_runs.get(name)
    has_kv = stored.profile.proposers[name].kv_bytes_per_token > 0
    if not has_kv or (run is not None and run.per_prefill_token_s > 0.0):
        return []
    return [
        f"The profile holds no time for {name}'s own prefill: TTFT and the speed-up are a little "
        "too good."
    ]


def _all_mismatches(
    stored: StoredProfile, scenario: Scenario, candidates: tuple[Candidate, ...]
) -> tuple[str, ...]:
    names = {each.proposer for each in candidates if each.proposer is not None}
    texts: dict[str, None] = {}
    for name in sorted(names):
        asked = scenario.with_(**{"speculation.proposer": name})
        texts.update(dict.fromkeys(mismatches(stored, asked)))
    return tuple(texts)
