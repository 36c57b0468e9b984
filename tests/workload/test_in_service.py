"""Every kind of workload through the service: the laws hold, files follow their scenario."""

import numpy as np
import pytest
import yaml

from simcore import dump_scenario, load_scenario, simulate, summarise
from simcore.planner.plan import make_plan
from simcore.report.view import view_of
from tests.factories import make_scenario
from tests.invariants import check_result
from tests.workload.conftest import DATA, FIXED

STATES = [{"rate_per_s": 9.0, "mean_dwell_s": 2.0}, {"rate_per_s": 0.5, "mean_dwell_s": 5.0}]
PLAIN = str(DATA / "plain.csv")
KINDS = {
    "gamma": {"arrivals": {"kind": "gamma", "rate_per_s": 3.0, "cv": 4.0}, "lengths": FIXED},
    "markov_modulated": {"arrivals": {"kind": "markov_modulated", "states": STATES}},
    "ramp": {
        "arrivals": {
            "kind": "ramp",
            "from_rate_per_s": 0.0,
            "to_rate_per_s": 9.0,
            "duration_s": 9.0,
        }
    },
    "recorded": {"arrivals": {"kind": "recorded", "path": PLAIN}, "num_requests": 3},
    "file_rows": {
        "arrivals": {"kind": "recorded", "path": PLAIN, "rate_scale": 0.5},
        "lengths": {"kind": "file_rows"},
        "num_requests": None,
    },
    "benchmark": {
        "arrivals": {"kind": "batch"},
        "lengths": {"kind": "file_rows", "file": {"path": str(DATA / "sglang_bench.jsonl")}},
        "num_requests": None,
    },
    "empirical": {"lengths": {"kind": "empirical", "path": PLAIN}},
}


def _scenario(stored, parts, **changes):
    return make_scenario(stored, **{f"workload.{key}": value for key, value in parts.items()})


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_keeps_the_laws(recorded_profile, kind):
    result = simulate(_scenario(recorded_profile, KINDS[kind]))
    check_result(result)
    summary = summarise(result)
    assert summary.num_requests["finished"] == len(result.requests)
    assert (summary.offered_rate_per_s is None) == (kind == "benchmark")


def test_recorded_requests_come_through_as_the_file_has_them(recorded_profile):
    frame = simulate(_scenario(recorded_profile, KINDS["file_rows"])).requests
    assert frame["arrival_s"].tolist() == [0.0, 0.5, 4.0]
    assert frame["prompt_tokens"].tolist() == [10, 20, 30]
    assert frame["output_tokens"].tolist() == [3, 4, 5]


def test_a_prompt_that_can_never_fit_is_rejected_and_the_rest_is_served(
    recorded_profile, request_file
):
    rows = [(0.0, 10, 3), (0.1, 10**9, 3), (0.2, 12, 4)]
    arrivals = {"kind": "recorded", "path": request_file(rows)}
    parts = {"arrivals": arrivals, "lengths": {"kind": "file_rows"}, "num_requests": None}
    result = simulate(_scenario(recorded_profile, parts))
    check_result(result)
    assert result.requests["state"].tolist() == ["finished", "rejected", "finished"]


def test_a_public_trace_runs_and_keeps_the_laws(recorded_profile, shared_data):
    path = shared_data / "azure_llm_2023/AzureLLMInferenceTrace_code.csv"
    scenario = make_scenario(
        recorded_profile,
        **{
            "workload.arrivals": {"kind": "recorded", "path": str(path), "rate_scale": 0.1},
            "workload.lengths": {"kind": "file_rows"},
            "workload.num_requests": 500,
        },
    )
    result = simulate(scenario)
    check_result(result)
    assert result.requests["prompt_tokens"].head(2).tolist() == [4808, 3180]


@pytest.mark.parametrize("kind", ["gamma", "markov_modulated", "ramp"])
def test_a_plan_scans_loads_of_every_kind(recorded_profile, kind):
    scenario = _scenario(recorded_profile, KINDS[kind])
    plan = make_plan(scenario, stored=recorded_profile, num_replications=2)
    rates = [point.rate_per_s for point in plan.break_even.curve]
    assert np.all(np.diff(rates) > 0.0)
    assert kind.replace("_", "-") in view_of(plan).basis


def test_a_plan_of_a_recorded_file_repeats_its_rows_at_every_load(recorded_profile, request_file):
    rng = np.random.default_rng(1)
    times_s = np.cumsum(rng.exponential(0.5, size=40))
    rows = [(t, int(rng.integers(5, 60)), int(rng.integers(5, 40))) for t in times_s]
    parts = {
        "arrivals": {"kind": "recorded", "path": request_file(rows)},
        "lengths": {"kind": "file_rows"},
        "num_requests": None,
    }
    plan = make_plan(
        _scenario(recorded_profile, parts), stored=recorded_profile, num_replications=2
    )
    assert plan.candidates[0].summary.num_requests["finished"] == 40
    assert len(plan.break_even.curve) >= 9
    assert "40 requests" in str(view_of(plan))


def test_paths_are_relative_to_the_scenario_file(recorded_profile, tmp_path, monkeypatch):
    (tmp_path / "data").mkdir()
    for kind in ("file_rows", "benchmark", "empirical"):
        raw = yaml.safe_load(dump_scenario(_scenario(recorded_profile, KINDS[kind])))
        workload = raw["workload"]
        holders = [workload["arrivals"], workload["lengths"], workload["lengths"].get("file")]
        for holder in holders:
            if holder and holder.get("path"):
                name = holder["path"].rpartition("/")[2]
                (tmp_path / "data" / name).write_text((DATA / name).read_text())
                holder["path"] = f"data/{name}"
        path = tmp_path / "scenario.yaml"
        path.write_text(yaml.safe_dump(raw))
        monkeypatch.chdir("/")
        scenario = load_scenario(path)
        check_result(simulate(scenario))
        path.write_text(dump_scenario(scenario))
        assert load_scenario(path) == scenario
