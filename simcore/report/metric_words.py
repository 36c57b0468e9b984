"""How a summary's headline numbers are written, and what they mean."""

from collections.abc import Callable, Iterable, Mapping

from simcore.metrics.headlines import HEADLINES, Headline, Unit
from simcore.report.units import NOTHING, digits, dollars, joules, percent, rate, seconds, watts


def written(headline: Headline, value: float | None) -> str:
    """A value of this number, with its unit."""
    return NOTHING if value is None else _WRITERS[headline.unit](value)


_WRITERS: Mapping[Unit, Callable[[float], str]] = {
    "s": seconds,
    "requests/s": rate,
    "tokens/s": lambda value: f"{value:,.4g} tokens/s",
    "tokens": lambda value: f"{digits(value)} tokens",
    "requests": lambda value: f"{digits(value)} requests",
    "": digits,
    "share": percent,
    "J": joules,
    "W": watts,
    "USD": dollars,
}

MEANINGS: Mapping[str, str] = {  # a summary's field, or the latency that it is a point of
    "ttft": "TTFT, time to first token: from arrival to the first token of the answer.",
    "tpot": "TPOT, time per output token: mean gap between tokens of one request after the first.",
    "itl_burst": "ITL per burst, inter-token latency: gap between two emissions of a request. A "
    "cycle emits all its tokens at once.",
    "itl_token": "ITL per token: the same gap, with 0 for every further token of a burst.",
    "e2e": "E2E, end to end: from arrival to the last token.",
    "queue": "Queue: from arrival until a replica takes the request up.",
    "request_rate_per_s": "Throughput: requests finished a second, over the whole run.",
    "output_rate_tokens_per_s": "Output rate: tokens emitted a second, by all replicas together.",
    "goodput_per_s": "Goodput: requests a second that meet every limit of the service objective.",
    "goodput_fraction": "Share within the SLO: of all requests after the warm-up, those that meet "
    "every limit; whoever was rejected or gave up did not.",
    "served_fraction": "Served share: requests after the warm-up that were served to the end.",
    "rejected_fraction": "Rejected share: requests after the warm-up that were turned away.",
    "cancelled_fraction": "Cancelled share: requests after the warm-up whose clients gave up.",
    "num_preemptions": "Preemptions: times that a running request lost its blocks and its place.",
    "tokens.mean_acceptance_length": "Mean acceptance length: tokens that one cycle emits, the "
    "target's own token included; plain decoding emits 1.",
    "time.propose": "Time: propose, share of replica time in which drafts are made.",
    "time.target": "Time: target, share of replica time in target passes, prefills included.",
    "time.reconcile": "Time: reconcile, share of replica time in which drafts are accepted or not.",
    "time.overhead": "Time: overhead, share of replica time in scheduling and other host work.",
    "time.idle": "Time: idle, share of replica time in which no step runs.",
    "mean_batch_size": "Mean batch: requests that decode in one step, weighted by its time.",
    "kv.peak_used_fraction": "KV peak: most of the KV cache in use at once on the fullest replica. "
    "When it is full, requests wait or are preempted.",
    "extrapolated_step_fraction": "Extrapolated steps: share of steps outside the box in which "
    "their time was measured.",
    "consumption.energy_j_per_output_token": "Energy an output token, of all devices, busy or not.",
    "consumption.average_power_w": "Average power, of all devices together.",
    "consumption.cost_usd_per_million_output_tokens": "Cost a million tokens: device-hours times "
    "their price, over the tokens emitted.",
    "num_requests": "Requests by how they ended: finished, rejected, failed or cancelled.",
}
POINT_MEANINGS: Mapping[str, str] = {
    "mean_s": "The arithmetic mean over requests.",
    "p50_s": "p50: half of the requests are at most this slow.",
    "p90_s": "p90: 90 % of the requests are at most this slow.",
    "p95_s": "p95: 95 % of the requests are at most this slow.",
    "p99_s": "p99: 99 % of the requests are at most this slow.",
}


def meaning(metric: str) -> str:
    """A summary's number in plain words; docs/reference/metrics.md has its formula."""
    if metric in MEANINGS:
        return MEANINGS[metric]
    latency, point = metric.split(".")
    return f"{MEANINGS[latency]} {POINT_MEANINGS[point]}"


def meanings_of(names: Iterable[str], others: Mapping[str, str] | None = None) -> list[str]:
    """Definitions of a table's rows, each once, latencies without their points.

    `others`: of rows that are no headline, by name. Raises KeyError for a row without any.
    """
    known = {headline.name: MEANINGS[_stem(headline.metric)] for headline in HEADLINES}
    known |= others or {}
    return list(dict.fromkeys(known[name] for name in names))


def _stem(metric: str) -> str:
    return metric if metric in MEANINGS else metric.split(".", maxsplit=1)[0]
