"""specplan estimate: a table for people, one JSON object for programs, errors in a sentence."""

import json
import sys

import pytest

from simcore import cli


@pytest.fixture
def estimate(monkeypatch, capsys):
    """Run `specplan estimate`: (exit code, stdout, stderr)."""

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["specplan", "estimate", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        captured = capsys.readouterr()
        return int(ended.value.code or 0), captured.out, captured.err

    return run


def test_off_comes_first_and_every_measured_length_follows(estimate):
    code, out, _ = estimate("h100_chat", "--json")
    assert code == 0
    labels = [row["label"] for row in json.loads(out)["rows"]]
    assert labels == ["off", *(f"eagle γ={gamma}" for gamma in (1, 3, 5, 7)), "ngram γ=3"]


def test_a_policy_of_the_scenario_has_a_row_of_its_own(estimate):
    _, out, _ = estimate("burst", "--json")
    rows = {row["label"]: row["estimate"] for row in json.loads(out)["rows"]}
    assert rows["as stated"]["num_speculative_tokens"] == 3
    # Few drafts in a full batch: it carries what off carries, and more than γ = 3 throughout.
    assert rows["as stated"]["max_rate_per_s"] == pytest.approx(
        rows["off"]["max_rate_per_s"], rel=0.02
    )


def test_the_text_states_the_measured_error_of_the_regime_at_hand(estimate):
    code, out, _ = estimate("h100_chat")
    assert code == 0
    assert "Median error against simulation with room: TPOT" in out
    assert "near saturation" not in out
    _, out, _ = estimate("h100_chat", "--rate", "30")
    assert "Median error against simulation near saturation" in out


def test_more_than_it_can_carry_grows_for_ever(estimate):
    code, out, _ = estimate("h100_chat", "--rate", "1000", "--proposer", "eagle")
    assert code == 0
    assert "grows" in out
    assert "ngram" not in out


@pytest.mark.parametrize("rate", ["0", "-3", "nan", "inf"])
def test_a_rate_that_is_none_is_refused_in_one_sentence(estimate, rate):
    code, out, err = estimate("h100_chat", "--rate", rate)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert "expected requests a second above 0" in err


def test_a_proposer_that_was_not_measured_is_refused(estimate):
    code, _, err = estimate("h100_chat", "--proposer", "medusa")
    assert code == 2
    assert "no proposer 'medusa'" in err
