"""A forward padded to a captured size scores as the unpadded one; captured as the eager twin."""

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install .[calibration]")

import numpy as np

from calibration.model.graph import CapturedForward, GraphSize, eager, fits
from calibration.model.target import decoder_of_shape
from calibration.paged.kv import PagedKV
from calibration.paged.plan import plan_step
from calibration.paged.query import chunk, tree
from calibration.paged.tables import BlockTables, Holding
from tests.calibration.paging import FIXTURE, TINY

pytestmark = pytest.mark.torch
SIZE = GraphSize(num_requests=5, num_query_tokens=8, num_blocks=9)


def setting(device: str, dtype: str):
    """(decoder, tables, KV with three texts in it, a plan of a tree, a chain and a plain root)."""
    decoder = decoder_of_shape(TINY, "tiny", dtype, device, seed=4).decoder
    tables = BlockTables(30, 4)
    tables.follow([Holding(number, 8) for number in range(3)])
    kv = PagedKV(TINY, 30, 4, decoder.dtype, decoder.device)
    rng = np.random.default_rng(0)
    texts = [rng.integers(0, 31, size) for size in (5, 12, 20)]
    first = [chunk(number, text, 0) for number, text in enumerate(texts)]
    decoder.forward(plan_step(first, tables, decoder.device), kv)
    queries = [
        tree(0, 3, rng.integers(0, 31, 5), FIXTURE.parents, 5),
        tree(1, 4, rng.integers(0, 31, 2), (-1, 0), 12),
        tree(2, 5, [], (), 20),
    ]
    return decoder, tables, kv, plan_step(queries, tables, decoder.device)


def test_padding_changes_neither_logits_nor_the_kv_of_requests():
    decoder, _, kv, plan = setting("cpu", "float64")
    expected = decoder.forward(plan, kv)
    keys = kv.keys.clone()
    found = eager(decoder, kv, plan, SIZE)
    torch.testing.assert_close(found, expected, rtol=0.0, atol=1e-10)
    used = slice(0, kv.scratch_block * kv.block_size)
    torch.testing.assert_close(kv.keys[:, used], keys[:, used], rtol=0.0, atol=1e-10)
    assert torch.isfinite(kv.keys).all()
    assert torch.isfinite(kv.values).all()


@pytest.mark.parametrize(
    "size", [GraphSize(2, 8, 9), GraphSize(5, 5, 9), GraphSize(5, 8, 5)], ids=str
)
def test_a_plan_beyond_the_captured_size_does_not_fit(size):
    decoder, _, kv, plan = setting("cpu", "float64")
    assert not fits(plan, size)
    with pytest.raises(ValueError, match="do not fit"):
        eager(decoder, kv, plan, size)


def test_a_plan_with_a_long_chunk_is_not_captured():
    decoder, tables, _, _ = setting("cpu", "float64")
    plan = plan_step([chunk(0, np.arange(20), 0), tree(1, 4, [], (), 12)], tables, decoder.device)
    assert not fits(plan, GraphSize(9, 99, 99))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device: nothing to capture on")
@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-4), ("bfloat16", 5e-2)])
def test_a_captured_forward_equals_its_eager_twin(dtype, tolerance):
    decoder, tables, kv, plan = setting("cuda", dtype)
    captured = CapturedForward(decoder, kv, plan, SIZE)
    other = plan_step(
        [tree(0, 7, [1, 2, 3], (-1, -1, 0), 5), tree(2, 8, [4], (-1,), 20)],
        tables,
        decoder.device,
    )
    for each in (plan, other):
        replayed = captured.replay(each).clone()
        twin = eager(decoder, kv, each, SIZE)
        torch.testing.assert_close(replayed, twin, rtol=0.0, atol=tolerance)
