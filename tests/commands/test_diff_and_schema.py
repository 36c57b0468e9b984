"""specplan diff and specplan schema on the command line."""

import json
import sys

import pytest

from simcore import cli, read_plan
from simcore.planner.plan import make_plan
from simcore.planner.plan_diff import PlanDiff
from simcore.planner.published_schema import published_schema
from simcore.report.write import write_report
from simcore.scenario import dump_scenario
from tests.factories import make_scenario


@pytest.fixture
def specplan(monkeypatch, capsys):
    """Run the command line in this process: (exit code, stdout, stderr)."""

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["specplan", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        captured = capsys.readouterr()
        return int(ended.value.code or 0), captured.out, captured.err

    return run


@pytest.fixture(scope="module")
def folders(recorded_profile, tmp_path_factory):
    """Two plans' folders, of two seeds."""
    root = tmp_path_factory.mktemp("plans")
    for seed in (1, 2):
        small = {"workload.num_requests": 30, "speculation.proposer": "ngram", "seed": seed}
        scenario = make_scenario(recorded_profile, **small)
        made = make_plan(scenario, stored=recorded_profile, num_replications=2)
        write_report(made, root / str(seed))
    return root / "1", root / "2"


def test_a_plan_in_its_folder_and_its_file_are_the_same(specplan, folders):
    code, out, err = specplan("diff", folders[0], folders[0] / "plan.json")
    assert (code, err) == (0, "")
    assert "No difference." in out


def test_the_text_names_what_was_asked_and_what_came_out(specplan, folders):
    code, out, _ = specplan("diff", *folders)
    assert code == 0
    assert "scenario.seed  1  2" in out
    assert "speed-up of mean E2E (95 % interval)" in out


def test_json_is_one_object_that_reads_back(specplan, folders):
    code, out, _ = specplan("diff", *folders, "--json")
    assert code == 0
    found = PlanDiff.model_validate(json.loads(out))
    assert [each.field for each in found.inputs] == ["scenario.seed"]


def test_a_plan_and_a_scenario_are_compared_in_what_is_asked(specplan, folders, tmp_path):
    records = tmp_path / "records"  # as `specplan simulate --output` leaves it
    records.mkdir()
    scenario = read_plan(folders[0]).scenario
    (records / "scenario.yaml").write_text(dump_scenario(scenario.with_(seed=9)))
    code, out, _ = specplan("diff", folders[0], records, "--json")
    found = PlanDiff.model_validate(json.loads(out))
    assert code == 0
    assert [(each.field, each.b) for each in found.inputs] == [("scenario.seed", 9)]
    assert not found.has_results


def test_two_bundled_scenarios_are_compared_by_name(specplan):
    code, out, _ = specplan("diff", "h100_chat", "reasoning")
    assert code == 0
    assert "scenario.workload.arrivals.rate_per_s" in out


@pytest.mark.parametrize("name", ["nobody", "plan.json", "."])
def test_what_is_no_plan_and_no_scenario_is_one_sentence(specplan, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    code, out, err = specplan("diff", name, "h100_chat")
    assert (code, out) == (2, "")
    assert err.startswith("specplan: ")
    assert err.count("\n") == 1


@pytest.mark.parametrize("kind", ["plan", "scenario", "profile"])
def test_schema_prints_the_published_one(specplan, kind):
    code, out, _ = specplan("schema", kind)
    assert code == 0
    assert json.loads(out) == published_schema(kind)


def test_schema_of_something_else_is_refused(specplan):
    code, out, err = specplan("schema", "cake")
    assert (code, out) == (2, "")
    assert "cake" in err
