"""specplan capacity: one JSON object, a table, a sentence for bad input."""

import json
import sys

import pytest

from simcore import cli
from simcore.planner.capacity_document import Capacity, ReplicaPlan
from simcore.scenario import dump_scenario
from tests.factories import make_scenario

SMALL = ("--seeds", "2", "--num-speculative-tokens", "2")


@pytest.fixture
def specplan(monkeypatch, capsys):
    """Run the command line in this process: (exit code, stdout, stderr)."""

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["specplan", "capacity", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        captured = capsys.readouterr()
        return int(ended.value.code or 0), captured.out, captured.err

    return run


@pytest.fixture
def scenario_file(recorded_profile, tmp_path):
    """A small scenario with an SLO, changed by dotted keys."""

    def write(**changes):
        small = {
            "slo.ttft_s": 0.5,
            "slo.goodput_fraction": 0.8,
            "speculation.proposer": "draft_model",
            "deployment.max_num_seqs": 4,
        }
        path = tmp_path / "scenario.yaml"
        path.write_text(dump_scenario(make_scenario(recorded_profile, **{**small, **changes})))
        return str(path)

    return write


def test_json_holds_off_and_on_with_rate_and_interval_and_no_replicas_unasked(
    specplan, scenario_file
):
    code, out, err = specplan(scenario_file(), *SMALL, "--json")
    assert (code, err) == (0, "")
    document = json.loads(out)
    for name in ("off", "on"):
        low, high = document[name]["interval"]
        assert 0.0 < low <= document[name]["max_rate_per_s"] <= high
    assert document.pop("replicas") is None
    Capacity.model_validate_json(json.dumps(document))


def test_json_holds_the_replicas_that_were_asked_for(specplan, scenario_file):
    code, out, _ = specplan(scenario_file(), *SMALL, "--replicas-for", "8", "--json")
    assert code == 0
    plan = ReplicaPlan.model_validate_json(json.dumps(json.loads(out)["replicas"]))
    assert plan.rate_per_s == 8.0
    assert plan.off.replicas >= 1


def test_a_person_reads_both_services_the_gain_and_what_it_takes(specplan, scenario_file):
    code, out, _ = specplan(
        scenario_file(), *SMALL, "--price-per-gpu-hour", "2.5", "--daily", "example"
    )
    assert code == 0
    for words in (
        "TTFT at most 500 ms; 80 % of the requests meet every limit",
        "draft_model γ=2",
        "largest rate",
        "USD (given)",
        "not stated",
        "times the load",
        "draft KV",
        "Fewest replicas for the day of example (an invented example",
        "device-hours a day, scaled hourly",
    ):
        assert words in " ".join(out.split()), words


@pytest.mark.parametrize(
    ("changes", "arguments", "message"),
    [
        ({"slo": {}}, (), "has no SLO"),
        ({"workload.arrivals": {"kind": "batch"}}, (), "come all at once"),
        ({}, ("--replicas-for", "-3"), "rate -3 requests/s"),
        ({}, ("--replicas-for", "nan"), "rate nan requests/s"),
        ({}, ("--daily", "nowhere.csv"), "cannot read nowhere.csv"),
        ({}, ("--daily", "nowhere.csv", "--replicas-for", "3"), "states its rates"),
        ({}, ("--price-per-gpu-hour", "nan"), "price_usd_per_hour"),
        ({}, ("--power-w", "inf"), "power_w"),
        ({}, ("--proposer", "medusa"), "no proposer 'medusa'"),
        ({}, ("--num-speculative-tokens", "9"), "9"),
    ],
)
def test_bad_input_is_one_sentence(specplan, scenario_file, changes, arguments, message):
    code, out, err = specplan(scenario_file(**changes), "--seeds", "2", *arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert err.startswith("specplan: ")
    assert err.count("\n") == 1
