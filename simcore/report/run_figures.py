"""Pictures of one simulated run: latencies as distributions, the engine over time."""

import itertools

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray
from plotly.subplots import make_subplots

from simcore.metrics.summary import request_latencies_s
from simcore.records import Records
from simcore.report.style import BLUE, GREEN, ORANGE, VERMILLION, log_axis, styled, vertical_line
from simcore.serving.simulation import SimulationResult
from simcore.serving.state import FINISHED

FloatArray = NDArray[np.float64]

LATENCIES = (  # key of request_latencies_s and field of SLO, name, unit, units a second
    ("ttft_s", "TTFT", "ms", 1000.0),
    ("tpot_s", "TPOT", "ms", 1000.0),
    ("e2e_s", "E2E", "s", 1.0),
)
SERIES = (  # field of the step records, name, unit, colour
    ("num_running", "running", "requests", BLUE),
    ("num_waiting", "waiting", "requests", ORANGE),
    ("used_blocks", "KV in use", "%", GREEN),
)
MAX_CDF_POINTS = 500
NUM_BUCKETS = 500  # four points each: first, smallest, largest, last


def latency_figure(result: SimulationResult) -> go.Figure:
    """Empirical distributions of TTFT, TPOT and E2E after the warm-up, with the SLO's limits."""
    latencies = request_latencies_s(_counted(result))
    titles = [f"{name} ({unit}, log)" for _, name, unit, _ in LATENCIES]
    figure = make_subplots(rows=1, cols=len(LATENCIES), shared_yaxes=True, horizontal_spacing=0.06)
    for column, (key, name, unit, scale) in enumerate(LATENCIES, start=1):
        values, shares = _cdf(latencies[key] * scale)
        figure.add_scatter(
            x=values,
            y=100 * shares,
            mode="lines",
            name=name,
            showlegend=False,
            line={"color": BLUE, "shape": "hv"},
            hovertemplate=f"%{{y:.1f}} % of requests: {name} up to %{{x:.4g}} {unit}"
            "<extra></extra>",
            row=1,
            col=column,
        )
        limit = getattr(result.scenario.slo, key)
        if limit is not None:
            text = f"SLO: {name} {limit * scale:.4g} {unit}"
            mark = vertical_line(limit * scale, (0.0, 100.0), text, VERMILLION, "dash", text)
            figure.add_trace(mark, row=1, col=column)
        seen = [*values, *([] if limit is None else [limit * scale])]
        axis = log_axis([each for each in seen if each > 0] or [1.0])
        figure.update_xaxes(title_text=titles[column - 1], **axis, row=1, col=column)
    figure.update_yaxes(range=[0, 101])
    figure.update_yaxes(title_text="share of requests (%)", row=1, col=1)
    return styled(figure, "Latency of requests after the warm-up")


def timeline_figure(result: SimulationResult) -> go.Figure:
    """Running batch, waiting queue and KV use of the whole service over time."""
    figure = make_subplots(rows=len(SERIES), cols=1, shared_xaxes=True, vertical_spacing=0.06)
    total_blocks = int(result.replica_records["total_blocks"].sum())
    for row, (field, name, unit, line_colour) in enumerate(SERIES, start=1):
        scale = 100.0 / total_blocks if field == "used_blocks" else 1.0
        times_s, values = _downsample(*_service_series(result.step_records, field))
        figure.add_scatter(
            x=times_s,
            y=values * scale,
            mode="lines",
            name=name,
            showlegend=False,
            line={"color": line_colour, "shape": "hv", "width": 1.5},
            hovertemplate=f"%{{x:.2f}} s<br>{name} %{{y:.4g}} {unit}<extra></extra>",
            row=row,
            col=1,
        )
        figure.update_yaxes(title_text=f"{name}<br>({unit})", rangemode="tozero", row=row, col=1)
    figure.update_xaxes(title_text="time (s)", row=len(SERIES), col=1)
    return styled(figure, "The service over time").update_layout(height=560)


def _counted(result: SimulationResult) -> Records:
    """Finished requests after the warm-up: those that the summary's latencies count."""
    requests = result.request_records
    later = requests[int(result.scenario.warmup_fraction * len(requests)) :]
    return later[later["state"] == FINISHED]


def _cdf(values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Values and the share at or below each; at most MAX_CDF_POINTS, both ends kept."""
    seen = np.sort(values[~np.isnan(values)])
    if not len(seen):
        return np.empty(0), np.empty(0)
    rank = np.unique(np.linspace(0, len(seen) - 1, MAX_CDF_POINTS).astype(int))
    return seen[rank], (rank + 1) / len(seen)


def _service_series(steps: Records, field: str) -> tuple[FloatArray, FloatArray]:
    """One column summed over replicas, as (time, value from then on); idle replicas count 0."""
    times, changes = [np.zeros(1)], [np.zeros(1)]
    for replica in np.unique(steps["replica"]):
        own = steps[steps["replica"] == replica]
        begin_s, end_s, values = own["begin_s"], own["end_s"], own[field].astype(float)
        next_begin_s = np.append(begin_s[1:], np.inf)
        idle = end_s < next_begin_s
        before = np.where(np.concatenate([[True], idle[:-1]]), 0.0, np.append(0.0, values[:-1]))
        times += [begin_s, end_s[idle]]
        changes += [values - before, -values[idle]]
    time_s, change = np.concatenate(times), np.concatenate(changes)
    order = np.argsort(time_s, kind="stable")
    time_s, value = time_s[order], np.cumsum(change[order])
    last = np.append(np.diff(time_s) > 0, True)  # of several changes at one moment, the sum
    return time_s[last], value[last]


def _downsample(time_s: FloatArray, value: FloatArray) -> tuple[FloatArray, FloatArray]:
    """At most 4 · NUM_BUCKETS points that keep every bucket's first, last and extremes."""
    if len(time_s) <= 4 * NUM_BUCKETS:
        return time_s, value
    edges = np.linspace(0, len(time_s), NUM_BUCKETS + 1).astype(int)
    kept: set[int] = set()
    for start, stop in itertools.pairwise(edges):
        part = value[start:stop]
        kept |= {start, start + int(part.argmin()), start + int(part.argmax()), stop - 1}
    index = np.array(sorted(kept))
    return time_s[index], value[index]
