"""One way to serve under every replication: the few numbers that are kept of each run."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simcore.errors import ScenarioError
from simcore.metrics.consumption import devices_of_a_replica
from simcore.metrics.summary import (
    Summary,
    counted_requests,
    mean_e2e_s,
    request_latencies_s,
    summarise,
)
from simcore.planner.uncertainty import PLAN_HEADLINES, number_of
from simcore.scenario import SLO
from simcore.serving.simulation import SimulationResult
from simcore.serving.state import FINISHED

FloatArray = NDArray[np.float64]

SLO_TOLERANCE = 0.002
USUAL_PERCENTILE = 95.0
MILLION = 1e6


@dataclass(frozen=True)
class Latency:
    """The latency that ways are compared by, at a percentile over requests."""

    field: str  # of request_latencies_s
    percentile: float

    @property
    def label(self) -> str:
        """As in E2E p95."""
        return f"{self.field.removesuffix('_s').upper()} p{self.percentile:g}"


def latency_of(slo: SLO) -> Latency:
    """TPOT where the SLO limits it and not E2E; else E2E; at the SLO's percentile, or 95."""
    percentile = getattr(slo, "percentile", None) or USUAL_PERCENTILE
    only_tpot = slo.tpot_s is not None and slo.e2e_s is None
    return Latency("tpot_s" if only_tpot else "e2e_s", float(percentile))


@dataclass(frozen=True)
class WayRuns:
    """Arrays of [num_replications]; NaN where a run has no such number."""

    e2e_s: FloatArray  # mean
    tpot_s: FloatArray  # mean
    latency_s: FloatArray  # at the percentile that ways are compared by
    goodput_fraction: FloatArray  # NaN without an SLO
    goodput_per_s: FloatArray  # without an SLO: finished requests a second
    device_s: FloatArray  # busy, per million output tokens
    headlines: dict[str, list[float]]  # metric of PLAN_HEADLINES -> [num_replications]

    def keeps_slo_as(self, off: "WayRuns") -> bool:
        """Not clearly less often than off: within two standard errors, or one in 500 requests."""
        change = self.goodput_fraction - off.goodput_fraction
        if np.isnan(change).all():
            return True
        error = float(change.std(ddof=1) / np.sqrt(len(change)))
        return bool(change.mean() >= -max(2.0 * error, SLO_TOLERANCE))


def way_runs(results: Iterable[SimulationResult], latency: Latency) -> WayRuns:
    """The numbers of these runs. Raises ScenarioError where one has no counted request."""
    rows, headlines = [], {each.metric: list[float]() for each in PLAN_HEADLINES}
    for result in results:
        summary = checked_summary(result)
        rows.append(_numbers(result, summary, latency))
        for metric, values in headlines.items():
            values.append(number_of(summary, metric))
    e2e_s, tpot_s, latency_s, fraction, rate, device_s = np.array(rows, dtype=np.float64).T
    return WayRuns(e2e_s, tpot_s, latency_s, fraction, rate, device_s, headlines)


def checked_summary(result: SimulationResult) -> Summary:
    """The summary of a run that has something to summarise."""
    summary = summarise(result)
    if summary.num_counted == 0:
        raise ScenarioError(
            f"no request finished after the warm-up ({summary.num_requests}); every prompt may be "
            "larger than the KV cache, or num_requests too small for warmup_fraction"
        )
    return summary


def _numbers(result: SimulationResult, summary: Summary, latency: Latency) -> tuple[float, ...]:
    fraction, rate = summary.goodput_fraction, summary.goodput_per_s
    return (
        mean_e2e_s(result),
        summary.tpot.mean_s or np.nan,
        _latency_s(result, latency),
        np.nan if fraction is None else fraction,
        summary.request_rate_per_s if rate is None else rate,
        _device_s(result, summary),
    )


def _latency_s(result: SimulationResult, latency: Latency) -> float:
    counted = counted_requests(result)
    found = request_latencies_s(counted[counted["state"] == FINISHED])[latency.field]
    found = found[~np.isnan(found)]
    return float(np.percentile(found, latency.percentile)) if len(found) else float("nan")


def _device_s(result: SimulationResult, summary: Summary) -> float:
    """Busy seconds of all devices per million output tokens: what tokens cost where none idles."""
    scenario = result.scenario
    devices = devices_of_a_replica(result.stored.profile, scenario.speculation)
    busy_s = (1.0 - summary.time.idle - summary.time.down) * summary.duration_s
    total_s = busy_s * devices * scenario.deployment.replicas
    return float(total_s / max(summary.tokens.emitted_tokens, 1) * MILLION)
