"""The load that a workload offers, and the same workload under another load.

A load is scaled by running the same arrivals faster: every time is divided by one factor, so
that bursts, states and ramps keep their shape in requests.
"""

from typing import Any

import numpy as np

from simcore.workload.arrivals import ramp_time_s
from simcore.workload.recorded import num_requests, recorded_column, recorded_requests
from simcore.workload_kinds import (
    Arrivals,
    BatchArrivals,
    GammaArrivals,
    MarkovModulatedArrivals,
    PoissonArrivals,
    RampArrivals,
    RecordedArrivals,
    Recording,
    Workload,
)


def mean_rate_per_s(workload: Workload) -> float | None:
    """Requests a second that the workload offers on average.

    In the long run for Poisson, gamma and Markov-modulated arrivals; over the workload's own
    requests for a ramp and a recording. None where all arrive at one moment.
    """
    arrivals: Arrivals = workload.arrivals
    match arrivals:
        case PoissonArrivals() | GammaArrivals():
            return arrivals.rate_per_s
        case MarkovModulatedArrivals():
            return arrivals.mean_rate_per_s
        case RampArrivals():
            count = float(num_requests(workload))
            return count / float(ramp_time_s(arrivals, np.array([count]))[0])
        case RecordedArrivals():
            return _recorded_rate_per_s(arrivals, num_requests(workload))
        case BatchArrivals():
            return None


def at_mean_rate(workload: Workload, rate_per_s: float) -> Workload:
    """The same arrivals, faster or slower; Poisson where all arrived at one moment."""
    mean = mean_rate_per_s(workload)
    if mean is None:
        return _with_arrivals(workload, PoissonArrivals(rate_per_s=rate_per_s))
    return _with_arrivals(workload, _faster(workload.arrivals, rate_per_s / mean))


def as_batch(workload: Workload, count: int) -> Workload:
    """`count` of the workload's requests at once, or all where its file gives fewer lengths."""
    batch = _with_arrivals(workload, BatchArrivals(kind="batch"))
    if batch.recording is not None:
        count = min(count, recorded_requests(batch.recording).num_rows)
    return batch.model_copy(update={"num_requests": count})


def _recorded_rate_per_s(arrivals: RecordedArrivals, count: int) -> float | None:
    table = recorded_requests(arrivals).slice(0, count)
    times_s = recorded_column(table, "arrival_s", arrivals)
    span_s = float(times_s[-1] - times_s[0])
    return (count - 1) / span_s * arrivals.rate_scale if span_s > 0.0 else None


def _faster(arrivals: Arrivals, factor: float) -> Arrivals:
    changes: dict[str, Any] = {}
    match arrivals:
        case PoissonArrivals() | GammaArrivals():
            changes = {"rate_per_s": arrivals.rate_per_s * factor}
        case MarkovModulatedArrivals():
            changes["states"] = tuple(
                state.model_copy(
                    update={
                        "rate_per_s": state.rate_per_s * factor,
                        "mean_dwell_s": state.mean_dwell_s / factor,
                    }
                )
                for state in arrivals.states
            )
        case RampArrivals():
            changes = {
                "from_rate_per_s": arrivals.from_rate_per_s * factor,
                "to_rate_per_s": arrivals.to_rate_per_s * factor,
                "duration_s": arrivals.duration_s / factor,
            }
        case RecordedArrivals():
            changes = {"rate_scale": arrivals.rate_scale * factor}
    return arrivals.model_copy(update=changes)


def _with_arrivals(workload: Workload, arrivals: Arrivals) -> Workload:
    """Other arrivals; lengths that followed the recorded arrivals keep their file."""
    changes: dict[str, Any] = {"arrivals": arrivals}
    recording, lengths = workload.recording, workload.lengths
    leaves = isinstance(workload.arrivals, RecordedArrivals) and not isinstance(
        arrivals, RecordedArrivals
    )
    if leaves and lengths.kind == "file_rows":
        assert recording is not None
        fields = {name: getattr(recording, name) for name in Recording.model_fields}
        changes["lengths"] = lengths.model_copy(update={"file": Recording(**fields)})
    return workload.model_copy(update=changes)
