"""A distilled draft learns from the target's own text and is made once."""

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install .[calibration]")

from calibration.compatibility import check_draft
from calibration.distill import (
    DistillSettings,
    distilled_draft,
    self_generated_text,
    train_draft,
)
from calibration.models import load_model

pytestmark = pytest.mark.torch
SETTINGS = DistillSettings(
    num_layers=1, num_sequences=24, sequence_tokens=40, num_steps=40, generation_batch=12
)


@pytest.fixture(scope="module")
def text(tiny_pair) -> "torch.Tensor":
    return self_generated_text(load_model(tiny_pair.target, "float32", "cpu"), SETTINGS)


def overlap(target, draft, text) -> float:
    p = target.forward(text).softmax(-1)
    with torch.no_grad():
        q = draft(input_ids=text).logits.softmax(-1)
    return float(torch.minimum(p, q).sum(-1).mean())


def test_training_raises_the_overlap_with_the_target_on_text_it_has_not_seen(tiny_pair, text):
    target = load_model(tiny_pair.target, "float32", "cpu")
    seen, unseen = text[:16], text[16:]
    short = DistillSettings(**{**vars(SETTINGS), "num_steps": 1})
    before = overlap(target, train_draft(target, seen, short), unseen)
    after = overlap(target, train_draft(target, seen, SETTINGS), unseen)
    assert after > before + 0.05


def test_text_and_training_depend_on_the_seed_only(tiny_pair, text):
    target = load_model(tiny_pair.target, "float32", "cpu")
    assert torch.equal(self_generated_text(target, SETTINGS), text)
    short = DistillSettings(**{**vars(SETTINGS), "num_steps": 3})
    first, second = (train_draft(target, text, short).state_dict() for _ in range(2))
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_a_draft_is_made_once_and_shares_the_target_tokenizer(tiny_pair, tmp_path, monkeypatch):
    monkeypatch.setenv("SPECPLAN_CACHE", str(tmp_path))
    target = load_model(tiny_pair.target, "float32", "cpu")
    short = DistillSettings(num_layers=1, num_sequences=4, sequence_tokens=8, num_steps=2)
    folder = distilled_draft(target, short)
    made = (folder / "config.json").stat().st_mtime_ns
    assert distilled_draft(target, short) == folder
    assert (folder / "config.json").stat().st_mtime_ns == made
    draft = load_model(folder, "float32", "cpu")
    check_draft(target, draft)
    assert draft.identity.num_parameters < target.identity.num_parameters
