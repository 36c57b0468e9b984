"""specplan tree: text for people, one JSON object for programs, one sentence for bad input."""

import json
import sys

import pytest

from simcore import cli


@pytest.fixture
def tree(monkeypatch, capsys, recorded_profile):
    """Run `specplan tree` on the invented profile: (exit code, stdout, stderr)."""

    def run(command: str, *arguments: str, proposer: str = "draft_model") -> tuple[int, str, str]:
        profile = ["--profile", str(recorded_profile.folder), "--proposer", proposer]
        monkeypatch.setattr(sys, "argv", ["specplan", "tree", command, *arguments, *profile])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        captured = capsys.readouterr()
        return int(ended.value.code or 0), captured.out, captured.err

    return run


@pytest.mark.parametrize("spelling", ["-1,-1,0", "[-1, -1, 0]", "[[0],[1],[0,0]]"])
def test_show_takes_every_spelling_of_a_tree(tree, spelling):
    code, out, _ = tree("show", spelling, "--json")
    assert code == 0
    found = json.loads(out)
    assert found["parents"] == [-1, -1, 0]
    assert found["origin"]["contract"] == "greedy_equality"


def test_show_draws_the_tree_and_says_what_independence_gets_wrong(tree):
    code, out, _ = tree("show", "2x2")
    assert code == 0
    assert "as if independent" in out
    assert "├─ 0" in out
    assert "└─ 1" in out
    assert "choices: [[0], [1], [0, 0], [1, 0]]" in out


def test_best_prints_the_choice_of_size_and_the_tree(tree):
    code, out, _ = tree("best", "--nodes", "8", "--depth", "3", "--batch", "1")
    assert code == 0
    assert "<- chosen" in out
    assert "sequoia" in out
    code, out, _ = tree("best", "--nodes", "8", "--depth", "3", "--json")
    assert code == 0
    assert json.loads(out)["price"] is None


def test_dynamic_says_that_it_bounds(tree):
    arguments = ("--steps", "3", "--topk", "2", "--num-draft-tokens", "5")
    code, out, _ = tree("dynamic", *arguments)
    assert code == 0
    assert "bounds" in out
    found = json.loads(tree("dynamic", *arguments, "--json")[1])
    assert found["num_proposed"] == 10
    assert found["num_nodes"] == 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("show", "no tree"), "cannot read tree"),
        (("show", "1x9"), "ends at depth 8"),
        (("show", "2x2", "--rule", "sequoia"), "use rule 'top_k'"),
        (("show", "2x2", "--domain", "poetry"), "poetry"),
        (("best", "--nodes", "0", "--depth", "2"), "expected 1 to 512 nodes"),
        (("best", "--nodes", "4", "--depth", "2", "--batch", "0"), "batch 0"),
        (("dynamic", "--steps", "3", "--topk", "1", "--num-draft-tokens", "9"), "num_steps"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(tree, arguments, message):
    code, out, err = tree(*arguments)
    assert code == 2
    assert out == ""
    assert err.startswith("specplan: ")
    assert err.count("\n") == 1
    assert message in err


def test_an_unknown_proposer_is_refused(tree):
    code, _, err = tree("show", "2x2", proposer="medusa")
    assert code == 2
    assert "no proposer 'medusa'" in err
