"""A node of a tree sees the context, its own ancestors and itself, at the position of its depth."""

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install .[calibration]")

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from calibration.model.attention import additive_mask
from calibration.paged.kv import PagedKV
from calibration.paged.plan import plan_step
from calibration.paged.query import ancestry, chunk, node_depths, tree
from calibration.paged.tables import BlockTables, Holding
from simcore.acceptance.tree import ROOT
from tests.calibration.paging import CPU, FIXTURE, tiny_decoder, whole_text_logits

pytestmark = pytest.mark.torch
PROPERTIES = settings(derandomize=True, deadline=None, max_examples=40)


@st.composite
def trees(draw):
    size = draw(st.integers(1, 9))
    return tuple(draw(st.integers(ROOT, node - 1)) for node in range(size))


def path_to(parents, node) -> list[int]:
    path = []
    while node != ROOT:
        path.append(node)
        node = parents[node]
    return path[::-1]


def test_two_branches_see_their_own_ancestry_only():
    #         root A1 B1 A2 B2 B3
    assert ancestry(FIXTURE.parents).astype(int).tolist() == [
        [1, 0, 0, 0, 0, 0],
        [1, 1, 0, 0, 0, 0],
        [1, 0, 1, 0, 0, 0],
        [1, 1, 0, 1, 0, 0],
        [1, 0, 1, 0, 1, 0],
        [1, 0, 1, 0, 0, 1],
    ]
    assert node_depths(FIXTURE.parents).tolist() == [0, 1, 1, 2, 2, 2]


def test_the_mask_adds_the_context_and_hides_unused_slots():
    tables = BlockTables(4, 4)
    tables.follow([Holding(0, 3)])
    query = tree(0, 9, [1, 2, 3, 4, 5], FIXTURE.parents, 3)
    plan = plan_step([query], tables, CPU)
    assert plan.positions.tolist() == [3, 4, 4, 5, 5, 5]
    (group,) = plan.groups
    seen = additive_mask(group, 4, None, torch.float32)[0, 0] == 0.0  # [6, 12]
    assert seen[:, :3].all()
    assert torch.equal(seen[:, 3:9], torch.from_numpy(ancestry(FIXTURE.parents)))
    assert not seen[:, 9:].any()


def test_a_child_before_its_parent_is_refused():
    with pytest.raises(ValueError, match="node 0 has parent 1"):
        ancestry([1, -1])


@given(
    parents=trees(),
    context=st.integers(0, 13),
    block_size=st.sampled_from([1, 4, 16]),
    seed=st.integers(0, 5),
    window=st.sampled_from([None, 3]),
)
@PROPERTIES
def test_every_node_scores_as_at_the_end_of_its_own_path(
    parents, context, block_size, seed, window
):
    decoder = tiny_decoder(seed, sliding_window_tokens=window)
    rng = np.random.default_rng(seed)
    text, nodes = rng.integers(0, 31, context + 1), rng.integers(0, 31, len(parents))
    blocks = -(-(context + 1 + len(parents)) // block_size)
    tables = BlockTables(blocks, block_size)
    tables.follow([Holding(0, blocks)])
    kv = PagedKV(decoder.shape, blocks, block_size, decoder.dtype, CPU)
    if context:
        decoder.forward(plan_step([chunk(0, text[:-1], 0)], tables, CPU), kv)
    query = tree(0, int(text[-1]), nodes, parents, context)
    found = decoder.forward(plan_step([query], tables, CPU), kv)  # [1 + m, V]
    for node in range(-1, len(parents)):
        alone = whole_text_logits(decoder, np.concatenate((text, nodes[path_to(parents, node)])))
        torch.testing.assert_close(found[node + 1], alone[-1], rtol=0.0, atol=1e-10)


@pytest.mark.parametrize("width", [1, 5])
def test_trees_chains_and_chunks_share_one_forward(width):
    decoder = tiny_decoder(2)
    rng = np.random.default_rng(0)
    texts = [rng.integers(0, 31, size) for size in (9, 14, 20)]
    tables = BlockTables(30, 4)
    tables.follow([Holding(number, 8) for number in range(3)])
    kv = PagedKV(decoder.shape, 30, 4, decoder.dtype, CPU)
    first = [chunk(n, texts[n][:-1], 0) for n in range(2)]
    decoder.forward(plan_step(first, tables, CPU), kv)
    drafts = rng.integers(0, 31, 5)
    queries = [
        tree(0, int(texts[0][-1]), drafts, FIXTURE.parents, 8),
        tree(1, int(texts[1][-1]), drafts[:width], tuple(range(-1, width - 1)), 13),
        chunk(2, texts[2], 0),
    ]
    rows = torch.split(decoder.forward(plan_step(queries, tables, CPU), kv), [6, width + 1, 1])
    for node in range(-1, 5):
        path = path_to(FIXTURE.parents, node)
        alone = whole_text_logits(decoder, np.concatenate((texts[0], drafts[path])))
        torch.testing.assert_close(rows[0][node + 1], alone[-1], rtol=0.0, atol=1e-10)
    chain = whole_text_logits(decoder, np.concatenate((texts[1], drafts[:width])))
    torch.testing.assert_close(rows[1], chain[13:], rtol=0.0, atol=1e-10)
    whole = whole_text_logits(decoder, texts[2])
    torch.testing.assert_close(rows[2][0], whole[-1], rtol=0.0, atol=1e-10)
