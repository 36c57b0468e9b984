"""Who runs a sweep does not matter: this process, its cores, a Dask cluster, or one that died."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from simcore import ScenarioError
from simcore.errors import WorkersError
from simcore.planner.run_store import RunStore
from simcore.planner.sweep import sweep
from simcore.planner.sweep_run import run_all
from simcore.planner.sweep_space import parse_sweep
from tests.factories import make_scenario

ROOT = Path(__file__).parents[2]
PATIENCE_S = 60.0
LAST_SEED = 5  # of the space
AXES = {
    "load_rate_per_s": [0.5, 2.0],
    "speculation.num_speculative_tokens": [0, 3],
    "speculation.policy": ["fixed", "goodput"],
}

LONG_SWEEP = """
import sys
from pathlib import Path
from simcore.planner.sweep import sweep
from simcore.planner.sweep_space import load_sweep

def tell(done, total):
    print(done, total, flush=True)

sweep(load_sweep(Path(sys.argv[1])), store=sys.argv[2], jobs=int(sys.argv[3]), progress=tell)
"""


@pytest.fixture(scope="module")
def space(recorded_profile):
    scenario = make_scenario(recorded_profile)
    return parse_sweep({"scenario": scenario, "axes": AXES, "seeds": 3}, "test")


@pytest.fixture(scope="module")
def serial(space):
    return sweep(space, jobs=1)


def assert_identical(found, expected):
    for name in ("runs", "configurations", "best"):
        assert getattr(found, name).equals(getattr(expected, name))


def test_cores_give_the_table_of_one_process(space, serial, monkeypatch):
    monkeypatch.setattr("simcore.planner.sweep_workers.MAX_CHUNK", 2)  # several chunks a worker
    found = sweep(space, jobs=2)
    assert found.num_simulated == serial.num_simulated > 0
    assert_identical(found, serial)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """A Dask scheduler and two worker processes on this machine's loopback."""
    with cluster_in(tmp_path_factory.mktemp("dask")) as (address, _):
        yield address


@contextmanager
def cluster_in(folder):
    """Its address, and its processes: the scheduler's, the workers'."""
    pytest.importorskip("distributed")
    folder.mkdir(exist_ok=True)
    file = folder / "scheduler.json"
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    quiet = {"cwd": folder, "env": environment, "stderr": subprocess.DEVNULL}
    common = ["--scheduler-file", str(file), "--no-dashboard", "--host", "127.0.0.1"]
    lean = ["--nthreads", "1", "--no-nanny"]
    ends = [
        subprocess.Popen(
            [sys.executable, "-m", "distributed.cli.dask_scheduler", *common, "--port", "0"],
            **quiet,
        )
    ]
    ends += [
        subprocess.Popen(
            [sys.executable, "-m", "distributed.cli.dask_worker", *common, *lean],
            **quiet,
        )
        for _ in range(2)
    ]
    try:
        yield address_in(file), ends
    finally:
        # Nothing of theirs is kept, and a worker that has lost its scheduler may wait long for it.
        for each in ends:
            each.kill()
            each.wait(timeout=PATIENCE_S)


def address_in(file):
    wait_for(file.exists)
    wait_for(lambda: file.read_text().strip().endswith("}"))
    return json.loads(file.read_text())["address"]


def wait_for(condition):
    until = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < until, "gave up waiting"
        time.sleep(0.05)


def test_a_dask_cluster_gives_the_table_of_one_process(space, serial, cluster, monkeypatch):
    from distributed import Client

    monkeypatch.setattr("simcore.planner.sweep_workers.MAX_CHUNK", 2)
    with Client(cluster, set_as_default=False) as client:
        client.wait_for_workers(2, timeout=PATIENCE_S)
        found = sweep(space, dask=cluster)
        assert len(client.scheduler_info()["workers"]) == 2  # the cluster is left as it was
    assert found.num_simulated == serial.num_simulated
    assert_identical(found, serial)


def test_an_address_where_no_scheduler_answers_is_one_sentence(space, monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr("simcore.planner.sweep_workers.CONNECT_TIMEOUT_S", 0.5)
    for address in ("tcp://127.0.0.1:9", "nowhere at all"):
        with pytest.raises(ScenarioError, match="no Dask scheduler answers") as caught:
            sweep(space, dask=address)
        assert "\n" not in str(caught.value)


def long_space(space):
    """Many more runs than are done before somebody is killed."""
    raw = space.model_copy(update={"seeds": 60}).model_dump(mode="json", by_alias=True)
    raw["scenario"]["workload"]["num_requests"] = 2000
    return parse_sweep(raw, "test")


def test_a_killed_worker_ends_the_sweep_in_words_and_keeps_what_is_done(
    space, tmp_path, monkeypatch
):
    monkeypatch.setattr("simcore.planner.sweep_workers._run_in_worker", die_of_the_last_seed)
    monkeypatch.setattr("simcore.planner.sweep_workers.MAX_CHUNK", 2)
    store = tmp_path / "runs.duckdb"
    with pytest.raises(WorkersError, match=r"was killed.*run again"):
        sweep(space, store=store, jobs=2)
    monkeypatch.undo()
    with RunStore(store) as kept:
        num_kept = len(kept)
    assert num_kept > 0
    resumed = sweep(space, store=store, jobs=2)  # new processes come for it
    assert (resumed.num_reused, resumed.num_simulated) == (num_kept, len(resumed.runs) - num_kept)


def die_of_the_last_seed(chunk):
    """The runs, in a process that the last seed kills as kill -9 does."""
    if max(run.scenario.seed for run in chunk) == LAST_SEED:
        os.kill(os.getpid(), signal.SIGKILL)
    return run_all(chunk)


@pytest.mark.parametrize("victims", [slice(0, 1), slice(1, 3)], ids=["scheduler", "workers"])
def test_a_lost_cluster_ends_the_sweep_in_words(space, tmp_path, monkeypatch, victims):
    from distributed import Client

    monkeypatch.setattr("simcore.planner.sweep_workers.NO_WORKER_TIMEOUT_S", 0.5)
    with cluster_in(tmp_path / "dask") as (address, ends):
        with Client(address, set_as_default=False) as client:
            client.wait_for_workers(2, timeout=PATIENCE_S)

        def kill(done, total):
            for each in ends[victims] if done >= 40 else []:
                each.kill()

        with pytest.raises(WorkersError, match="was lost, or its workers were"):
            sweep(long_space(space), store=tmp_path / "runs.duckdb", dask=address, progress=kill)
    with RunStore(tmp_path / "runs.duckdb") as kept:
        assert len(kept) >= 40


@pytest.mark.parametrize("jobs", [1, 2])
def test_kill_9_in_the_middle_loses_nothing_and_the_next_sweep_repeats_nothing(
    jobs, space, tmp_path
):
    raw = space.model_copy(update={"seeds": 60}).model_dump(mode="json", by_alias=True)
    raw["scenario"]["workload"]["num_requests"] = 2000
    store = tmp_path / "runs.duckdb"
    (tmp_path / "sweep.yaml").write_text(yaml.safe_dump(raw))
    done, total = killed_sweep(tmp_path / "sweep.yaml", store, jobs, after=40)
    assert 40 <= done < total
    with RunStore(store) as kept:
        num_kept = len(kept)
    assert done <= num_kept < total
    # As many seeds as were begun; the first ones of them are there.
    shorter = parse_sweep({**raw, "seeds": num_kept // 6 + 1}, "test")
    resumed = sweep(shorter, store=store, jobs=1)
    assert resumed.num_reused + resumed.num_simulated == len(resumed.runs)
    assert resumed.num_reused > 0
    with RunStore(store) as kept:
        assert len(kept) == num_kept + resumed.num_simulated
    again = sweep(shorter, store=store, jobs=1)
    assert (again.num_simulated, again.num_reused) == (0, len(again.runs))
    assert_identical(again, resumed)


def killed_sweep(space_file, store, jobs, after):
    """Runs done and asked for, as last reported by a sweep killed with signal 9.

    Returns once its workers are gone too: they hold the pipe that it wrote to.
    """
    process = subprocess.Popen(
        [sys.executable, "-c", LONG_SWEEP, str(space_file), str(store), str(jobs)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    reported = (0, 0)
    for line in process.stdout:
        reported = tuple(map(int, line.split()))
        if reported[0] >= after:
            break
    process.kill()
    assert process.wait(timeout=PATIENCE_S) == -signal.SIGKILL
    os.set_blocking(process.stdout.fileno(), False)
    wait_for(lambda: has_ended(process.stdout))
    process.stdout.close()
    return reported


def has_ended(pipe):
    try:
        return os.read(pipe.fileno(), 1 << 16) == b""
    except BlockingIOError:
        return False
