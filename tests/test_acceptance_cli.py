"""`specplan acceptance`: one JSON object, or a table; one sentence for bad input."""

import json
import sys

import pytest

from simcore import cli
from tests.acceptance.recordings import text_of_two_kinds


@pytest.fixture
def specplan(monkeypatch, capsys):
    """Run the command line in this process: (exit code, stdout, stderr)."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["specplan", "acceptance", *map(str, arguments)])
        with pytest.raises(SystemExit) as stopped:
            cli.main()
        captured = capsys.readouterr()
        return stopped.value.code or 0, captured.out, captured.err

    return run


@pytest.fixture
def recording(tmp_path):
    """A file of recorded lists, by seed."""

    def write(seed, **options):
        path = tmp_path / f"{seed}.jsonl"
        lists = text_of_two_kinds(30, 80, seed, **options).accepted
        path.write_text(
            "\n".join(json.dumps({"accepted": each.tolist()}) for each in lists), encoding="utf-8"
        )
        return path

    return write


def test_show_prints_one_json_object_by_draft_length(specplan, recording):
    code, out, _ = specplan("show", recording(1), "--gammas", "1,3", "--json")
    found = json.loads(out)
    assert code == 0
    assert list(found) == ["gammas", "num_requests"]
    assert list(found["gammas"]) == ["1", "3"]
    assert found["num_requests"] == 30
    three = found["gammas"]["3"]
    assert len(three["survival"]) == len(three["conditional"]) == 3
    assert {
        "mean_emitted_tokens",
        "survival_counted",
        "iid_mean_emitted_tokens",
        "lag1_correlation",
        "request_sd",
    } <= set(three)


def test_show_says_in_a_sentence_what_one_rate_gets_wrong(specplan, recording):
    code, out, _ = specplan("show", recording(1, spread=0.8), "--gammas", "5")
    assert code == 0
    assert "γ = 5: one α =" in out
    assert "of the spread between requests" in out


def test_fit_prints_parameters_and_the_errors_of_every_model(specplan, recording):
    options = ("--gamma", "3", "--resamples", "2", "--gammas", "1,3")
    code, out, _ = specplan("fit", recording(1), "--test", recording(2), *options, "--json")
    found = json.loads(out)
    assert code == 0
    assert len(found["heterogeneous"]["parameters"]) <= 12
    assert set(found["errors"]["3"]) == {"iid", "positional", "heterogeneous", "trace"}
    assert set(found["errors"]["3"]["iid"]["request_sd"]) >= {"absolute", "relative"}
    code, out, _ = specplan("fit", recording(1), *options)
    assert code == 0
    assert "depth_decay" in out


def test_drift_names_the_positions_and_the_draft_length(specplan, recording):
    first, second = recording(1), recording(2, easy=0.5)
    code, out, _ = specplan("drift", first, second, "--gammas", "3")
    assert code == 0
    assert "draft 3" in out
    assert "is best for" in out
    code, out, _ = specplan("drift", first, second, "--gammas", "3", "--json")
    assert list(json.loads(out)["gammas"]) == ["3"]


@pytest.fixture
def cycles(tmp_path):
    """A file of cycles as they ran at γ 2 and 6."""
    path = tmp_path / "cycles.jsonl"
    rows = [{"acc": [gamma, 0, 1, 2, 0, 0, 1] * 6, "gamma": gamma} for gamma in (2, 6)] * 9
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return path


def test_cycles_are_shown_at_the_draft_lengths_that_they_ran_at(specplan, cycles):
    code, out, _ = specplan("show", cycles, "--per", "cycle", "--json")
    assert code == 0
    assert list(json.loads(out)["gammas"]) == ["2", "6"]


def test_drift_of_cycles_is_at_the_draft_lengths_that_both_ran_at(specplan, cycles):
    code, out, _ = specplan("drift", cycles, cycles, "--per", "cycle", "--json")
    assert code == 0
    assert list(json.loads(out)["gammas"]) == ["2", "6"]


def test_a_fit_is_not_tested_on_cycles_of_no_draft_length_that_was_asked_for(specplan, cycles):
    fit = ("fit", cycles, "--test", cycles, "--per", "cycle", "--gamma", "2", "--resamples", "0")
    code, _, err = specplan(*fit, "--gammas", "3")
    assert code == 2
    assert "recorded at γ [2, 6]" in err
    code, out, _ = specplan(*fit, "--json")
    assert code == 0
    assert list(json.loads(out)["errors"]) == ["2", "6"]


def test_drift_compares_two_domains_of_one_profile(specplan, recorded_profile):
    table = recorded_profile.folder / "traces.parquet"
    options = ("--gammas", "3", "--record", "0", "--json")
    _, same, _ = specplan("drift", table, table, *options)
    code, out, _ = specplan("drift", table, table, *options, "--second-record", "1")
    assert code == 0
    changes = [json.loads(each)["gammas"]["3"]["mean_emitted_tokens"] for each in (same, out)]
    assert changes[0]["change"] == 0.0
    assert changes[1]["a"] == changes[0]["a"]
    assert changes[1]["change"] != 0.0


def test_a_p_value_below_its_digits_is_said_to_be_below(specplan, recording):
    code, out, _ = specplan("drift", recording(1), recording(2, easy=0.3), "--gammas", "3")
    assert code == 0
    assert "p < 0.001: moved" in out
    assert "p = 0.000" not in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--gammas", "1,x"), "draft lengths with commas"),
        (("--gammas", "0"), "expected 1 to"),
        (("--column", "no"), "no column"),
        (("--start", "5000"), "past position"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_two(specplan, recording, arguments, message):
    code, out, err = specplan("show", recording(1), *arguments)
    assert (code, out) == (2, "")
    assert err.startswith("specplan: ")
    assert err.count("\n") == 1
    assert message in err
