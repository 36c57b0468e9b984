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
    ClosedLoopArrivals,
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
    requests for a ramp and a recording. Every turn of a session counts. None where all arrive at
    one moment, or only as fast as they are answered.
    """
    arrivals: Arrivals = workload.arrivals
    turns = mean_turns(workload)
    match arrivals:
        case PoissonArrivals() | GammaArrivals():
            return arrivals.rate_per_s * turns
        case MarkovModulatedArrivals():
            return arrivals.mean_rate_per_s * turns
        case RampArrivals():
            count = num_requests(workload) / turns
            return turns * count / float(ramp_time_s(arrivals, np.array([count]))[0])
        case RecordedArrivals():
            return _recorded_rate_per_s(arrivals, num_requests(workload))
        case BatchArrivals() | ClosedLoopArrivals():
            return None


def mean_turns(workload: Workload) -> float:
    """Requests of one session on average; 1 without sessions."""
    sessions = workload.sessions
    if sessions is None:
        return 1.0
    if sessions.turns == "fixed":
        return sessions.mean_turns
    stop = 1.0 / sessions.mean_turns
    return float((1.0 - (1.0 - stop) ** sessions.max_turns) / stop)  # cut at max_turns


def at_mean_rate(workload: Workload, rate_per_s: float) -> Workload:
    """The same arrivals, faster or slower; Poisson where they had no rate of their own."""
    mean = mean_rate_per_s(workload)
    if mean is None:
        rate_per_s /= mean_turns(workload)
        return _with_arrivals(workload, PoissonArrivals(rate_per_s=rate_per_s))
    return _with_arrivals(workload, _faster(workload.arrivals, rate_per_s / mean))


def as_batch(workload: Workload, count: int) -> Workload:
    """`count` of the workload's requests at once, or all where its file gives fewer lengths.

    Sessions are left out: their turns cannot come at once.
    """
    batch = _with_arrivals(workload, BatchArrivals(kind="batch"))
    batch = batch.model_copy(update={"sessions": None})
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
