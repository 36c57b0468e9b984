"""One run in numbers: latencies, throughput, goodput, tokens, KV and time.

Latencies and goodput count the requests after the warm-up (`warmup_fraction` of the arrivals);
token, KV and time accounts cover the whole run, so that they balance.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from simcore.metrics.consumption import Consumption, consumption, devices_of_a_replica
from simcore.profile.schema import Frozen
from simcore.records import Records
from simcore.scenario import SLO
from simcore.serving.simulation import SimulationResult
from simcore.serving.state import (
    CANCELLED,
    FINISHED,
    QUEUE_FULL,
    REASON_NAMES,
    REJECTED,
    STATE_NAMES,
    gap_bin_edges_s,
)
from simcore.serving.step_totals import StepTotals
from simcore.workload.load import mean_rate_per_s

PERCENTILES = (50, 90, 95, 99)
FULL_QUEUE_SHARE = 0.05  # rejected for a full queue


class Distribution(Frozen):
    """Mean and percentiles of one latency, seconds; null where nothing was observed."""

    mean_s: float | None
    p50_s: float | None
    p90_s: float | None
    p95_s: float | None
    p99_s: float | None


class TokenAccount(Frozen):
    """Where every token of the run went (laws 7 and 8)."""

    planned_tokens: int
    proposed_tokens: int
    verified_tokens: int
    accepted_tokens: int
    corrected_tokens: int
    bonus_tokens: int
    first_tokens: int = Field(description="emitted by prefill")
    emitted_tokens: int = Field(description="output of all requests, prefill's token included")
    cut_tokens: int = Field(description="accepted or bonus tokens past the end of an output")
    stitched_tokens: int = Field(description="output replayed from a second recorded request")
    padded_tokens: int = Field(description="computed to fill captured sizes, for no request")
    num_cycles: int
    accepted_length_counts: tuple[int, ...] = Field(
        description="cycles by accepted drafts 0 .. γ, before the cut"
    )
    mean_acceptance_length: float | None = Field(
        description="emitted tokens a cycle, bonus included, after the cut"
    )
    target_cycles_per_output_token: float | None


class TimeAccount(Frozen):
    """Shares of replica time, summing to 1."""

    propose: float = Field(description="share of replica time, as the next")
    target: float = Field(description="share; prefills included")
    reconcile: float = Field(description="share")
    overhead: float = Field(description="share")
    down: float = Field(description="from a failure until the replica served again")
    idle: float = Field(description="share")


class KVAccount(Frozen):
    """KV blocks of the fullest replica, and what speculation took."""

    total_tokens: int
    peak_used_tokens: int
    peak_used_fraction: float
    draft_weight_bytes: int
    draft_kv_bytes_per_token: int
    lost_tokens: int = Field(description="KV tokens that speculation's memory took")
    draft_pool_tokens: int = Field(description="of a draft pool of its own; 0: none")
    draft_pool_peak_tokens: int
    workspace_bytes: int = Field(description="logits of the most tokens that a step may score")
    peak_workspace_bytes: int = Field(description="logits of the most that one did score")
    cached_tokens: int = Field(description="prefill tokens found in the prefix cache")
    prefix_hit_fraction: float | None = Field(
        description="cached tokens, of all that prefills asked for"
    )


class Summary(Frozen):
    """One run in numbers."""

    origin: dict[str, Any]
    num_requests: dict[str, int] = Field(description="by final state")
    num_reasons: dict[str, int] = Field(description="by why they were not served")
    num_counted: int = Field(description="finished requests after the warm-up")
    served_fraction: float = Field(description="of all that came after the warm-up")
    rejected_fraction: float = Field(description="of the same")
    cancelled_fraction: float = Field(description="of the same: their clients gave up")
    duration_s: float
    offered_rate_per_s: float | None = Field(description="null for an offline batch")
    request_rate_per_s: float = Field(description="requests finished a second")
    output_rate_tokens_per_s: float
    goodput_per_s: float | None = Field(description="null without an SLO")
    goodput_fraction: float | None
    ttft: Distribution
    tpot: Distribution
    itl_burst: Distribution = Field(description="gap between emissions of a request")
    itl_token: Distribution = Field(description="gap between tokens: 0 within a burst")
    e2e: Distribution
    queue: Distribution
    tokens: TokenAccount
    time: TimeAccount
    kv: KVAccount
    consumption: Consumption
    num_steps: int
    mean_batch_size: float = Field(description="decoding requests a step, weighted by its time")
    mean_context_tokens: float = Field(description="of a decoding request, over its steps")
    num_preemptions: int
    num_restarts: int = Field(description="requests sent again after their replica failed")
    num_aborted_steps: int = Field(description="cut short by a failure")
    extrapolated_step_fraction: float = Field(description="outside the profile's measured box")
    is_saturated: bool = Field(description="the queue kept growing until arrivals ended")


def summarise(result: SimulationResult, *, origin: dict[str, Any] | None = None) -> Summary:
    """The summary of one run.

    `origin` in place of the result's own, which takes a tenth of a short run's time to write out,
    is for callers that keep scenario and profile beside the numbers themselves.
    """
    requests, steps = result.request_records, result.step_totals
    num_finished = int(np.sum(requests["state"] == FINISHED))
    came = counted_requests(result)
    counted = came[came["state"] == FINISHED]
    latency = request_latencies_s(counted)
    duration_s = _duration_s(requests)
    tokens = _token_account(result)
    good = _meets_slo(latency, result.scenario.slo)
    num_good = None if good is None or not len(came) else int(good.sum())
    down_s = _down_s(result.replica_records, float(requests["finish_s"].max()))
    time = _time_account(steps, down_s, duration_s * len(result.replica_records))
    return Summary(
        origin=result.origin if origin is None else origin,
        num_requests={
            name: int(np.sum(requests["state"] == code)) for code, name in enumerate(STATE_NAMES)
        },
        num_reasons={
            name: int(np.sum(requests["reason"] == code))
            for code, name in enumerate(REASON_NAMES)
            if name
        },
        num_counted=len(counted),
        served_fraction=_ended_fraction(came, FINISHED),
        rejected_fraction=_ended_fraction(came, REJECTED),
        cancelled_fraction=_ended_fraction(came, CANCELLED),
        duration_s=duration_s,
        offered_rate_per_s=mean_rate_per_s(result.scenario.workload),
        request_rate_per_s=num_finished / duration_s,
        output_rate_tokens_per_s=tokens.emitted_tokens / duration_s,
        # Over the time of everyone who came after the warm-up, and of everyone: a rejected request
        # did not meet its SLO.
        goodput_per_s=None if num_good is None else num_good / _duration_s(came),
        goodput_fraction=None if num_good is None else num_good / len(came),
        ttft=_distribution(latency["ttft_s"]),
        tpot=_distribution(latency["tpot_s"]),
        itl_burst=_from_counts(result.gap_counts, same_moment=0),
        itl_token=_from_counts(
            result.gap_counts,
            same_moment=_tokens_within_bursts(came),
        ),
        e2e=_distribution(latency["e2e_s"]),
        queue=_distribution(latency["queue_s"]),
        tokens=tokens,
        time=time,
        kv=_kv_account(result),
        consumption=_consumption(result, duration_s, time, tokens),
        num_steps=steps.num_steps,
        mean_batch_size=steps.decoding_s / steps.busy_s if steps.busy_s > 0.0 else 0.0,
        mean_context_tokens=steps.context_tokens / max(steps.num_decoding, 1),
        num_preemptions=int(requests["num_preemptions"].sum()),
        num_restarts=int(requests["num_restarts"].sum()),
        num_aborted_steps=steps.num_aborted,
        extrapolated_step_fraction=steps.num_extrapolated / max(steps.num_steps, 1),
        is_saturated=_is_saturated(requests),
    )


def request_latencies_s(finished: Records) -> dict[str, NDArray[np.float64]]:
    """TTFT, TPOT, longest gap, E2E and queue time of finished requests.

    TPOT and the gap between emissions only of two tokens or more.
    """
    ttft_s = finished["first_token_s"] - finished["arrival_s"]
    e2e_s = finished["finish_s"] - finished["arrival_s"]
    gaps = finished["output_tokens"] - 1
    tpot_s = np.full(len(finished), np.nan)
    np.divide(e2e_s - ttft_s, gaps, out=tpot_s, where=gaps > 0)
    return {
        "ttft_s": ttft_s,
        "tpot_s": tpot_s,
        "itl_s": np.where(gaps > 0, finished["max_gap_s"], np.nan),
        "e2e_s": e2e_s,
        "queue_s": finished["scheduled_s"] - finished["arrival_s"],
    }


def mean_e2e_s(result: SimulationResult) -> float:
    """Mean time from arrival to last token of the counted requests; NaN without any."""
    came = counted_requests(result)
    counted = came[came["state"] == FINISHED]
    return float(np.mean(counted["finish_s"] - counted["arrival_s"])) if len(counted) else np.nan


def counted_requests(result: SimulationResult) -> Records:
    """The requests that arrived after the warm-up."""
    return result.request_records[result.request_records["is_counted"] == 1]


def _ended_fraction(came: Records, state: int) -> float:
    """Requests that ended in this state, of all that came after the warm-up."""
    return float(np.sum(came["state"] == state) / max(len(came), 1))


def _duration_s(requests: Records) -> float:
    ends = requests["finish_s"]
    return max(float(ends.max() - requests["arrival_s"].min()), 1e-12)


def limits_met(latency: dict[str, NDArray[np.float64]], slo: SLO) -> dict[str, NDArray[np.bool_]]:
    """Limit -> whether each request meets it; `latency` as from `request_latencies_s`."""
    # A request of one token has neither TPOT nor a gap; it cannot miss their limits.
    return {name: ~(latency[name] > limit) for name, limit in slo.limits().items()}


def _meets_slo(latency: dict[str, NDArray[np.float64]], slo: SLO) -> NDArray[np.bool_] | None:
    met = limits_met(latency, slo)
    return np.logical_and.reduce(list(met.values())) if met else None


def _tokens_within_bursts(requests: Records) -> int:
    """Tokens emitted together with the one before: all but the first of each cycle."""
    first = int(np.sum(requests["emitted_tokens"] > 0))
    return int(requests["emitted_tokens"].sum() - first - requests["num_cycles"].sum())


def _distribution(values: NDArray[np.float64]) -> Distribution:
    seen = values[~np.isnan(values)]
    if not len(seen):
        return Distribution(mean_s=None, p50_s=None, p90_s=None, p95_s=None, p99_s=None)
    points = np.percentile(seen, PERCENTILES)
    names = [f"p{percentile}_s" for percentile in PERCENTILES]
    return Distribution(
        mean_s=float(seen.mean()),
        **{name: float(point) for name, point in zip(names, points, strict=True)},
    )


def _from_counts(counts: NDArray[np.int64], same_moment: int) -> Distribution:
    """Percentiles from the gap bins (1 % wide), with `same_moment` gaps of zero added."""
    total = int(counts.sum()) + same_moment
    if total == 0:
        return _distribution(np.empty(0))
    edges = gap_bin_edges_s()
    middles = np.sqrt(edges[:-1] * edges[1:])
    cumulative = np.concatenate(([0], np.cumsum(counts)))
    points = {}
    for percentile in PERCENTILES:
        # Within a bin by rank: a middle would hide, or make up, differences of up to a bin.
        rank = percentile / 100 * total - same_moment
        position = int(np.searchsorted(cumulative, rank)) - 1
        value_s = 0.0
        if position >= 0:
            share = (rank - cumulative[position]) / counts[position]
            value_s = float(edges[position] + share * (edges[position + 1] - edges[position]))
        points[f"p{percentile}_s"] = value_s
    return Distribution(mean_s=float(counts @ middles / total), **points)


def _token_account(result: SimulationResult) -> TokenAccount:
    requests = result.request_records

    def total(name: str) -> int:
        return int(requests[name].sum())

    emitted, first = total("emitted_tokens"), int(np.sum(requests["emitted_tokens"] > 0))
    cycles = total("num_cycles")
    return TokenAccount(
        planned_tokens=total("planned_tokens"),
        proposed_tokens=total("proposed_tokens"),
        verified_tokens=total("verified_tokens"),
        accepted_tokens=total("accepted_tokens"),
        corrected_tokens=total("corrected_tokens"),
        bonus_tokens=total("bonus_tokens"),
        first_tokens=first,
        emitted_tokens=emitted,
        cut_tokens=total("cut_tokens"),
        stitched_tokens=total("stitched_tokens"),
        padded_tokens=result.step_totals.padded_tokens,
        num_cycles=cycles,
        accepted_length_counts=tuple(
            result.accepted_histogram.sum(axis=0, dtype=np.int64).tolist()
        ),
        mean_acceptance_length=(emitted - first) / cycles if cycles else None,
        target_cycles_per_output_token=cycles / (emitted - first) if emitted > first else None,
    )


def _time_account(steps: StepTotals, down_s: float, replica_s: float) -> TimeAccount:
    shares = {
        name: getattr(steps, f"{name}_s") / replica_s
        for name in ("propose", "target", "reconcile", "overhead")
    }
    shares["down"] = down_s / replica_s
    return TimeAccount(**shares, idle=max(0.0, 1.0 - sum(shares.values())))


def _down_s(replicas: Records, end_s: float) -> float:
    """Time that replicas were down until the run's end, over all of them."""
    still = np.where(replicas["is_down"], np.maximum(end_s - replicas["down_since_s"], 0.0), 0.0)
    return float(replicas["down_s"].sum() + still.sum())


def _kv_account(result: SimulationResult) -> KVAccount:
    budget = result.budget
    replicas = result.replica_records
    peak = int(replicas["peak_used_blocks"].max())
    cached = int(result.request_records["cached_tokens"].sum())
    return KVAccount(
        total_tokens=budget.total_tokens,
        peak_used_tokens=peak * budget.block_size,
        peak_used_fraction=peak / budget.total_blocks,
        draft_weight_bytes=budget.draft_weight_bytes,
        draft_kv_bytes_per_token=budget.draft_kv_bytes_per_token,
        lost_tokens=budget.lost_tokens,
        draft_pool_tokens=budget.draft_blocks * budget.draft_block_size,
        draft_pool_peak_tokens=int(replicas["draft_peak_used_blocks"].max())
        * budget.draft_block_size,
        workspace_bytes=budget.workspace_bytes,
        peak_workspace_bytes=int(replicas["peak_scored_tokens"].max())
        * budget.logit_bytes_per_token,
        cached_tokens=cached,
        prefix_hit_fraction=_hit_fraction(result, cached),
    )


def _hit_fraction(result: SimulationResult, cached_tokens: int) -> float | None:
    """Of what prefills found or computed; null where no prompts share anything."""
    requests = result.request_records
    if not (requests["prefix_end"] > requests["prefix_begin"]).any():
        return None
    return cached_tokens / max(cached_tokens + result.step_totals.prefill_tokens, 1)


def _consumption(
    result: SimulationResult, duration_s: float, time: TimeAccount, tokens: TokenAccount
) -> Consumption:
    profile = result.stored.profile
    devices = devices_of_a_replica(profile, result.scenario.speculation)
    return consumption(
        profile.identity.hardware,
        num_devices=devices * result.scenario.deployment.replicas,
        busy_s=(1.0 - time.idle - time.down) * duration_s,
        duration_s=duration_s,
        output_tokens=tokens.emitted_tokens,
    )


def _is_saturated(requests: Records) -> bool:
    """Whether the service fell behind while requests arrived.

    Either its queue was full for more than a few, or waiting grew from the second to the last
    quarter of the arrivals by more than a request takes to be served.
    """
    if np.mean(requests["reason"] == QUEUE_FULL) > FULL_QUEUE_SHARE:
        return True
    order = np.argsort(requests["arrival_s"], kind="stable")
    scheduled_s = requests["scheduled_s"][order]
    waits_s = scheduled_s - requests["arrival_s"][order]
    waits_s[scheduled_s < 0.0] = np.nan  # never admitted
    quarter = len(order) // 4
    earlier_s, later_s = waits_s[quarter : 2 * quarter], waits_s[-quarter:] if quarter else waits_s
    grown_s = _mean_of_known(later_s) - _mean_of_known(earlier_s)
    served = requests["state"] == FINISHED
    if not served.any() or np.isnan(grown_s):
        return False
    service_s = np.median(requests["finish_s"][served] - requests["scheduled_s"][served])
    return bool(grown_s > service_s)


def _mean_of_known(values: NDArray[np.float64]) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else np.nan
