"""The command line of sweeps: shortcuts, files, resuming, one sentence where it cannot be."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from simcore import ScenarioError, dump_scenario, load_sweep
from simcore.cli import app
from simcore.planner.run_store import RunStore
from simcore.planner.sweep_workers import MAX_CHUNK
from tests.factories import make_scenario

ROOT = Path(__file__).parents[2]
GAMMA = "speculation.num_speculative_tokens"


@pytest.fixture(scope="module")
def scenario_file(recorded_profile, tmp_path_factory):
    path = tmp_path_factory.mktemp("service") / "service.yaml"
    path.write_text(dump_scenario(make_scenario(recorded_profile)))
    return str(path)


def run(*arguments):
    return CliRunner().invoke(app, ["sweep", *arguments])


def test_shortcuts_become_axes_and_the_folder_holds_what_repeats_the_sweep(scenario_file, tmp_path):
    options = ["--gamma", "0:2", "--rate", "1:4:2", "--proposer", "ngram,draft_model"]
    options += ["--policy", "fixed", "--set", "deployment.max_num_seqs=4,8"]
    options += ["--seeds", "2", "--requests", "20", "--output", str(tmp_path / "out"), "--json"]
    first = run(scenario_file, *options)
    assert first.exit_code == 0, first.output
    found = json.loads(first.stdout)
    assert found["space"]["axes"][GAMMA] == [0, 1, 2]
    assert found["space"]["scenario"]["workload"]["num_requests"] == 20
    assert {row["load_rate_per_s"] for row in found["configurations"]} == {1, 4}
    assert len(found["best"]) == 2
    runs = pd.read_parquet(tmp_path / "out" / "runs.parquet")
    assert len(runs) == found["num_simulated"]
    assert load_sweep(tmp_path / "out" / "sweep.yaml").axes.keys() == found["space"]["axes"].keys()
    again = run(str(tmp_path / "out" / "sweep.yaml"), "--output", str(tmp_path / "out"), "--json")
    repeated = json.loads(again.stdout)
    assert (repeated["num_simulated"], repeated["num_reused"]) == (0, found["num_simulated"])
    assert repeated["configurations"] == found["configurations"]


def test_the_text_names_the_best_of_each_load_and_what_was_left_out(scenario_file):
    found = run(scenario_file, "--gamma", "0,2,9", "--rate", "1,3", "--requests", "20")
    assert found.exit_code == 0
    assert "load_rate_per_s" in found.stdout
    assert "2 combinations cannot be simulated" in found.stdout
    assert "nothing is kept" not in found.stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "nothing to vary"),
        (["--gamma", "much"], "expected values with commas"),
        (["--gamma", "8:0"], "--gamma 8:0; expected rising ends, as 0:8"),
        (["--set", "deployment.max_num_seqs="], "empty; give at least one"),
        (["--rate", "1:2:3:4:5"], "expected values with commas"),
        (["--set", "seed"], "expected FIELD=VALUE"),
        (["--set", "seed=[1,"], "YAML list"),
        (["--tree", "best:three"], "expected best:NODES:DEPTH"),
        (["--gamma", "0", "--objective", "joy"], "expected one of"),
    ],
)
def test_bad_options_are_one_sentence(scenario_file, options, message):
    found = run(scenario_file, *options)
    assert isinstance(found.exception, ScenarioError)
    assert message in str(found.exception)
    assert "\n" not in str(found.exception)


def test_a_folder_with_files_of_others_is_left_alone(scenario_file, tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    found = run(scenario_file, "--gamma", "0", "--output", str(tmp_path))
    assert found.exit_code == 1
    assert "thesis.txt" in str(found.exception)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_ctrl_c_keeps_what_is_done_and_says_how_to_go_on(scenario_file, tmp_path):
    store = tmp_path / "runs.duckdb"
    command = "from simcore.cli import main; main()"
    options = ["--gamma", "0:8", "--seeds", "1000", "--requests", "400", "--jobs", "1"]
    options += ["--store", str(store)]
    process = subprocess.Popen(
        [sys.executable, "-c", command, "sweep", scenario_file, *options],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )
    wal = store.with_name("runs.duckdb.wal")
    while process.poll() is None and not (wal.exists() and wal.stat().st_size > 20_000):
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 130, told
    assert "Traceback" not in told
    assert "the same command goes on from there" in told
    counted = int(re.search(r"stopped with ([\d,]+) of 9,000 runs done", told)[1].replace(",", ""))
    with RunStore(store) as kept:
        assert 0 < len(kept) < 9000
        assert counted <= len(kept) <= counted + MAX_CHUNK  # one chunk may not have been told yet
