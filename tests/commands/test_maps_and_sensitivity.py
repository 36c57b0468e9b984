"""specplan map, sensitivity and uncertainty on the command line."""

import json
import sys

import pytest

from simcore import cli
from simcore.planner.crossover_document import CrossoverMap
from simcore.planner.sensitivity_document import Sensitivity
from simcore.planner.uncertainty import Uncertainty
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
def small(recorded_profile, tmp_path_factory):
    """A scenario file on an invented profile."""
    asked = {
        "speculation.proposer": "draft_model",
        "workload.num_requests": 40,
        "workload.arrivals.rate_per_s": 0.5,
    }
    path = tmp_path_factory.mktemp("small") / "small.yaml"
    path.write_text(dump_scenario(make_scenario(recorded_profile, **asked)), encoding="utf-8")
    return path


@pytest.mark.parametrize("kind", ["load_gamma", "batch_acceptance", "context_gamma", "budget_load"])
def test_every_kind_of_map_is_one_json_object_that_reads_back(specplan, small, kind):
    code, out, err = specplan("map", small, "--kind", kind, "--columns", 3, "--json")
    assert (code, err) == (0, "")
    found = CrossoverMap.model_validate(json.loads(out))
    assert found.kind == kind
    assert len(found.cells) == len(found.y.values)


def test_the_text_of_a_map_says_what_it_is_and_the_page_holds_it_offline(specplan, small, tmp_path):
    page = tmp_path / "map.html"
    code, out, _ = specplan("map", small, "--columns", 4, "--output", page)
    assert code == 0
    assert "Speed-up mean E2E off / on, draft_model, closed form" in out
    assert "profile recorded (measured)" in out
    text = page.read_text(encoding="utf-8")
    assert "https://cdn" not in text.split("</script>")[-1]
    assert "measured domain" in text


@pytest.mark.parametrize("command", ["map", "sensitivity"])
@pytest.mark.parametrize("name", ["map.png", "missing/map.html"])
def test_a_picture_that_cannot_be_written_is_refused_before_the_work(
    specplan, small, tmp_path, command, name
):
    code, out, err = specplan(command, small, "--output", tmp_path / name)
    assert (code, out) == (2, "")
    assert err.startswith("specplan: --output")
    assert not (tmp_path / name).exists()


def test_a_proposer_that_the_profile_lacks_is_one_sentence(specplan, small):
    for command in ("map", "sensitivity", "uncertainty"):
        code, out, err = specplan(command, small, "--proposer", "medusa")
        assert (code, out) == (2, "")
        assert "has no proposer 'medusa'" in err
        assert len(err.splitlines()) == 1


def test_a_sensitivity_is_text_json_and_a_page(specplan, small, tmp_path):
    page = tmp_path / "tornado.html"
    code, out, _ = specplan("sensitivity", small, "--seeds", 0, "--output", page)
    assert code == 0
    assert "against off: speed-up of mean E2E" in out
    assert "no flip within" in out or "flips at" in out
    assert page.is_file()
    code, out, _ = specplan("sensitivity", small, "--seeds", 0, "--json")
    assert code == 0
    assert Sensitivity.model_validate(json.loads(out)).effects


def test_an_uncertainty_is_text_and_json(specplan, small):
    code, out, _ = specplan("uncertainty", small, "--replications", 3)
    assert code == 0
    assert "Next: " in out
    assert "95 % interval" in out
    code, out, _ = specplan("uncertainty", small, "--replications", 3, "--json")
    assert code == 0
    assert Uncertainty.model_validate(json.loads(out)).headlines
