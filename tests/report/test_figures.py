"""Figures hold what they are given, in finite numbers, and cannot smuggle markup."""

import numpy as np
import pytest

from simcore.metrics.summary import summarise
from simcore.planner.estimate import estimate
from simcore.report import figures
from simcore.report.run_figures import NUM_BUCKETS, _downsample, _service_series
from simcore.serving.simulation import simulate


@pytest.fixture(scope="module")
def found(stored, scenario):
    return estimate(stored, scenario, "eagle", batch_sizes=(1, 8, 128), context_tokens=500)


@pytest.fixture(scope="module")
def run(stored, scenario):
    crowded = scenario.with_(
        **{
            "deployment.replicas": 2,
            "deployment.max_num_seqs": 8,
            "workload.arrivals.rate_per_s": 40.0,
        }
    )
    return simulate(crowded, stored=stored)


@pytest.fixture(scope="module")
def drawn(plan, found, run):
    return {
        "survival": figures.survival_figure(found.survivals[7]),
        "cycle_time": figures.cycle_time_figure(found.points[8]),
        "speedup": figures.speedup_figure(found),
        "candidates": figures.candidates_figure(plan),
        "load": figures.load_figure(plan),
        "latency": figures.latency_figure(run),
        "timeline": figures.timeline_figure(run),
        "tokens": figures.tokens_figure({"as asked": summarise(run)}),
        "time": figures.time_figure({"as asked": summarise(run)}),
    }


NAMES = (
    "survival",
    "cycle_time",
    "speedup",
    "candidates",
    "load",
    "latency",
    "timeline",
    "tokens",
    "time",
)


@pytest.mark.parametrize("name", NAMES)
def test_every_trace_holds_finite_numbers(drawn, name):
    assert drawn[name].data
    for trace in drawn[name].data:
        assert len(trace.x) == len(trace.y) > 0
        assert np.isfinite(np.asarray(trace.y, dtype=float)).all()


@pytest.mark.parametrize("name", NAMES)
def test_every_outer_axis_has_a_title_and_the_paper_is_transparent(drawn, name):
    layout = drawn[name].layout
    assert layout.paper_bgcolor == "rgba(0,0,0,0)"
    assert layout.title.text
    assert layout.yaxis.title.text
    assert any(layout[axis].title.text for axis in layout if axis.startswith("xaxis"))


def test_survival_is_drawn_against_the_power_of_one_rate(drawn, found):
    measured, iid = drawn["survival"].data
    survival = found.survivals[7]
    assert list(measured.y) == list(survival.survival)
    assert list(iid.y) == pytest.approx([survival.acceptance_rate**k for k in range(1, 8)])
    assert f"{survival.mean_emitted_tokens:.2f}" in measured.name


def test_the_bars_of_a_cycle_add_up_to_its_time_in_milliseconds(drawn, found):
    totals = np.sum([trace.y for trace in drawn["cycle_time"].data], axis=0)
    points = found.points[8]
    expected = [points[0].plain.total_s, *(point.cycle.total_s for point in points)]
    assert totals == pytest.approx(1000 * np.array(expected))


def test_extrapolated_points_are_open(drawn, found):
    for trace, points in zip(drawn["speedup"].data, found.points.values(), strict=True):
        is_open = [symbol.endswith("-open") for symbol in trace.marker.symbol]
        assert is_open == [point.is_extrapolated for point in points]
    assert found.points[128][0].is_extrapolated


def test_the_chosen_candidate_is_ringed_at_its_speed_up(drawn, plan):
    ring = next(trace for trace in drawn["candidates"].data if trace.name.startswith("chosen"))
    assert ring.y[0] == plan.speedup.value
    assert ring.x[0] == pytest.approx(plan.decision.num_speculative_tokens, abs=0.5)


def test_the_load_figure_marks_the_scenarios_own_rate_and_saturation(drawn, plan):
    marks = {trace.x[0] for trace in drawn["load"].data if trace.name != "speed-up"}
    assert plan.scenario.workload.arrivals.rate_per_s in marks
    assert plan.break_even.saturation_rate_per_s in marks


def test_the_slo_is_drawn_where_it_is_set_and_only_there(drawn):
    names = [trace.name for trace in drawn["latency"].data]
    assert [name for name in names if name.startswith("SLO")] == [
        "SLO: TTFT 500 ms",
        "SLO: TPOT 20 ms",
    ]


def test_the_timeline_keeps_the_peaks_of_the_records(drawn, run):
    running, waiting, kv, *gammas = drawn["timeline"].data
    assert max(running.y) <= 16
    assert max(waiting.y) >= run.step_records["num_waiting"].max()
    assert max(kv.y) <= 100
    assert running.y[-1] == waiting.y[-1] == kv.y[-1] == 0
    assert len(gammas) == 2
    for gamma in gammas:
        assert set(gamma.y) <= set(run.step_records["gamma"])


@pytest.mark.parametrize("name", ["tokens", "time"])
def test_every_account_sums_to_the_whole(drawn, name):
    assert sum(trace.y[0] for trace in drawn[name].data) == pytest.approx(100.0)


def test_the_timeline_marks_every_change_of_the_policy(stored, scenario):
    run = simulate(
        scenario.with_(
            **{
                "speculation.policy": {
                    "kind": "batch_size_table",
                    "table": [[1, 2, 3], [3, 512, 0]],
                },
                "speculation.num_speculative_tokens": 3,
            }
        ),
        stored=stored,
    )
    changes = run.policy_changes
    marks = figures.timeline_figure(run).data[-1]
    assert len(changes) > 0
    assert len(marks.x) == len(changes)
    assert {row[1] for row in marks.customdata} == set(changes["reason"])


def test_the_service_holds_the_sum_of_its_replicas(run):
    steps = run.step_records
    time_s, value = _service_series(steps, "num_running")
    for moment in steps["begin_s"][::37]:
        under_way = (steps["begin_s"] <= moment) & (steps["end_s"] > moment)
        expected = steps["num_running"][under_way].sum()
        assert value[np.searchsorted(time_s, moment, side="right") - 1] == expected


def test_downsampling_keeps_both_ends_and_the_extremes():
    rng = np.random.default_rng(3)
    time_s, value = np.arange(50_000.0), rng.standard_normal(50_000)
    kept_s, kept = _downsample(time_s, value)
    assert len(kept_s) <= 4 * NUM_BUCKETS
    assert (kept_s[0], kept_s[-1]) == (0.0, 49_999.0)
    assert (kept.min(), kept.max()) == (value.min(), value.max())
    assert (np.diff(kept_s) > 0).all()


def test_hostile_names_are_escaped_in_figures(hostile_plan, hostile_text):
    for draw in (figures.candidates_figure, figures.load_figure):
        text = draw(hostile_plan).to_json()
        assert "<script" not in text
        assert "<img" not in text
