"""Bad input is one clear line on stderr and exit code 2, and nothing is written."""

import json
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install .[calibration]")

from typer.testing import CliRunner

from calibration.cli import app
from calibration.compatibility import check_draft
from calibration.distill import DistillSettings, distilled_draft
from calibration.errors import CalibrationError
from calibration.models import load_model
from calibration.tiny import EOS, VOCAB_SIZE, random_model, train_tokenizer
from calibration.weights import find_weights

pytestmark = pytest.mark.torch


def refused(tmp_path: Path, tiny_pair, *options: str) -> str:
    """stderr of a refused measurement; asserts the promises that hold for all of them."""
    output = tmp_path / "out"
    defaults = ["--target", str(tiny_pair.target), "--draft", str(tiny_pair.draft)]
    result = CliRunner().invoke(
        app, ["measure", "--output", str(output), "--threads", "1", *defaults, *options]
    )
    assert result.exit_code == 2, result.output
    assert not output.exists()
    assert list(tmp_path.glob(".out*")) == []
    lines = result.stderr.strip().splitlines()
    assert len(lines) == 1
    assert "expected" in lines[0]
    assert result.stdout == ""
    return lines[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--target", "nowhere"], "no model at 'nowhere'"),
        (["--gammas", "-1,0,2"], "gammas are [-1, 0, 2]"),
        (["--gammas", "1,2"], "expected 0 (plain decoding)"),
        (["--gammas", "0,1", "--contexts", "64"], "5 drafting cells"),
        (["--gammas", "two"], "--gammas is 'two'"),
        (["--batches", "0"], "batches are [0]"),
        (["--contexts", "100000"], "exceeds 9000 tokens"),
        (["--temperatures", "nan"], "--temperatures is 'nan'"),
        (["--temperatures", "-1"], "--temperatures is '-1'"),
        (["--max-tokens", "0"], "max_tokens is 0"),
        (["--threads", "0"], "threads is 0"),
        (["--seed", "-3"], "seed is -3"),
        (["--seed", str(2**63)], "expected 0 to 2^63 - 1"),
        (["--max-tokens", "2040"], "the target was made for 2048"),
        (["--dtype", "int3"], "dtype 'int3'"),
        (["--device", "abacus"], "device 'abacus'"),
        (["--proposers", "oracle"], "proposers are ['oracle']"),
        (["--name", "No Such/Name"], "profile name is"),
        (["--prompts", "nowhere.jsonl"], "cannot read prompts"),
        (["--prompts-per-domain", "0"], "0 prompts per domain"),
    ],
)
def test_a_wrong_option_is_refused_in_one_line(tmp_path, tiny_pair, options, message):
    assert message in refused(tmp_path, tiny_pair, *options)


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has CUDA")
def test_cuda_without_a_device_is_refused(tmp_path, tiny_pair):
    assert "no CUDA device" in refused(tmp_path, tiny_pair, "--device", "cuda")


@pytest.mark.parametrize(
    "content",
    [
        "",
        "\n\n",
        "not json\n",
        '{"domain": "chat", "prompt": "   "}\n',
        '{"domain": "chat", "ids": [1, 2.5]}\n',
        '{"domain": "chat", "ids": [1, 999999]}\n',
        '{"prompt": "no domain"}\n',
        "[1, 2]\n",
    ],
)
def test_broken_prompts_are_refused(tmp_path, tiny_pair, content):
    folder = tmp_path / "input"
    folder.mkdir()
    path = folder / "prompts.jsonl"
    path.write_text(content, encoding="utf-8")
    refused(tmp_path, tiny_pair, "--prompts", str(path))


def test_an_output_that_holds_other_files_is_refused(tmp_path, tiny_pair):
    (tmp_path / "notes.txt").write_text("keep me", encoding="utf-8")
    result = CliRunner().invoke(
        app, ["measure", "--output", str(tmp_path), "--target", str(tiny_pair.target)]
    )
    assert result.exit_code == 2
    assert "is no profile" in result.stderr
    assert (tmp_path / "notes.txt").read_text(encoding="utf-8") == "keep me"


def test_an_output_below_a_file_is_refused_before_anything_is_measured(tmp_path, monkeypatch):
    monkeypatch.setattr("calibration.measure.load_model", None)  # calling it would raise
    (tmp_path / "notes.txt").write_text("keep me", encoding="utf-8")
    output = tmp_path / "notes.txt" / "deeper" / "profile"
    result = CliRunner().invoke(app, ["measure", "--output", str(output)])
    assert result.exit_code == 2, result.output
    assert "nothing can be written in" in result.stderr


def test_a_draft_with_another_tokenizer_is_refused(tmp_path, tiny_pair, target):
    folder = tmp_path / "stranger"
    model = random_model(1, 16, seed=0)
    model.save_pretrained(folder)
    train_tokenizer(["entirely different words, zebras and quartz" * 9]).save_pretrained(folder)
    stranger = load_model(folder, "float64", "cpu")
    with pytest.raises(CalibrationError, match="another tokenizer"):
        check_draft(target, stranger)
    assert "another tokenizer" in refused(tmp_path, tiny_pair, "--draft", str(folder))


def test_a_folder_without_weights_is_no_model(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({}), encoding="utf-8")
    with pytest.raises(CalibrationError, match=r"expected a \.gguf file, or a folder"):
        find_weights(tmp_path)


def test_more_layers_than_the_target_has_cannot_be_distilled(target, tmp_path, monkeypatch):
    monkeypatch.setattr("calibration.distill.self_generated_text", None)  # minutes come to nothing
    monkeypatch.setenv("SPECPLAN_CACHE", str(tmp_path))
    asked = DistillSettings(num_layers=9, num_sequences=2, sequence_tokens=4, num_steps=1)
    with pytest.raises(CalibrationError, match="cannot take 9 layers"):
        distilled_draft(target, asked)
    assert list(tmp_path.rglob("config.json")) == []


def test_the_tiny_vocabulary_holds_the_end_token_at_zero(target):
    assert target.tokenizer.convert_tokens_to_ids(EOS) == 0
    assert target.identity.vocab_size == VOCAB_SIZE
