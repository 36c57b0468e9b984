"""What is compared: a cell's latencies, throughput and accepted length, on either side."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

LATENCIES = ("ttft", "tpot", "e2e")
QUANTILES = {"p50": 0.5, "p95": 0.95}
NAMES = (
    *(f"{latency}_{name}_s" for latency in LATENCIES for name in QUANTILES),
    "e2e_mean_s",
    "output_tokens_per_s",
    "tokens_per_cycle",
)


def figures(
    arrival_s: ArrayLike,
    first_s: ArrayLike,
    last_s: ArrayLike,
    output_tokens: ArrayLike,
    *,
    accepted_tokens: int,
    num_cycles: int,
) -> dict[str, float]:
    """Figures by name. A cycle is a decode step of one request, with or without a draft."""
    arrival, first, last, tokens = (
        np.asarray(each, dtype=float) for each in (arrival_s, first_s, last_s, output_tokens)
    )
    seconds = {
        "ttft": first - arrival,
        "tpot": (last - first) / (tokens - 1.0),
        "e2e": last - arrival,
    }
    found = {
        f"{latency}_{name}_s": float(np.quantile(seconds[latency], quantile))
        for latency in LATENCIES
        for name, quantile in QUANTILES.items()
    }
    return found | {
        "e2e_mean_s": float(seconds["e2e"].mean()),
        "output_tokens_per_s": float(tokens.sum() / (last.max() - arrival.min())),
        "tokens_per_cycle": 1.0 + accepted_tokens / num_cycles,
    }


def mean_figures(runs: Sequence[dict[str, float]]) -> dict[str, float]:
    """Each figure's mean over runs."""
    return {name: float(np.mean([run[name] for run in runs])) for name in NAMES}
