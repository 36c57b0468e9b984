"""The forward equals transformers, whatever the blocks, the chunks and the company in the batch."""

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install .[calibration]")

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.attention import SDPBackend, sdpa_kernel
from transformers import (
    AutoModelForCausalLM,
    DynamicCache,
    LlamaConfig,
    MistralConfig,
    Qwen2Config,
    Qwen3Config,
)
from transformers.utils import logging as transformers_logging

from calibration.model.config import read_shape
from calibration.model.decoder import Decoder
from calibration.model.source import FileSource, RandomSource
from calibration.model.weights import collect_weights
from calibration.paged.kv import PagedKV
from calibration.paged.plan import plan_step
from calibration.paged.query import chunk
from calibration.paged.tables import BlockTables, Holding
from tests.calibration.paging import CPU, TINY, tiny_decoder, whole_text_logits

pytestmark = pytest.mark.torch
SIZES = {
    "vocab_size": 97,
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
}
LLAMA3_ROPE = {
    "rope_type": "llama3",
    "rope_theta": 10_000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
CONFIGS = {
    "llama": LlamaConfig(**SIZES),
    "llama3, tied, biases": LlamaConfig(
        **SIZES,
        attention_bias=True,
        mlp_bias=True,
        tie_word_embeddings=True,
        rope_parameters=LLAMA3_ROPE,
    ),
    "qwen2": Qwen2Config(**SIZES),
    "qwen3, wide heads": Qwen3Config(**SIZES, head_dim=16),
    "qwen3, biases": Qwen3Config(**SIZES, attention_bias=True),
    "mistral": MistralConfig(**SIZES, sliding_window=None),
    "mistral, sliding": MistralConfig(**SIZES, sliding_window=7),
}
TOLERANCE = {torch.float64: 1e-10, torch.float32: 5e-5}
PROPERTIES = settings(derandomize=True, deadline=None, max_examples=25)


@pytest.fixture(scope="module", params=CONFIGS)
def config(request):
    return CONFIGS[request.param]


def reference(config, dtype, folder):
    """A random transformers model, saved in shards, and the decoder that reads them."""
    transformers_logging.disable_progress_bar()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        model = AutoModelForCausalLM.from_config(config, dtype=dtype, attn_implementation="sdpa")
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.normal_(0.0, 0.3)
    model.eval().save_pretrained(folder, max_shard_size="20KB")
    shape = read_shape(folder)
    source = FileSource(folder, dtype, CPU)
    decoder = Decoder(shape, collect_weights(shape, source))
    source.check_all_read()
    return model, decoder


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_logits_equal_those_of_transformers(config, dtype, tmp_path):
    model, decoder = reference(config, dtype, tmp_path)
    assert len(list(tmp_path.glob("*.safetensors"))) > 1
    ids = torch.arange(41) * 7 % 97
    with torch.inference_mode():
        expected = model(input_ids=ids[None], cache=DynamicCache(config=config)).logits[0]
    found = whole_text_logits(decoder, ids.numpy())
    assert found.dtype == dtype
    torch.testing.assert_close(found, expected, rtol=0.0, atol=TOLERANCE[dtype])


def read_in_pieces(decoder, texts, block_size, order, pieces) -> list[torch.Tensor]:
    """Logits of every token; the texts are read side by side, `pieces` tokens at a time."""
    needed = [-(-len(text) // block_size) for text in texts]
    tables = BlockTables(sum(needed) + 2, block_size)
    tables._unused = list(order[: sum(needed) + 2])  # blocks lie in any order in memory
    tables.follow([Holding(number, count) for number, count in enumerate(needed)])
    kv = PagedKV(decoder.shape, tables.num_blocks, block_size, decoder.dtype, CPU)
    kv.keys.fill_(1e3)  # what others left behind
    kv.values.fill_(1e3)
    done, found = [0] * len(texts), [[] for _ in texts]
    while any(at < len(text) for at, text in zip(done, texts, strict=True)):
        queries = []
        for number, text in enumerate(texts):
            count = min(pieces[number % len(pieces)], len(text) - done[number])
            if count > 0:
                ids = text[done[number] : done[number] + count]
                queries.append(chunk(number, ids, done[number], num_scored=count))
        logits = decoder.forward(plan_step(queries, tables, CPU), kv)
        parts = torch.split(logits, [query.num_tokens for query in queries])
        for query, part in zip(queries, parts, strict=True):
            found[query.request].append(part)
            done[query.request] += query.num_tokens
    return [torch.cat(parts) for parts in found]


@given(
    lengths=st.lists(st.integers(1, 40), min_size=1, max_size=4),
    block_size=st.sampled_from([1, 3, 4, 16]),
    pieces=st.lists(st.integers(1, 25), min_size=1, max_size=3),
    seed=st.integers(0, 10),
    window=st.sampled_from([None, 5]),
)
@PROPERTIES
def test_blocks_chunks_and_company_do_not_change_the_logits(
    lengths, block_size, pieces, seed, window
):
    decoder = tiny_decoder(seed, sliding_window_tokens=window)
    rng = np.random.default_rng(seed)
    texts = [rng.integers(0, 31, length) for length in lengths]
    order = rng.permutation(sum(-(-n // block_size) for n in lengths) + 2).tolist()
    found = read_in_pieces(decoder, texts, block_size, order, pieces)
    for text, logits in zip(texts, found, strict=True):
        alone = whole_text_logits(decoder, text)
        torch.testing.assert_close(logits, alone, rtol=0.0, atol=1e-10)


def test_a_long_chunk_beside_decodes_is_attended_to_apart():
    tables = BlockTables(20, 4)
    tables.follow([Holding(0, 2), Holding(1, 10), Holding(2, 2)])
    ids = np.arange(40) % 31
    queries = [chunk(0, ids[:1], 5), chunk(1, ids[:40], 0), chunk(2, ids[:3], 2)]
    plan = plan_step(queries, tables, CPU)
    assert [list(group.rows.shape) for group in plan.groups] == [[2, 3], [1, 40]]
    assert len(plan.token_ids) == 44


@pytest.mark.parametrize(("dtype", "tolerance"), [("bfloat16", 0.1), ("float16", 0.02)])
def test_half_precision_rounds_the_logits_of_float32_and_no_more(dtype, tolerance):
    def cast(numbers):
        source = RandomSource(torch.float32, CPU, 3)
        weights = collect_weights(TINY, lambda name, size: source(name, size).to(numbers))
        return whole_text_logits(Decoder(TINY, weights), np.arange(30) % 31)

    whole, half = cast(torch.float32), cast(getattr(torch, dtype))
    assert half.dtype == getattr(torch, dtype)
    assert not torch.equal(half.float(), whole)
    assert float((half.float() - whole).abs().max()) < tolerance * float(whole.abs().max())


@pytest.mark.parametrize("backend", [SDPBackend.MATH, SDPBackend.FLASH_ATTENTION], ids=str)
@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-10), ("float32", 5e-5)])
def test_every_attention_kernel_gives_the_same_logits(backend, dtype, tolerance):
    decoder, ids = tiny_decoder(2, dtype), np.arange(50) % 31
    expected = whole_text_logits(decoder, ids)
    with sdpa_kernel(backend):
        found = whole_text_logits(decoder, ids)
    torch.testing.assert_close(found, expected, rtol=0.0, atol=tolerance)


def test_the_first_layers_and_the_head_are_a_model_of_those_layers():
    decoder = tiny_decoder(1)
    layers = decoder.weights.layers[:2]
    short = Decoder(
        decoder.shape.model_copy(update={"num_layers": 2}),
        type(decoder.weights)(
            decoder.weights.embedding, layers, decoder.weights.norm, decoder.weights.head
        ),
    )
    ids = np.arange(12)
    tables = BlockTables(1, 12)
    tables.follow([Holding(0, 1)])
    kv = PagedKV(decoder.shape, 1, 12, decoder.dtype, CPU)
    plan = plan_step([chunk(0, ids, 0, num_scored=12)], tables, CPU)
    assert torch.equal(decoder.forward(plan, kv, 2), whole_text_logits(short, ids))
    assert not kv.keys[2].any()


def test_a_query_beyond_its_blocks_is_refused():
    tables = BlockTables(4, 4)
    tables.follow([Holding(0, 1)])
    with pytest.raises(ValueError, match="needs KV for 5 tokens but holds blocks for 4"):
        plan_step([chunk(0, np.arange(2), 3)], tables, CPU)
    with pytest.raises(ValueError, match="no queries"):
        plan_step([], tables, CPU)
