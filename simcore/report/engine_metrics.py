"""Names of the Prometheus metrics that alerts read, by engine; histograms without `_bucket`.

Counters of speculation are named where importers read them, so both read the same. vLLM's
`inter_token_latency_seconds` is the gap between bursts and no TPOT: it is not here.
"""

from dataclasses import dataclass

from simcore.profile.importers.spec_counters import ACCEPTED, BY_POSITION, DRAFTS
from simcore.profile.importers.vllm_prometheus import PREFIX as VLLM


@dataclass(frozen=True)
class EngineMetrics:
    """What one engine exports; None where it exports no such thing."""

    engine: str
    version: str  # whose names these are
    drafts: str | None  # counter: cycles with a draft
    accepted: str | None  # counter: accepted drafts, bonus excluded
    accepted_by_position: str | None  # counter by label `position`, from 0
    acceptance_length: str | None  # gauge: mean tokens a cycle, bonus included
    cycles: str | None  # counter: verified cycles of finished requests
    generated: str  # counter: output tokens
    finished: str  # counter: requests
    preemptions: str  # counter: requests thrown back into the queue
    waiting: str  # gauge: requests in the queue
    kv_usage: str  # gauge: share of the KV cache, 0 to 1
    ttft: str  # histogram, s
    tpot: str  # histogram, s
    e2e: str  # histogram, s

    def names(self) -> frozenset[str]:
        """Every name on the wire."""
        plain = {value for key, value in vars(self).items() if key not in ("engine", "version")}
        histograms = {f"{name}_bucket" for name in (self.ttft, self.tpot, self.e2e)}
        return frozenset(name for name in plain | histograms if name is not None)


METRICS = {
    "vllm": EngineMetrics(
        engine="vLLM",
        version="0.32",
        drafts=f"{VLLM}:{DRAFTS}",
        accepted=f"{VLLM}:{ACCEPTED}",
        accepted_by_position=f"{VLLM}:{BY_POSITION}",
        acceptance_length=None,
        cycles=None,
        generated=f"{VLLM}:generation_tokens_total",
        finished=f"{VLLM}:request_success_total",
        preemptions=f"{VLLM}:num_preemptions_total",
        waiting=f"{VLLM}:num_requests_waiting",
        kv_usage=f"{VLLM}:kv_cache_usage_perc",
        ttft=f"{VLLM}:time_to_first_token_seconds",
        tpot=f"{VLLM}:request_time_per_output_token_seconds",
        e2e=f"{VLLM}:e2e_request_latency_seconds",
    ),
    "sglang": EngineMetrics(
        engine="SGLang",
        version="0.5.18",
        drafts=None,
        accepted=None,
        accepted_by_position=None,
        acceptance_length="sglang:spec_accept_length",
        cycles="sglang:spec_verify_calls_total",
        generated="sglang:generation_tokens_total",
        finished="sglang:num_requests_total",
        preemptions="sglang:num_retracted_requests_total",
        waiting="sglang:num_queue_reqs",
        kv_usage="sglang:token_usage",
        ttft="sglang:time_to_first_token_seconds",
        tpot="sglang:inter_token_latency_seconds",
        e2e="sglang:e2e_request_latency_seconds",
    ),
}
