"""The store of runs: keys that hold what decides a run, rows that stay, files that are others'."""

import json
import subprocess
import sys

import pytest

from simcore.errors import StoreError
from simcore.planner.run_key import run_key
from simcore.planner.run_store import RunStore
from simcore.planner.run_table import COLUMNS, METRICS
from simcore.planner.sweep_run import Run, run_row
from simcore.scenario import parse_scenario
from tests.factories import make_scenario


@pytest.fixture(scope="module")
def scenario(recorded_profile):
    return make_scenario(recorded_profile)


@pytest.fixture(scope="module")
def row(scenario, recorded_profile):
    sha256 = recorded_profile.content_hash
    return run_row(Run(run_key(scenario, sha256), scenario, sha256))


def test_a_key_follows_what_decides_a_run_and_no_name(scenario):
    key = run_key(scenario, "a")
    assert key == run_key(scenario.with_(name="other", profile="elsewhere"), "a")
    changes = (
        {"seed": 4},
        {"slo.ttft_s": 1.0},
        {"deployment.max_num_seqs": 4},
        {"workload.num_requests": 61},
        {"speculation.policy": {"kind": "goodput"}},
    )
    others = [run_key(scenario.with_(**change), "a") for change in changes]
    assert len({key, run_key(scenario, "b"), *others}) == 2 + len(others)


def test_a_recorded_file_counts_by_content_not_by_place(scenario, tmp_path):
    def key(name, text):
        path = tmp_path / name
        path.write_text(text)
        lengths = {"kind": "empirical", "path": str(path)}
        return run_key(scenario.with_(**{"workload.lengths": lengths}), "a")

    table = "prompt_tokens,output_tokens\n10,20\n"
    assert key("one.csv", table) == key("other.csv", table)
    assert key("one.csv", table) != key("third.csv", table + "11,20\n")


def test_a_row_holds_every_column_and_the_scenario_that_repeats_it(row, recorded_profile):
    assert list(row) == [column.name for column in COLUMNS]
    assert all("." not in name for name in METRICS)
    again = parse_scenario(json.loads(row["scenario"]), "the stored scenario")
    sha256 = recorded_profile.content_hash
    assert run_row(Run(run_key(again, sha256), again, sha256)) == row


def test_rows_come_back_bit_by_bit_in_the_order_asked_for(row, tmp_path):
    rows = [{**row, "key": key, "seed": seed} for seed, key in enumerate("cab")]
    path = tmp_path / "deep" / "runs.duckdb"
    with RunStore(path) as store:
        store.add(rows)
        store.add([{**rows[0], "seed": 99}])  # known already: the first stays
        assert len(store) == 3
        assert store.known(["a", "z"]) == {"a"}
    with RunStore(path) as store:
        found = store.rows(["b", "c"])
        store.export_parquet(tmp_path / "runs.parquet")
    assert found["seed"].tolist() == [2, 0]
    for name in METRICS:
        assert found[name][0] == row[name] or (found[name].isna()[0] and row[name] is None)
    import pandas as pd

    assert pd.read_parquet(tmp_path / "runs.parquet")["key"].tolist() == ["a", "b", "c"]


def test_a_store_in_use_is_one_clear_error_and_stays_whole(row, tmp_path):
    path = tmp_path / "runs.duckdb"
    program = (
        "import sys; from simcore.planner.run_store import RunStore; from pathlib import Path\n"
        "RunStore(Path(sys.argv[1]))"
    )
    with RunStore(path) as store:
        store.add([row])
        run = subprocess.run(
            [sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=False
        )
        assert run.returncode == 1
        assert "StoreError" in run.stderr
        assert "in use by another process" in run.stderr
    with RunStore(path) as store:
        assert len(store) == 1


@pytest.mark.parametrize("damaged", ["header", "first block", "middle"])
def test_a_damaged_store_is_one_sentence_and_not_said_to_be_in_use(row, tmp_path, damaged):
    path = tmp_path / "runs.duckdb"
    rows = [{**row, "key": f"{number:064x}"} for number in range(3000)]
    with RunStore(path) as store:
        store.add(rows)
    content = bytearray(path.read_bytes())
    place = {"header": 4096, "first block": 12288, "middle": len(content) // 2}[damaged]
    content[place + 100 : place + 108] = b"\xa5" * 8
    path.write_bytes(content)

    def read():
        with RunStore(path) as store:
            store.known([each["key"] for each in rows])
            store.rows([each["key"] for each in rows])

    with pytest.raises(StoreError) as caught:
        read()
    assert str(caught.value).startswith("cannot read" if damaged == "middle" else "cannot open")
    assert "\n" not in str(caught.value)


def test_files_that_hold_something_else_are_refused(tmp_path):
    import duckdb

    text = tmp_path / "text"
    text.write_text("no database " * 1000)
    with pytest.raises(StoreError, match="expected a store of runs"):
        RunStore(text)
    other = tmp_path / "other.duckdb"
    with duckdb.connect(str(other)) as connection:
        connection.execute("CREATE TABLE runs (key VARCHAR)")
    with pytest.raises(StoreError, match="other tables or columns"):
        RunStore(other)
    with pytest.raises(StoreError, match="cannot"):
        RunStore(text / "inside" / "runs.duckdb")


class _Interrupted:
    """What DuckDB's connection does when Ctrl-C comes during a statement."""

    def register(self, *_):
        raise RuntimeError("Query interrupted")


def test_ctrl_c_in_the_midst_of_a_statement_is_an_interrupt_and_no_other_error(row, monkeypatch):
    with RunStore() as store:
        with monkeypatch.context() as during:
            during.setattr(store, "_connection", _Interrupted())
            with pytest.raises(KeyboardInterrupt):
                store.add([row])
        store.add([row])
        assert len(store) == 1
