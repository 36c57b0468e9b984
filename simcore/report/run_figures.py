"""Pictures of one simulated run: latencies as distributions, the engine over time."""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray
from plotly.subplots import make_subplots

from simcore.metrics.summary import Summary, request_latencies_s
from simcore.records import Records
from simcore.report.style import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    VERMILLION,
    colour,
    dash,
    label,
    log_axis,
    new_figure,
    styled,
    vertical_line,
)
from simcore.serving.simulation import SimulationResult
from simcore.serving.state import FINISHED

FloatArray = NDArray[np.float64]

LATENCIES = (  # key of request_latencies_s and field of SLO, name, unit, units a second
    ("ttft_s", "TTFT", "ms", 1000.0),
    ("tpot_s", "TPOT", "ms", 1000.0),
    ("e2e_s", "E2E", "s", 1.0),
)
KV_ROW, GAMMA_ROW = 3, 4  # of the timeline
MAX_REPLICA_LINES = 4
MAX_CHANGES = 1_000
TOKEN_LOOKS = {  # part -> colour and hatching
    "accepted drafts": (GREEN, ""),
    "corrected or bonus": (BLUE, ""),
    "rejected drafts": (VERMILLION, "/"),
    "padding": (GREY, "."),
}
TIME_LOOKS = {
    "propose": (ORANGE, "/"),
    "target": (BLUE, ""),
    "reconcile": (GREEN, "x"),
    "overhead": (PURPLE, "-"),
    "down": (VERMILLION, "+"),
    "idle": (GREY, "."),
}
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
    """Running batch, queue, KV by namespace and draft length in force, on one time axis.

    KV is the share of its own pool, over all replicas; a change of the draft length carries its
    reason.
    """
    rows = ("running<br>(requests)", "waiting<br>(requests)", "KV in use<br>(%)", "draft length γ")
    figure = make_subplots(rows=len(rows), cols=1, shared_xaxes=True, vertical_spacing=0.05)
    for row, title in enumerate(rows, start=1):
        figure.update_yaxes(title_text=title, rangemode="tozero", row=row, col=1)
    for series in _service_lines(result):
        figure.add_scatter(
            x=series.time_s,
            y=series.values,
            mode="lines",
            name=series.name,
            showlegend=series.row == KV_ROW,
            line={
                "color": series.colour,
                "dash": series.dash,
                "shape": "hv",
                "width": 1.5,
            },
            hovertemplate=f"%{{x:.2f}} s<br>{series.name} %{{y:.4g}} {series.unit}<extra></extra>",
            row=series.row,
            col=1,
        )
    _add_changes(figure, result)
    figure.update_xaxes(title_text="time (s)", row=len(rows), col=1)
    return styled(figure, "The service over time").update_layout(height=680)


@dataclass(frozen=True)
class _Line:
    row: int
    name: str
    unit: str
    colour: str
    dash: str
    time_s: FloatArray
    values: FloatArray


def _service_lines(result: SimulationResult) -> Iterator[_Line]:
    """The lines of the timeline from top to bottom."""
    steps, replicas = result.step_records, result.replica_records
    for row, field, name, line_colour in (
        (1, "num_running", "running", BLUE),
        (2, "num_waiting", "waiting", ORANGE),
    ):
        series = _downsample(*_service_series(steps, field))
        yield _Line(row, name, "requests", line_colour, "solid", *series)
    for field, pool, name, line_colour, line_dash in (
        ("used_blocks", "total_blocks", "target KV", GREEN, "solid"),
        ("used_draft_blocks", "draft_total_blocks", "draft KV, a pool of its own", PURPLE, "dash"),
    ):
        total = int(replicas[pool].sum())
        if total:
            time_s, used = _downsample(*_service_series(steps, field))
            yield _Line(KV_ROW, name, "%", line_colour, line_dash, time_s, 100.0 * used / total)
    for replica in range(min(len(replicas), MAX_REPLICA_LINES)):
        # A step of prefill alone drafts nothing, whatever length is in force.
        own = steps[(steps["replica"] == replica) & (steps["num_decoding"] > 0)]
        name = "γ" if len(replicas) == 1 else f"γ of replica {replica}"
        if len(own):
            series = _downsample(own["begin_s"], own["gamma"].astype(float))
            yield _Line(GAMMA_ROW, name, "drafts", colour(replica), dash(replica), *series)


def _add_changes(figure: go.Figure, result: SimulationResult) -> None:
    """Each change of what is drafted, with its reason; the first ones where there are many."""
    changes = result.policy_changes.head(MAX_CHANGES)
    if not len(changes):
        return
    figure.add_scatter(
        x=changes["time_s"],
        y=changes["to_tokens"],
        mode="markers",
        name="change of the draft length",
        marker={"color": VERMILLION, "symbol": "x", "size": 8},
        customdata=changes[["from_tokens", "reason", "num_running", "replica"]],
        hovertemplate="%{x:.2f} s, replica %{customdata[3]}<br>%{customdata[0]} to %{y} drafts: "
        "%{customdata[1]}<br>%{customdata[2]} requests running<extra></extra>",
        row=GAMMA_ROW,
        col=1,
    )


def tokens_figure(summaries: Mapping[str, Summary]) -> go.Figure:
    """What became of the tokens that the target scored, a bar for each run: waste is in sight."""
    shares = {name: _token_parts(summary) for name, summary in summaries.items()}
    return _account_figure("Tokens scored while decoding", shares, TOKEN_LOOKS)


def time_figure(summaries: Mapping[str, Summary]) -> go.Figure:
    """Where the time of the replicas went, a bar for each run."""
    shares = {name: summary.time.model_dump() for name, summary in summaries.items()}
    return _account_figure("Time of the replicas", shares, TIME_LOOKS)


def _account_figure(
    title: str, shares: Mapping[str, Mapping[str, float]], looks: Mapping[str, tuple[str, str]]
) -> go.Figure:
    figure = new_figure(title, "run", "share (%)")
    names = [label(name) for name in shares]
    for part, (fill, pattern) in looks.items():
        figure.add_bar(
            x=names,
            y=[100.0 * each[part] for each in shares.values()],
            name=part,
            marker={"color": fill, "pattern": {"shape": pattern}},
            hovertemplate=f"%{{x}}<br>{part} %{{y:.1f}} %<extra></extra>",
        )
    figure.update_layout(barmode="stack", legend_traceorder="normal")
    figure.update_yaxes(range=[0, 100.5])
    figure.update_xaxes(type="category")
    return figure


def _token_parts(summary: Summary) -> dict[str, float]:
    """Shares of the scored tokens of decoding, padding included."""
    tokens = summary.tokens
    rejected = tokens.verified_tokens - tokens.accepted_tokens
    parts = {
        "accepted drafts": tokens.accepted_tokens,
        "corrected or bonus": tokens.num_cycles,
        "rejected drafts": rejected,
        "padding": tokens.padded_tokens,
    }
    total = sum(parts.values()) or 1
    return {name: count / total for name, count in parts.items()}


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
