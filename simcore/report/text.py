"""Plans, summaries and profiles as plain text for a terminal."""

from typing import Any

from simcore.metrics.consumption import Consumption
from simcore.metrics.summary import Distribution, KVAccount, Summary
from simcore.planner.document import Candidate, Plan
from simcore.profile.store import StoredProfile
from simcore.report.recommendation_view import recommendation_sentences, standing
from simcore.report.units import digits, dollars, giga, joules, seconds, watts
from simcore.report.view import missed_slo, served_name

LATENCY_HEADER = ("", "mean", "p50", "p90", "p95", "p99")


def plan_text(plan: Plan) -> str:
    """The decision, the candidates, the break-even and the caveats."""
    lines = [
        f"Decision: {served_name(plan)}",
        plan.decision.reason,
        *missed_slo(plan),
        f"Break-even: {plan.break_even.reason}.",
        *recommendation_sentences(plan)[1:],
        "",
        f"Profile {plan.profile.name} ({plan.profile.source}); contract "
        f"{plan.scenario.contract.value}, temperature {plan.scenario.sampling.temperature:g}; "
        f"seed {plan.scenario.seed}, specplan {plan.origin['specplan_version']}",
        "",
        f"{'candidate':24} {'speed-up (95 %)':24} {'E2E mean':>10} {'TTFT p95':>10} "
        f"{'TPOT p50':>10} {'tokens/cycle':>12}",
        *(_candidate_line(each) for each in plan.candidates),
        *_way_lines(plan),
    ]
    if plan.capacity is not None:
        sentence = plan.capacity.gain.sentence
        lines += ["", f"Capacity within the SLO: {sentence}; see specplan capacity."]
    if plan.not_measured:
        missing: dict[str, list[str]] = {}
        for each in plan.not_measured:
            missing.setdefault(each.proposer, []).append(str(each.num_speculative_tokens))
        for proposer, gammas in missing.items():
            lines.append(f"not measured: {proposer} at γ = {', '.join(gammas)}")
    lines += ["", *(f"Note: {caveat}" for caveat in plan.caveats)]
    return "\n".join(lines).rstrip()


def _way_lines(plan: Plan) -> list[str]:
    """What was run at three loads, and what was not run; nothing of a plan of draft lengths."""
    found = plan.recommendation
    if found is None:
        return []
    latency = next(each.label for each in found.objectives if each.name == "latency")
    contenders = [way for way in found.ways if way.loads]
    width = max(24, *(len(way.label) for way in contenders))
    lines = [
        "",
        f"{'way to serve':{width}} {latency:>10} {'device-s/M':>10}  regret when light, planned, "
        "heavy",
    ]
    for way in contenders:
        regrets = " ".join(f"{100 * each.regret:>8.1f} %" for each in way.loads)
        device, seen = way.objectives["device_time"].mean, way.objectives["latency"].mean
        lines.append(
            f"{way.label:{width}} {seconds(seen):>10} {digits(device):>10}  {regrets}  "
            f"{standing(way, found)}"
        )
    best = "; ".join(f"{each.load}: {each.label}" for each in found.references)
    lines.append(f"regret: mean E2E above the fastest of all ({best})")
    lines += [f"not simulated: {each.label}: {each.reason}" for each in found.pruned]
    return lines


def _candidate_line(each: Candidate) -> str:
    name = "off" if each.proposer is None else f"{each.proposer} γ={each.num_speculative_tokens}"
    low, high = each.speedup.interval
    spread = f"{each.speedup.value:.3f} ({low:.3f} to {high:.3f})"
    summary = each.summary
    length = summary.tokens.mean_acceptance_length
    times = (summary.e2e.mean_s, summary.ttft.p95_s, summary.tpot.p50_s)
    columns = " ".join(f"{seconds(value):>10}" for value in times)
    return f"{name:24} {spread:24} {columns} {'–' if length is None else f'{length:.2f}':>12}"


def summary_text(summary: Summary) -> str:
    """One run: what came, what users felt, where tokens and time went."""
    lines = [
        *summary_basis(summary),
        *(
            f"{name:14} " + " ".join(f"{value:>10}" for value in values)
            for name, *values in (LATENCY_HEADER, *latency_rows(summary))
        ),
        *account_lines(summary),
    ]
    return "\n".join(lines)


def summary_basis(summary: Summary) -> list[str]:
    """Where the numbers come from, and how many requests they count."""
    origin = summary.origin
    states = ", ".join(f"{count} {name}" for name, count in summary.num_requests.items() if count)
    return [
        f"Scenario {origin['scenario']}, profile {origin['profile']} ({origin['profile_source']}), "
        f"contract {origin['contract']}, acceptance {origin['acceptance_model']}, seed "
        f"{origin['seed']}, specplan {origin['specplan_version']}",
        *_domain_lines(origin["sampling_of_domains"]),
        f"Requests: {states}; {summary.num_counted} counted after the warm-up",
    ]


def latency_rows(summary: Summary) -> list[tuple[str, ...]]:
    """What users feel; columns of LATENCY_HEADER."""
    rows: list[tuple[str, Distribution]] = [
        ("TTFT", summary.ttft),
        ("TPOT", summary.tpot),
        ("ITL per burst", summary.itl_burst),
        ("ITL per token", summary.itl_token),
        ("E2E", summary.e2e),
        ("queue", summary.queue),
    ]
    return [(name, *_percentiles(each)) for name, each in rows]


def account_lines(summary: Summary) -> list[str]:
    """Throughput, then where tokens, time and memory went; what was refused or went wrong."""
    tokens, time, kv = summary.tokens, summary.time, summary.kv
    lines = [
        f"Throughput: {summary.request_rate_per_s:.3g} requests/s, "
        f"{summary.output_rate_tokens_per_s:.4g} output tokens/s; goodput: {_goodput(summary)}",
        f"Tokens: {tokens.emitted_tokens} emitted = {tokens.first_tokens} first + "
        f"{tokens.accepted_tokens} accepted + {tokens.corrected_tokens} corrected + "
        f"{tokens.bonus_tokens} bonus; {tokens.proposed_tokens} proposed, {tokens.cut_tokens} cut, "
        f"{tokens.stitched_tokens} stitched",
        f"Mean acceptance length: {_number(tokens.mean_acceptance_length)} tokens/cycle; target "
        f"cycles per output token: {_number(tokens.target_cycles_per_output_token)}",
        f"Accepted drafts a cycle: {_shares(tokens.accepted_length_counts)}",
        f"Time: propose {time.propose:.1%}, target {time.target:.1%}, reconcile "
        f"{time.reconcile:.1%}, overhead {time.overhead:.1%}, idle {time.idle:.1%}; mean batch "
        f"{summary.mean_batch_size:.2f} requests",
        f"KV: at most {kv.peak_used_tokens} of {kv.total_tokens} tokens ("
        f"{kv.peak_used_fraction:.1%}); {summary.num_preemptions} preemptions",
        *_memory_lines(kv),
        *_reason_lines(summary),
        *_failure_lines(summary),
        *_consumption_lines(summary.consumption),
    ]
    if summary.is_saturated:
        lines.append(
            "Saturated: more came than could be served; the queue was full or kept growing."
        )
    if summary.extrapolated_step_fraction:
        lines.append(
            f"Extrapolated: {summary.extrapolated_step_fraction:.1%} of the steps lie outside the "
            "measured cost domain."
        )
    return lines


def _domain_lines(sampling: dict[str, dict[str, float]]) -> list[str]:
    """Domains whose sampling is not the scenario's."""
    if not sampling:
        return []
    each = (f"{name} at temperature {own['temperature']:g}" for name, own in sampling.items())
    return [f"Sampling of their own: {', '.join(each)}"]


def _memory_lines(kv: KVAccount) -> list[str]:
    """What speculation took of the memory, a draft pool, the prefix cache; each where it is."""
    lines = []
    if kv.lost_tokens > 0:
        # Where the KV room is stated, all weights have been taken off before.
        weights = f"draft weights {giga(kv.draft_weight_bytes)}, " if kv.draft_weight_bytes else ""
        lines.append(
            f"Memory: speculation took the room of {kv.lost_tokens} KV tokens ({weights}draft "
            f"KV {kv.draft_kv_bytes_per_token} bytes a token, workspace {giga(kv.workspace_bytes)})"
        )
    if kv.draft_pool_tokens > 0:
        lines.append(
            f"Draft pool: at most {kv.draft_pool_peak_tokens} of {kv.draft_pool_tokens} tokens"
        )
    if kv.prefix_hit_fraction is not None:
        lines.append(
            f"Prefix cache: {kv.cached_tokens} prefill tokens found, {kv.prefix_hit_fraction:.1%} "
            "of the prompts"
        )
    return lines


def _reason_lines(summary: Summary) -> list[str]:
    found = [f"{count} ({reason})" for reason, count in summary.num_reasons.items() if count]
    return [f"Not served: {', '.join(found)}"] if found else []


def _failure_lines(summary: Summary) -> list[str]:
    if summary.time.down == 0.0:
        return []
    return [
        f"Failures: replicas down {summary.time.down:.1%} of the time, "
        f"{summary.num_aborted_steps} steps aborted, {summary.num_restarts} requests sent again"
    ]


def _consumption_lines(found: Consumption) -> list[str]:
    """Energy and cost, each only where the profile states power or price."""
    lines = []
    if found.energy_j is not None:
        lines.append(
            f"Energy: {joules(found.energy_j)}, {joules(found.energy_j_per_output_token)} an "
            f"output token, {watts(found.average_power_w)} on average"
        )
    if found.cost_usd is not None:
        million = dollars(found.cost_usd_per_million_output_tokens)
        lines.append(f"Cost: {dollars(found.cost_usd)}, {million} a million output tokens")
    return lines


def _percentiles(values: Distribution) -> tuple[str, ...]:
    points = (values.mean_s, values.p50_s, values.p90_s, values.p95_s, values.p99_s)
    return tuple(seconds(point) for point in points)


def _shares(counts: tuple[int, ...]) -> str:
    total = max(sum(counts), 1)
    return ", ".join(f"{length}: {count / total:.1%}" for length, count in enumerate(counts))


def _goodput(summary: Summary) -> str:
    if summary.goodput_per_s is None or summary.goodput_fraction is None:
        return "no SLO given"
    return f"{summary.goodput_per_s:.3g} requests/s ({summary.goodput_fraction:.1%} meet the SLO)"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def profile_overview(stored: StoredProfile) -> dict[str, Any]:
    """A profile in one JSON object: identity, proposers, and what was measured."""
    profile = stored.profile
    return {
        "name": profile.name,
        "title": profile.title,
        "source": profile.source.value,
        "identity": profile.identity.model_dump(mode="json"),
        "acceptance": [
            {
                "proposer": record.proposer,
                "domain": record.domain,
                "contract": record.contract.value,
                "temperature": record.sampling.temperature,
                "gammas": list(record.gammas()),
                "num_requests": record.num_requests,
            }
            for record in profile.acceptance
        ],
    }


def profile_lines(stored: StoredProfile) -> list[str]:
    """A profile in a few lines."""
    profile = stored.profile
    lines = [f"{profile.name} ({profile.source.value}): {profile.title}"]
    for record in profile.acceptance:
        lines.append(
            f"  {record.proposer}, {record.domain}: {record.contract.value} at temperature "
            f"{record.sampling.temperature:g}, γ = {', '.join(map(str, record.gammas()))}, "
            f"{record.num_requests or 'number not stated of'} requests"
        )
    return lines
