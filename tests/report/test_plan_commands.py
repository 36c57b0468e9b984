"""specplan settings, alerts, load-test: a plan in, text out, one sentence for bad input."""

import json
import sys

import pytest
import yaml

from simcore import cli
from simcore.planner.plan_file import read_plan
from simcore.report.write import render_files, write_report
from tests.report.test_engine_limits import TABLE, asked


@pytest.fixture
def specplan(monkeypatch, capsys):
    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["specplan", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        captured = capsys.readouterr()
        return int(ended.value.code or 0), captured.out, captured.err

    return run


@pytest.fixture
def plan_file(plan, tmp_path):
    path = tmp_path / "plan.json"
    path.write_text(plan.model_dump_json())
    return path


def test_a_plan_is_read_from_its_file_and_from_its_folder(plan, plan_file):
    assert read_plan(plan_file) == read_plan(plan_file.parent) == plan


def test_settings_prints_one_json_object_with_its_files(specplan, plan_file):
    code, out, _ = specplan("settings", plan_file, "--engine", "tensorrt_llm", "--json")
    assert code == 0
    found = json.loads(out)
    assert found["refusal"] is None
    assert yaml.safe_load(found["files"]["tensorrt_llm.yaml"])["max_batch_size"] == 64


def test_settings_of_a_version_say_what_it_cannot(specplan, plan, tmp_path):
    own = asked(plan, policy=TABLE)
    (tmp_path / "plan.json").write_text(own.model_dump_json())
    code, out, _ = specplan("settings", tmp_path, "--engine-version", "0.22")
    assert code == 0
    assert "Refused: vLLM takes" in out
    assert "The nearest:" in out


def test_alerts_prints_the_folders_rule_file(specplan, plan_file, plan):
    code, out, _ = specplan("alerts", plan_file, "--engine", "sglang")
    assert code == 0
    assert out == render_files(plan)["alerts.sglang.yaml"]


def test_load_test_prints_the_folders_script(specplan, plan_file, plan):
    code, out, _ = specplan("load-test", plan_file, "--script")
    assert code == 0
    assert out == render_files(plan)["load_test.sh"]
    code, out, told = specplan("load-test", plan_file.parent, "--dataset", "mine.jsonl")
    assert code == 0
    assert "no file 'mine.jsonl' here" in told
    assert "--dataset-path mine.jsonl" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("alerts", "{plan}", "--engine", "tgi"), "expected vllm or sglang"),
        (("settings", "{plan}", "--engine", "tgi"), "expected one of vllm"),
        (("settings", "{plan}", "--engine-version", "0.1"), "0.21 and later"),
        (("alerts", "{folder}/nowhere"), "cannot read"),
        (("load-test", "{folder}/damaged.json"), "cannot read"),
        (("load-test", "{folder}/other.json"), "holds no plan"),
        (("load-test", "{plan}", "--base-url", "javascript:x"), "expected where the service"),
        (("settings", "{folder}/stranger.json"), "its profile names"),
        (("alerts", "{folder}/unheard.json"), "holds no such candidate"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(specplan, plan_file, arguments, message):
    folder = plan_file.parent
    (folder / "damaged.json").write_text('{"origin":')
    (folder / "other.json").write_text("{}")
    for name, change in (
        ("stranger", {"proposer": "nobody"}),
        ("unheard", {"num_speculative_tokens": 60}),
    ):
        raw = json.loads(plan_file.read_text())
        raw["decision"] |= change
        (folder / f"{name}.json").write_text(json.dumps(raw))
    given = (str(each).format(plan=plan_file, folder=folder) for each in arguments)
    code, out, err = specplan(*given)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


def test_a_policys_file_lies_beside_the_report_and_is_replaced_with_it(plan, tmp_path):
    folder = tmp_path / "plan"
    # Deciding for the scenario's own proposer, so that the report finds its candidates.
    table = {"kind": "batch_size_table", "table": [[1, 8, 3], [9, 64, 0]]}
    changes = {"speculation.num_speculative_tokens": 3, "speculation.policy": table}
    scenario = plan.scenario.with_(**changes)
    own = plan.model_copy(update={"scenario": scenario, "recommendation": None})
    write_report(own, folder)
    tiers = json.loads((folder / "sglang_adaptive.json").read_text())
    assert tiers == {"1": {"candidate_steps": [3]}, "9": {"candidate_steps": [0]}}
    write_report(plan, folder)
    assert not (folder / "sglang_adaptive.json").exists()
