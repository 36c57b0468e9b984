"""Trees grown by a model are the trees that whole passes over its paths would give."""

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install .[calibration]")

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from calibration.model.decoder import Decoder
from calibration.paged.cache import KVCache
from calibration.paged.tables import Holding
from calibration.proposers.growth import Grower
from calibration.proposers.sapling import UNREAD
from calibration.proposers.siblings import drawn, likeliest
from calibration.proposers.tree_protocol import Asked
from calibration.sampling import token_probabilities
from simcore.acceptance.topology.dynamic_tree import DynamicShape, propose_nodes
from simcore.acceptance.topology.paths import rank_paths
from simcore.acceptance.topology.sibling_rules import SiblingRule
from simcore.acceptance.tree import ROOT, DraftTree, chain
from simcore.profile.schema import Sampling
from tests.calibration.paging import CPU, FIXTURE, tiny_decoder, whole_text_logits

pytestmark = pytest.mark.torch
PROPERTIES = settings(derandomize=True, deadline=None, max_examples=20)
GREEDY = Sampling()
WARM = Sampling(temperature=0.8, top_k=9)


def grow(decoder: Decoder, texts, topologies, *, sampling=GREEDY, siblings=SiblingRule.TOP_K):
    cache = KVCache(decoder.shape, 64, 4, dtype=decoder.dtype, device=CPU)
    holdings = [Holding(number, 16) for number in range(len(texts))]
    cache.target.tables.follow(holdings)
    grower = Grower(decoder, cache.target, siblings=siblings)
    asked = [
        Asked(number, np.array(text), topology, torch.Generator().manual_seed(number))
        for number, (text, topology) in enumerate(zip(texts, topologies, strict=True))
    ]
    return grower.grow(asked, [0] * len(texts), sampling)


def logits_after(decoder: Decoder, text, draft, node: int) -> torch.Tensor:
    """[V] after a node of the draft, by a whole pass over its path."""
    path = []
    while node != ROOT:
        path.append(draft.token_ids[node])
        node = draft.parents[node]
    return whole_text_logits(decoder, np.array([*text, *reversed(path)]))[-1]


@st.composite
def shapes(draw):
    size = draw(st.integers(1, 8))
    return DraftTree(tuple(draw(st.integers(ROOT, node - 1)) for node in range(size)))


@given(batch=st.lists(shapes(), min_size=1, max_size=3), seed=st.integers(0, 4))
@PROPERTIES
def test_the_kth_child_of_a_static_tree_is_the_kth_likeliest_token_there(batch, seed):
    decoder = tiny_decoder(seed)
    texts = [[3 + number, 1, 4, 1, 5 + number][: 2 + number] for number in range(len(batch))]
    for text, shape, grown in zip(texts, batch, grow(decoder, texts, batch), strict=True):
        assert grown.draft.parents == shape.parents
        assert grown.draft.q is None
        for node, path in enumerate(rank_paths(shape)):
            logits = logits_after(decoder, text, grown.draft, shape.parents[node])
            best = logits.argsort(descending=True)
            assert grown.draft.token_ids[node] == int(best[path[-1]])
        inner = set(shape.parents) - {ROOT}
        assert {node for node, slot in enumerate(grown.slots) if slot != UNREAD} == inner
        assert sorted(grown.slots[node] for node in inner) == list(range(len(inner)))


@given(
    topk=st.integers(1, 3),
    depth=st.integers(1, 4),
    share=st.floats(0.1, 1.0),
    seed=st.integers(0, 5),
)
@PROPERTIES
def test_a_dynamic_tree_is_the_one_the_simulator_would_choose(topk, depth, share, seed):
    decoder, text = tiny_decoder(seed), [2, 7, 1]
    proposed = DynamicShape(topk, depth, 1).num_proposed
    shape = DynamicShape(topk, depth, max(1, int(share * proposed)))
    (grown,) = grow(decoder, [text], [shape])

    def candidates(path):
        found = list(text)
        for rank in path:
            found.append(int(whole_text_logits(decoder, np.array(found))[-1].topk(topk)[1][rank]))
        logits = whole_text_logits(decoder, np.array(found))[-1]
        return torch.softmax(logits, dim=-1).topk(topk).values.numpy()

    expected = propose_nodes(topk, depth, candidates).selected(shape.num_nodes)
    tree = DraftTree(grown.draft.parents)
    assert set(rank_paths(tree)) == set(rank_paths(expected))
    for node, path in enumerate(rank_paths(tree)):
        logits = logits_after(decoder, text, grown.draft, grown.draft.parents[node])
        assert grown.draft.token_ids[node] == int(logits.topk(topk).indices[path[-1]])


@pytest.mark.parametrize("shape", [chain(4), FIXTURE], ids=["chain", "tree"])
@pytest.mark.parametrize("rule", [SiblingRule.SEQUOIA, SiblingRule.SPECINFER])
def test_q_is_the_distribution_that_the_children_were_drawn_from(shape, rule):
    decoder, text = tiny_decoder(6), [1, 2, 3, 4]
    (grown,) = grow(decoder, [text], [shape], sampling=WARM, siblings=rule)
    for parent in set(shape.parents):
        logits = logits_after(decoder, text, grown.draft, parent)
        expected = token_probabilities(logits, WARM)
        torch.testing.assert_close(grown.draft.q[parent + 1], expected, rtol=0.0, atol=1e-10)
        children = [n for n, p in enumerate(shape.parents) if p == parent]
        tokens = [grown.draft.token_ids[child] for child in children]
        assert all(expected[token] > 0.0 for token in tokens)
        if rule is SiblingRule.SEQUOIA:
            assert len(set(tokens)) == len(tokens)


def test_batch_mates_do_not_change_what_a_request_draws():
    decoder, texts = tiny_decoder(6), [[1, 2, 3], [4, 5, 6, 7, 8], [9]]
    kinds = [chain(3), FIXTURE, DynamicShape(2, 3, 5)]
    options = {"sampling": WARM, "siblings": SiblingRule.SEQUOIA}
    together = grow(decoder, texts, kinds, **options)
    for number in range(3):
        alone = grow(decoder, texts[: number + 1], [chain(1)] * number + [kinds[number]], **options)
        assert alone[number].draft.token_ids == together[number].draft.token_ids
    assert together[2].draft.q is None  # a dynamic tree takes the likeliest


@pytest.mark.parametrize("rule", [SiblingRule.SEQUOIA, SiblingRule.SPECINFER])
def test_first_draws_follow_q_and_only_specinfer_repeats(rule):
    q = torch.tensor([0.5, 0.3, 0.2, 0.0], dtype=torch.float64)
    generator = torch.Generator().manual_seed(1)
    draws = np.array([drawn(q, 2, rule, generator) for _ in range(4000)])
    counts = np.bincount(draws[:, 0], minlength=4)
    expected = 4000 * q.numpy()
    standard_error = np.sqrt(expected * (1.0 - q.numpy()))
    assert np.all(np.abs(counts - expected) <= 4.0 * standard_error)
    repeats = draws[:, 0] == draws[:, 1]
    assert repeats.any() == (rule is SiblingRule.SPECINFER)


def test_untried_tokens_follow_once_q_is_exhausted():
    q = torch.tensor([0.0, 1.0, 0.0], dtype=torch.float64)
    generator = torch.Generator().manual_seed(1)
    tokens = drawn(q, 3, SiblingRule.SEQUOIA, generator)
    assert tokens[0] == 1
    assert sorted(tokens) == [0, 1, 2]


def test_the_first_of_the_likeliest_is_the_argmax_even_in_a_tie():
    logits = torch.zeros((2, 40))
    logits[1, [7, 9]] = 1.0
    best = likeliest(logits, 3)
    assert torch.equal(best[:, 0], logits.argmax(dim=-1))
    assert all(len(set(row)) == 3 for row in best.tolist())
    assert set(best[1, :2].tolist()) == {7, 9}
