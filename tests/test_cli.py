"""The command line: one JSON object, one sentence for bad input, nothing half written."""

import json
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
import yaml

from simcore import cli
from simcore.planner.comparison import Comparison
from simcore.planner.document import Plan
from simcore.scenario import dump_scenario
from tests.factories import make_scenario

FILES = {
    "report.html",
    "report.md",
    "plan.json",
    "candidates.csv",
    "candidates.parquet",
    "load_curve.csv",
    "load_curve.parquet",
    "ways.csv",
    "ways.parquet",
    "scenario.yaml",
    "vllm.sh",
    "sglang.sh",
    "tensorrt_llm.sh",
    "tensorrt_llm.yaml",
    "llama_cpp.sh",
    "alerts.vllm.yaml",
    "alerts.sglang.yaml",
    "load_test.sh",
}


@pytest.fixture
def specplan(monkeypatch, capsys):
    """Run the command line in this process: (exit code, stdout, stderr)."""

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["specplan", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        captured = capsys.readouterr()
        return int(ended.value.code or 0), captured.out, captured.err

    return run


@pytest.fixture
def scenario_file(recorded_profile, tmp_path):
    """A scenario file, changed by dotted keys before it is written."""

    def write(**changes):
        small = {"workload.num_requests": 40, "speculation.proposer": "draft_model"}
        scenario = make_scenario(recorded_profile, **small)
        raw = yaml.safe_load(dump_scenario(scenario))
        for dotted, value in changes.items():
            *path, last = dotted.split(".")
            section = raw
            for part in path:
                section = section[part]
            section[last] = value
        path = tmp_path / "scenario.yaml"
        path.write_text(yaml.safe_dump(raw))
        return str(path)

    return write


def test_plan_prints_one_json_object_and_writes_every_file(specplan, scenario_file, tmp_path):
    code, out, err = specplan(
        "plan", scenario_file(), "--output", str(tmp_path / "out"), "--replications", "2", "--json"
    )
    assert code == 0
    found = json.loads(out)
    assert found["profile"]["source"] == "measured"
    assert found["decision"]["choice"] in {"off", "speculate"}
    assert len(found["speedup"]["interval"]) == 2
    assert "break_even" in found
    assert {path.name for path in (tmp_path / "out").iterdir()} == FILES
    written = json.loads((tmp_path / "out" / "plan.json").read_text())
    assert written == {key: value for key, value in found.items() if key != "files"}
    Plan.model_validate_json((tmp_path / "out" / "plan.json").read_text())
    assert "Traceback" not in err


def test_the_written_scenario_gives_the_same_plan_again(specplan, scenario_file, tmp_path):
    arguments = ("--replications", "2", "--json")
    first = specplan("plan", scenario_file(), "--output", str(tmp_path / "a"), *arguments)
    again = specplan(
        "plan", str(tmp_path / "a" / "scenario.yaml"), "--output", str(tmp_path / "b"), *arguments
    )
    one, two = json.loads(first[1]), json.loads(again[1])
    for each in (one, two):
        each.pop("files")
    assert one == two


def test_plan_tells_a_person_the_decision_and_its_interval(specplan, scenario_file):
    code, out, _ = specplan("plan", scenario_file(), "--replications", "2")
    assert code == 0
    assert out.startswith("Decision: ")
    assert "95 % interval" in out
    assert "greedy_equality" in out


def test_simulate_prints_a_summary_and_its_origin(specplan, scenario_file, tmp_path):
    code, out, _ = specplan("simulate", scenario_file(), "--json", "--output", str(tmp_path / "o"))
    assert code == 0
    found = json.loads(out)
    assert found["num_requests"]["finished"] == 40
    assert found["origin"]["seed"] == 3
    assert found["origin"]["profile_source"] == "measured"
    assert {path.name for path in (tmp_path / "o").iterdir()} == {
        "requests.csv",
        "steps.csv",
        "policy_changes.csv",
        "scenario.yaml",
    }


def test_single_cycles_are_written_where_asked_and_sum_to_the_requests(
    specplan, scenario_file, tmp_path
):
    folder = tmp_path / "o"
    code, _, _ = specplan("simulate", scenario_file(), "--cycles", "--output", str(folder))
    assert code == 0
    cycles, requests = (pd.read_csv(folder / f"{name}.csv") for name in ("cycles", "requests"))
    counted = cycles.groupby("request").size()
    assert (requests["num_cycles"] == counted.reindex(requests["request"]).fillna(0)).all()
    histogram = requests.filter(like="cycles_accepting_")
    assert (histogram.sum(axis=1) == requests["num_cycles"]).all()
    code, _, error = specplan("simulate", scenario_file(), "--cycles")
    assert code == 2
    assert "--output" in error


def test_simulate_over_seeds_prints_every_metric_with_its_interval(
    specplan, scenario_file, tmp_path
):
    folder = tmp_path / "o"
    arguments = ("simulate", scenario_file(), "--seeds", "3", "--output", str(folder))
    code, out, _ = specplan(*arguments, "--json")
    assert code == 0
    found = json.loads(out)
    assert found["seeds"] == [3, 4, 5]
    p95 = found["metrics"]["ttft.p95_s"]
    assert p95["low"] < p95["mean"] < p95["high"]
    assert (p95["num_seeds"], len(p95["values"])) == (3, 3)
    assert {path.name for path in folder.iterdir()} == {"seed_3", "seed_4", "seed_5"}
    for seed in found["seeds"]:
        written = yaml.safe_load((folder / f"seed_{seed}" / "scenario.yaml").read_text())
        assert written["seed"] == seed
        assert (folder / f"seed_{seed}" / "requests.csv").exists()
    code, out, _ = specplan(*arguments)
    assert code == 0
    assert "95 % interval" in out
    assert "rejected share" in out
    assert "seed_3, seed_4, seed_5" in out


@pytest.mark.parametrize("seeds", ["1", "2"])
def test_records_never_replace_what_is_not_theirs(specplan, scenario_file, tmp_path, seeds):
    folder = tmp_path / "records"
    arguments = ("simulate", scenario_file(), "--seeds", seeds, "--output", str(folder))
    assert specplan(*arguments)[0] == 0
    assert specplan(*arguments)[0] == 0  # its own records it does replace
    inside = folder if seeds == "1" else folder / "seed_3"
    (inside / "thesis.txt").write_text("do not lose me")
    code, out, err = specplan(*arguments)
    assert (code, out) == (2, "")
    assert "thesis.txt" in err
    assert (inside / "thesis.txt").read_text() == "do not lose me"


@pytest.mark.parametrize("seeds", ["1", "2"])
def test_a_folder_that_cannot_be_made_is_one_sentence(specplan, scenario_file, tmp_path, seeds):
    (tmp_path / "file").write_text("kept")
    code, out, err = specplan(
        "simulate", scenario_file(), "--json", "--seeds", seeds, "-o", f"{tmp_path}/file/records"
    )
    assert (code, out) == (2, "")
    assert "cannot write" in err
    assert "Traceback" not in err
    assert (tmp_path / "file").read_text() == "kept"


def test_a_failed_run_over_seeds_leaves_no_folder(specplan, scenario_file, tmp_path):
    folder = tmp_path / "records"
    path = scenario_file(seed=2**63 - 1)  # the second seed lies outside
    code, out, err = specplan("simulate", path, "--seeds", "2", "--output", str(folder))
    assert (code, out) == (2, "")
    assert "seed" in err
    assert not folder.exists()


def test_compare_prints_services_differences_and_their_intervals(specplan, scenario_file):
    arguments = ("compare", scenario_file(), "--gammas", "0,2,4", "--seeds", "3")
    code, out, _ = specplan(*arguments, "--json")
    assert code == 0
    found = Comparison.model_validate_json(out)
    assert [each.label for each in found.services] == ["off", "draft_model γ=2", "draft_model γ=4"]
    assert found.seeds == (3, 4, 5)
    code, out, _ = specplan(*arguments)
    assert code == 0
    for service in found.services[1:]:
        assert f"{service.label} against off:" in out
        (e2e,) = [each for each in service.differences if each.metric == "e2e.mean_s"]
        assert e2e.sentence in out


def test_compare_takes_several_scenario_files_and_the_first_is_the_reference(
    specplan, scenario_file, tmp_path
):
    paths = []
    for seats in (8, 1):
        path = tmp_path / f"seats_{seats}.yaml"
        path.write_text(Path(scenario_file(**{"deployment.max_num_seqs": seats})).read_text())
        paths.append(str(path))
    code, out, _ = specplan(
        "compare", *paths, "--at", "admitted", "--rate", "50", "--seeds", "2", "--json"
    )
    assert code == 0
    found = Comparison.model_validate_json(out)
    assert [each.label for each in found.services] == ["1: test", "2: test"]
    assert (found.at, found.rate_per_s) == ("admitted", 50.0)
    assert all("cannot serve 50 requests/s" in each.note for each in found.services)
    code, out, _ = specplan("compare", *paths, "--at", "admitted", "--rate", "50", "--seeds", "2")
    assert code == 0
    assert "not compared: one of them does not serve this rate" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "expected two or more"),
        (("h100_chat",), "differ in workload"),
        (("--gammas", "2;3"), "expected draft lengths with commas"),
        (("--gammas", "0,9"), "measured"),
        (("--gammas", "0,2", "--proposer", "medusa"), "no proposer 'medusa'"),
        (("--proposer", "ngram"), "--proposer goes with --gammas"),
        (("h100_chat", "--gammas", "0,2"), "--gammas varies one scenario"),
        (("--gammas", "0,2", "--rate", "-1"), "expected more than 0"),
    ],
)
def test_a_comparison_that_cannot_be_made_is_one_sentence(
    specplan, scenario_file, arguments, message
):
    code, out, err = specplan("compare", scenario_file(), *arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert err.startswith("specplan: ")
    assert err.count("\n") == 1


def test_profiles_lists_what_is_bundled(specplan):
    code, out, _ = specplan("profiles", "--json")
    assert code == 0
    assert "llama31_8b_h100" in {each["name"] for each in json.loads(out)["profiles"]}


BAD = {
    "unknown field": ({"workload.speed": 3}, "unknown field"),
    "negative rate": ({"workload.arrivals.rate_per_s": -1.0}, "greater than"),
    "enormous rate": ({"workload.arrivals.rate_per_s": 1e300}, "less than"),
    "vanishing rate": ({"workload.arrivals.rate_per_s": 1e-300}, "greater than"),
    "NaN rate": ({"workload.arrivals.rate_per_s": float("nan")}, "rate_per_s"),
    "γ beyond the profile": ({"speculation.num_speculative_tokens": 9}, "measured"),
    "another schema version": ({"schema_version": 2}, "schema_version"),
    "another contract": ({"contract": "exact_sampling"}, "temperature"),
    "unmeasured sampling": (
        {"contract": "exact_sampling", "sampling.temperature": 0.7},
        "not measured under",
    ),
    "missing profile": ({"profile": "nowhere"}, "no profile 'nowhere'"),
    "unknown domain": ({"workload.domains": {"poetry": 1.0}}, "poetry"),
    "no requests": ({"workload.num_requests": 0}, "num_requests"),
    "wrong type": ({"deployment": 3}, "deployment"),
}


@pytest.mark.parametrize(("changes", "message"), BAD.values(), ids=BAD)
@pytest.mark.parametrize("command", ["plan", "simulate"])
def test_bad_input_is_one_sentence_exit_code_two_and_no_file(
    specplan, scenario_file, tmp_path, command, changes, message
):
    folder = tmp_path / "out"
    code, out, err = specplan(command, scenario_file(**changes), "--output", str(folder))
    assert code == 2
    assert out == ""
    assert message in err
    assert err.startswith("specplan: ")
    assert err.count("\n") == 1
    assert not folder.exists()


@pytest.mark.parametrize("content", ["", "a: [1, 2", "- just\n- a list", "\x00\x01", "{}"])
def test_a_file_that_is_no_scenario_is_refused(specplan, tmp_path, content):
    path = tmp_path / "broken.yaml"
    path.write_text(content)
    code, out, err = specplan("plan", str(path))
    assert (code, out) == (2, "")
    assert err.count("\n") == 1


def test_an_empty_scenario_is_called_an_empty_file(specplan, tmp_path):
    path = tmp_path / "scenario.yaml"
    path.write_text("# nothing yet\n")
    code, _, err = specplan("plan", str(path))
    assert code == 2
    assert "got an empty file; expected a mapping of sections" in err


def test_a_scenario_in_bytes_of_another_coding_is_refused(specplan, tmp_path):
    path = tmp_path / "latin.yaml"
    path.write_bytes("name: Überlast\n".encode("latin-1"))
    code, _, err = specplan("plan", str(path))
    assert code == 2
    assert "cannot read" in err


@pytest.mark.parametrize("command", ["plan", "estimate", "capacity", "sweep", "settings"])
def test_a_name_too_long_for_the_file_system_is_one_sentence(specplan, command):
    code, out, err = specplan(command, "x" * 300)
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1
    assert "name too long" in err


def test_a_folder_of_something_else_is_never_overwritten(specplan, scenario_file, tmp_path):
    folder = tmp_path / "precious"
    folder.mkdir()
    (folder / "thesis.txt").write_text("do not lose me")
    code, _, err = specplan("plan", scenario_file(), "--output", str(folder))
    assert code == 2
    assert "thesis" in err or "empty or new" in err
    assert [path.name for path in folder.iterdir()] == ["thesis.txt"]


def test_a_missing_scenario_names_the_bundled_ones(specplan):
    code, _, err = specplan("plan", "no-such-file.yaml")
    assert code == 2
    assert "h100_chat" in err


def test_the_installed_command_reports_its_version():
    run = subprocess.run(
        [sys.executable, "-c", "from simcore.cli import main; main()", "--version"],
        check=True,
        capture_output=True,
        text=True,
    )
    assert run.stdout.startswith("specplan ")
