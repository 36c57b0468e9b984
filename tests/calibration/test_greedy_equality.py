"""Greedy speculation changes the pace, never the text (float64, so that no tie flips)."""

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install .[calibration]")

from calibration.contracts.named import contract_named
from calibration.errors import CalibrationError
from calibration.serve.alone import serve_alone
from calibration.serve.request import ServedRequest
from simcore.acceptance.tree import chain
from tests.calibration.serving import proposing

pytestmark = pytest.mark.torch
LIMIT = 48


def run(loaded_pair, kind: str, ids, gamma: int = 4):
    target, _ = loaded_pair
    proposer = proposing(kind, *loaded_pair)
    topology = chain(gamma) if proposer is not None else None
    request = ServedRequest(tuple(ids), LIMIT)
    return serve_alone(target, request, contract_named("greedy"), proposer, topology)


@pytest.fixture(scope="module")
def plain(loaded_pair, prompt_ids) -> list[list[int]]:
    return [run(loaded_pair, "none", ids).texts[0].output_ids for ids in prompt_ids]


def test_plain_decoding_equals_repeated_full_passes_of_transformers(target, prompt_ids, plain):
    for ids, expected in zip(prompt_ids, plain, strict=True):
        tokens: list[int] = []
        while len(tokens) < len(expected):
            tokens.append(int(target.forward(torch.tensor([ids + tokens]))[0, -1].argmax()))
        assert tokens == expected
        assert expected[-1] in target.eos_token_ids or len(expected) == LIMIT


@pytest.mark.parametrize("gamma", range(1, 9))
@pytest.mark.parametrize("kind", ["ngram", "suffix", "draft_model"])
def test_speculative_output_equals_plain_output_token_for_token(
    loaded_pair, prompt_ids, plain, kind, gamma
):
    ids, expected = prompt_ids[1], plain[1]
    assert run(loaded_pair, kind, ids, gamma).texts[0].output_ids == expected


def test_a_target_that_drafts_for_itself_has_every_draft_accepted(loaded_pair, prompt_ids):
    target, _ = loaded_pair
    cycles = run((target, target), "draft_model", prompt_ids[1]).cycles
    assert [cycle.accepted for cycle in cycles[1:-1]] == [4] * (len(cycles) - 2)
    assert all(len(cycle.token_ids) == 5 for cycle in cycles[1:-1])


def test_an_empty_prompt_is_refused(loaded_pair):
    with pytest.raises(CalibrationError, match="at least one token"):
        run(loaded_pair, "none", [])
