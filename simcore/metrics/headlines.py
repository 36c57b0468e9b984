"""The numbers of a summary that a reader wants first, with their names and units."""

from typing import Literal, NamedTuple

Unit = Literal["s", "requests/s", "tokens/s", "tokens", "requests", "", "share", "J", "W", "USD"]


class Headline(NamedTuple):
    """One number of a summary."""

    metric: str  # dotted name of the summary's field
    name: str
    unit: Unit


LATENCIES = (
    ("ttft", "TTFT"),
    ("tpot", "TPOT"),
    ("itl_burst", "ITL per burst"),
    ("itl_token", "ITL per token"),
    ("e2e", "E2E"),
    ("queue", "queue"),
)
POINTS = ("mean", "p50", "p90", "p95", "p99")
PHASES = ("propose", "target", "reconcile", "overhead", "idle")
HEADLINES = (
    *(
        Headline(f"{metric}.{point}_s", f"{name} {point}", "s")
        for metric, name in LATENCIES
        for point in POINTS
    ),
    Headline("request_rate_per_s", "throughput", "requests/s"),
    Headline("output_rate_tokens_per_s", "output rate", "tokens/s"),
    Headline("goodput_per_s", "goodput", "requests/s"),
    Headline("goodput_fraction", "share within the SLO", "share"),
    Headline("served_fraction", "served share", "share"),
    Headline("rejected_fraction", "rejected share", "share"),
    Headline("cancelled_fraction", "cancelled share", "share"),
    Headline("num_preemptions", "preemptions", ""),
    Headline("tokens.mean_acceptance_length", "mean acceptance length", "tokens"),
    *(Headline(f"time.{phase}", f"time: {phase}", "share") for phase in PHASES),
    Headline("mean_batch_size", "mean batch", "requests"),
    Headline("kv.peak_used_fraction", "KV peak", "share"),
    Headline("extrapolated_step_fraction", "extrapolated steps", "share"),
    Headline("consumption.energy_j_per_output_token", "energy an output token", "J"),
    Headline("consumption.average_power_w", "average power", "W"),
    Headline("consumption.cost_usd_per_million_output_tokens", "cost a million tokens", "USD"),
)
