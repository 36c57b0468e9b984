"""`python -m calibration generate`: the plain text, an account to follow, refusals in one line."""

import json
from itertools import product

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install .[calibration]")

from typer.testing import CliRunner

from calibration.cli import app
from calibration.contracts.named import CONTRACTS as CONTRACT_NAMES
from calibration.contracts.named import SHORT_NAMES
from calibration.distill import DistillSettings
from calibration.generate import GENERATE_PROPOSERS
from calibration.models import load_model
from calibration.tiny import random_model, train_tokenizer
from tests.calibration.conftest import QUESTIONS

pytestmark = pytest.mark.torch
QUESTION = QUESTIONS[1]
SHAPES = (["--num-speculative-tokens", "3"], ["--tree", "3x2"], ["--tree", "-1,-1,0,1,1"])


@pytest.fixture(scope="module")
def command(tiny_pair):
    """Runs the command on the tiny pair in float64, so that no tie flips."""

    def run(*options: str, with_draft: bool = False):
        where = ["--target", str(tiny_pair.target), "--dtype", "float64", "--threads", "1"]
        draft = ["--draft", str(tiny_pair.draft)] if with_draft else []
        return CliRunner().invoke(
            app,
            [
                "generate",
                QUESTION,
                *where,
                "--threads",
                "1",
                "--max-tokens",
                "24",
                *draft,
                *options,
            ],
        )

    return run


@pytest.fixture(scope="module")
def as_json(command):
    def run(*options: str, with_draft: bool = False) -> dict:
        result = command("--json", *options, with_draft=with_draft)
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    return run


@pytest.fixture(scope="module")
def plain(as_json):
    return as_json()


def of(proposer: str) -> list[str]:
    return ["--proposer", proposer, *(["--layers", "1"] if proposer == "layer_skip" else [])]


def test_plain_decoding_is_a_cycle_a_token(plain, target, prompt_ids):
    ids: list[int] = []
    while len(ids) < len(plain["token_ids"]):
        logits = target.forward(torch.tensor([prompt_ids[1] + ids]))
        ids.append(int(logits[0, -1].argmax()))
    assert plain["token_ids"] == ids
    assert plain["contract"] == "greedy_equality"
    assert [cycle["emitted"] for cycle in plain["cycles"]] == [1] * len(ids)
    assert plain["text"] == target.tokenizer.decode(ids, skip_special_tokens=True)
    assert plain["ending"] == ("eos" if ids[-1] in target.eos_token_ids else "max_tokens")


@pytest.mark.parametrize("shape", SHAPES, ids=["chain", "3x2", "parents"])
@pytest.mark.parametrize("proposer", GENERATE_PROPOSERS[1:])
def test_every_proposer_and_shape_writes_the_plain_text(as_json, plain, proposer, shape):
    found = as_json(*of(proposer), *shape, with_draft=proposer == "draft_model")
    assert found["token_ids"] == plain["token_ids"]
    cycles = found["cycles"]
    assert [token for cycle in cycles for token in cycle["token_ids"]] == found["token_ids"]
    assert len(cycles) < len(plain["cycles"])
    for cycle in cycles:
        drafts = [cycle["draft_ids"][node] for node in cycle["path"]][: cycle["emitted"]]
        assert cycle["accepted"] == len(drafts)
        assert cycle["token_ids"][: len(drafts)] == drafts
        assert cycle["emitted"] <= cycle["accepted"] + 1
        assert len(cycle["parents"]) == cycle["proposed"] <= len(found["tree"])
    assert len(found["step_s"]) >= len(cycles)


@pytest.mark.parametrize("contract", ["exact", "block", "typical", "threshold"])
def test_a_seed_gives_the_same_sample_and_the_contract_is_named(as_json, contract):
    options = [*of("draft_model"), "--temperature", "1", "--contract", contract]
    first, again, other = (
        as_json(*options, "--seed", seed, with_draft=True) for seed in ("1", "1", "2")
    )
    assert first["token_ids"] == again["token_ids"] != other["token_ids"]
    assert ("(not exact)" in first["contract"]) == (contract in {"typical", "threshold"})
    assert first["sampling"]["temperature"] == 1.0


@pytest.mark.parametrize("contract", ["specinfer", "sequoia", "top_k", "exact"])
def test_tree_contracts_choose_how_siblings_are_drawn(as_json, contract):
    options = ["--tree", "3x2", "--temperature", "1", "--contract", contract]
    found = as_json(*of("draft_model"), *options, with_draft=True)
    assert found["contract"] == ("sequoia" if contract == "exact" else contract)
    assert sum(cycle["proposed"] for cycle in found["cycles"]) > 0


def test_the_account_names_every_cycle_and_its_sums_add_up(command, as_json):
    options = [*of("draft_model"), "--tree", "3x2"]
    lines = command(*options, with_draft=True).stdout.splitlines()
    found = as_json(*options, with_draft=True)
    assert "contract greedy_equality" in lines[0]
    rows = lines[2 : 2 + len(found["cycles"])]
    for number, (row, cycle) in enumerate(zip(rows, found["cycles"], strict=True)):
        expected = [str(number), str(cycle["start"])]
        counts = ["-", "-"] if cycle["is_prefill"] else [cycle["proposed"], cycle["accepted"]]
        assert row.split()[:4] == [*expected, *map(str, counts)]
        assert ("(bonus)" in row) == cycle["has_bonus"]
    accepted = sum(cycle["accepted"] for cycle in found["cycles"])
    assert f"{accepted} of" in lines[2 + len(rows)]
    assert lines[-1] == found["text"].splitlines()[-1]


def test_exact_at_temperature_0_is_greedy_equality(as_json, plain):
    found = as_json(*of("draft_model"), "--contract", "exact", with_draft=True)
    assert found["contract"] == "greedy_equality"
    assert found["token_ids"] == plain["token_ids"]


def test_the_account_shows_the_drafts_that_the_target_did_not_take(command, as_json, target):
    options = [*of("draft_model"), "--tree", "2x3"]
    found = as_json(*options, with_draft=True)
    rows = command(*options, with_draft=True).stdout.splitlines()[2:]
    refused = 0
    for row, cycle in zip(rows, found["cycles"], strict=False):
        end = cycle["path"][-1] if cycle["path"] else -1
        drafts = zip(cycle["parents"], cycle["draft_ids"], strict=True)
        below = [repr(target.tokenizer.decode([token])) for at, token in drafts if at == end]
        cut = cycle["emitted"] == cycle["accepted"]
        shown = f"(instead of {', '.join(below)})"
        assert (shown in row) == (below != [] and not cut)
        refused += shown in row
    assert refused > 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--proposer", "oracle"], "proposer 'oracle' is unknown"),
        (["--contract", "hope"], "contract 'hope' is unknown"),
        (["--proposer", "ngram", "--tree", "0x3"], "0 chains of 3"),
        (["--proposer", "ngram", "--tree", "-1,5"], "expected -1 (the root) or an earlier"),
        (["--proposer", "ngram", "--tree", "1x70"], "expected at most 64"),
        (["--tree", "2x2"], "without a proposer"),
        (["--proposer", "ngram", "--tree", "2x2", "--num-speculative-tokens", "3"], "both say"),
        (["--proposer", "ngram", "--num-speculative-tokens", "0"], "expected 1 to 64"),
        (["--proposer", "ngram", "--contract", "token_wise"], "at temperature 0"),
        (["--proposer", "ngram", "--threads", "-3"], "threads is -3"),
        (["--threads", "0"], "threads is 0"),
        (["--proposer", "ngram", "--contract", "greedy", "--temperature", "1"], "temperature 1"),
        (
            ["--proposer", "ngram", "--tree", "2x2", "--contract", "block", "--temperature", "1"],
            "verifies chains only",
        ),
        (["--proposer", "ngram", "--layers", "1"], "expected layer_skip"),
        (["--proposer", "layer_skip", "--layers", "2"], "fewer than all"),
        (["--draft", "nowhere"], "expected draft_model"),
        (["--proposer", "draft_model", "--draft", "nowhere"], "no model at 'nowhere'"),
        (["--target", "nowhere"], "no model at 'nowhere'"),
        (["--dtype", "int3"], "dtype 'int3'"),
        (["--max-tokens", "0"], "max_tokens is 0"),
        (["--seed", "-3"], "seed is -3"),
        (["--seed", str(2**63)], "expected 0 to 2^63 - 1"),
        (["--max-tokens", "5000"], "the target was made for 2048"),
        (["--temperature", "-1"], "temperature"),
        (["--top-p", "0"], "top_p"),
    ],
)
def test_what_cannot_be_done_is_refused_in_one_line(command, options, message):
    result = command(*options)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    (line,) = result.stderr.strip().splitlines()
    assert line.startswith("error: ")
    assert message in line


def test_a_draft_of_another_tokenizer_is_refused_before_any_pass(command, tmp_path):
    random_model(1, 16, seed=0).save_pretrained(tmp_path)
    train_tokenizer(["entirely different words, zebras and quartz" * 9]).save_pretrained(tmp_path)
    load_model(tmp_path, "float64", "cpu")
    result = command("--proposer", "draft_model", "--draft", str(tmp_path))
    assert result.exit_code == 2
    assert "another tokenizer" in result.stderr


def test_without_a_draft_the_one_of_the_distill_command_is_made_whatever_the_dtype(
    as_json, plain, tiny_pair, monkeypatch
):
    asked = []

    def made(target, settings, track):
        asked.append((target.identity.dtype, settings))
        return tiny_pair.draft

    monkeypatch.setattr("calibration.generate.distilled_draft", made)
    assert as_json(*of("draft_model"))["token_ids"] == plain["token_ids"]
    assert asked == [("bfloat16", DistillSettings())]


def test_what_no_draft_could_do_is_refused_before_one_is_made(command, monkeypatch):
    monkeypatch.setattr("calibration.generate.distilled_draft", None)  # calling it would raise
    result = command(
        *of("draft_model"), "--tree", "2x2", "--contract", "block", "--temperature", "1"
    )
    assert result.exit_code == 2
    assert "verifies chains only" in result.stderr


CONTRACTS = ("exact", *SHORT_NAMES, *CONTRACT_NAMES)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("proposer", GENERATE_PROPOSERS)
def test_every_combination_gives_a_text_with_its_account_or_one_refusal(command, proposer, dtype):
    endings = {0: 0, 2: 0}
    shapes = [[]] if proposer == "none" else SHAPES
    for shape, contract, temperature in product(shapes, CONTRACTS, ("0", "1")):
        options = [*of(proposer), *shape, "--contract", contract, "--temperature", temperature]
        result = command(*options, "--dtype", dtype, "--json", with_draft=proposer == "draft_model")
        endings[result.exit_code] += 1  # any other code is an error here
        if result.exit_code == 0:
            found = json.loads(result.stdout)
            emitted = [token for cycle in found["cycles"] for token in cycle["token_ids"]]
            assert emitted == found["token_ids"] != []
            relaxed = contract.startswith(("typical", "threshold"))
            assert ("(not exact)" in found["contract"]) == relaxed
        else:
            assert result.stdout == ""
            (line,) = result.stderr.strip().splitlines()
            assert line.startswith("error: ")
    assert min(endings.values()) > 0
