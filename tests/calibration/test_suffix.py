"""Suffix decoding proposes what its rule says, whatever the automaton does to find it."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="torch is not installed: pip install .[calibration]")

from calibration.errors import CalibrationError
from calibration.proposers.suffix import SuffixProposer, SuffixSettings
from calibration.proposers.suffix_automaton import ROOT_STATE, SuffixAutomaton
from simcore.acceptance.topology.dynamic_tree import DynamicShape
from simcore.acceptance.topology.paths import rank_paths
from simcore.acceptance.topology.sibling_rules import SiblingRule
from simcore.acceptance.tree import DraftTree, chain, wide_chains
from simcore.profile.schema import Sampling

pytestmark = pytest.mark.torch
TEXTS = st.lists(st.integers(0, 3), min_size=1, max_size=30)
CORPORA = st.lists(TEXTS, max_size=3)
PROPERTIES = settings(derandomize=True, deadline=None, max_examples=120)
GREEDY = Sampling()


def ends_of(pattern: list[int], text: list[int]) -> list[int]:
    """Positions right after each occurrence."""
    size = len(pattern)
    return [at + size for at in range(len(text) - size + 1) if text[at : at + size] == pattern]


def continuations(pattern: list[int], texts: list[list[int]]) -> dict[int, tuple[int, tuple]]:
    """token -> (how often it followed, where it did last), by plain search."""
    found: dict[int, tuple[int, tuple]] = {}
    for index, text in enumerate(texts):
        for end in ends_of(pattern, text):
            if end < len(text):
                count = found.get(text[end], (0, ()))[0]
                found[text[end]] = (count + 1, (index, end))
    return found


def best_chain(pattern, texts, limit, min_product) -> tuple[list[int], float]:
    tokens, product, expected = [], 1.0, 0.0
    while len(tokens) < limit:
        following = continuations([*pattern, *tokens], texts)
        if not following:
            break
        total = sum(count for count, _ in following.values())
        token = max(following, key=lambda each: following[each])
        product *= following[token][0] / total
        if product < min_product:
            break
        expected += product
        tokens.append(token)
    return tokens, expected


def searched(text: list[int], outputs: list[list[int]], asked: SuffixSettings) -> list[int]:
    """The rule by plain search: every suffix that occurred before, the best sum of products."""
    best, best_expected = [], 0.0
    for texts, is_own in (([text], True), (outputs, False)):
        for length in range(min(asked.max_match_tokens, len(text) - is_own), 0, -1):
            pattern = text[len(text) - length :]
            limit = min(asked.draft_limit(length), asked.max_draft_tokens)
            found, expected = best_chain(pattern, texts, limit, asked.min_token_prob)
            if expected > best_expected + 1e-12:
                best, best_expected = found, expected
    return best


def proposed(proposer: SuffixProposer, text: list[int], gamma: int) -> list[int]:
    proposal = proposer.propose(torch.tensor([text]), gamma, GREEDY, [])
    return proposal.token_ids[0, : proposal.lengths[0]].tolist()


@given(texts=st.lists(TEXTS, min_size=1, max_size=3))
@PROPERTIES
def test_the_automaton_counts_every_substring_and_its_continuations(texts):
    automaton = SuffixAutomaton()
    for text in texts:
        automaton.start_text()
        automaton.append(text)
    assert automaton.num_tokens == sum(map(len, texts))
    for text in texts:
        for start in range(len(text)):
            for end in range(start + 1, min(len(text), start + 6) + 1):
                pattern = text[start:end]
                (state, length), *_ = automaton.matches(pattern)
                assert length == len(pattern)
                expected = continuations(pattern, texts)
                total = sum(count for count, _ in expected.values())
                found = automaton.continuations(state)
                assert [each.token for each in found] == sorted(
                    expected, key=lambda token: expected[token], reverse=True
                )
                for each in found:
                    assert each.share == pytest.approx(expected[each.token][0] / total)


@given(text=TEXTS)
@PROPERTIES
def test_repeats_are_the_suffixes_that_occurred_before(text):
    automaton = SuffixAutomaton()
    automaton.append(text)
    lengths = [length for _, length in automaton.repeats()]
    assert all(longer > shorter for longer, shorter in pairwise(lengths))
    longest = max((n for n in range(1, len(text)) if len(ends_of(text[-n:], text)) > 1), default=0)
    assert (lengths[0] if lengths else 0) == longest
    assert all(state != ROOT_STATE for state, _ in automaton.repeats())


@given(
    text=TEXTS,
    outputs=CORPORA,
    gamma=st.integers(1, 8),
    factor=st.sampled_from([0.5, 1.0, 2.0]),
    offset=st.sampled_from([0.0, 1.0]),
    min_token_prob=st.sampled_from([0.0, 0.1, 0.4]),
    max_match_tokens=st.integers(1, 6),
)
@PROPERTIES
def test_proposals_equal_the_rule_by_plain_search(
    text, outputs, gamma, factor, offset, min_token_prob, max_match_tokens
):
    asked = SuffixSettings(
        max_match_tokens=max_match_tokens,
        max_draft_tokens=7,
        factor=factor,
        offset=offset,
        min_token_prob=min_token_prob,
    )
    proposer = SuffixProposer(asked)
    for output in outputs:
        proposer.remember(output)
    found = proposed(proposer, text, gamma)
    assert found == searched(text, outputs, asked)[:gamma]


@given(text=st.lists(st.integers(0, 2), min_size=8, max_size=40), data=st.data())
@PROPERTIES
def test_what_is_proposed_depends_on_the_text_and_not_on_calls_before(text, data):
    """Rows grow, swap and are dropped between calls; automata are found again by their text."""
    proposer = SuffixProposer(SuffixSettings(max_texts=data.draw(st.integers(1, 3))))
    rows = [text, text[::-1], [*text[1:], text[0]]]
    size = 3
    while size < len(text):
        order = data.draw(st.permutations(range(3)))[: data.draw(st.integers(1, 3))]
        batch = [rows[row][:size] for row in order]
        together = proposer.propose(torch.tensor(batch), 5, GREEDY, [])
        for row, tokens in enumerate(batch):
            alone = together.token_ids[row, : together.lengths[row]].tolist()
            assert alone == proposed(SuffixProposer(), tokens, 5)
            assert alone == proposed(proposer, tokens, 5)
        size += data.draw(st.integers(1, 4))


@given(text=TEXTS, topk=st.integers(1, 3), depth=st.integers(1, 3), nodes=st.integers(1, 6))
@PROPERTIES
def test_dynamic_trees_take_the_most_frequent_paths(text, topk, depth, nodes):
    shape = DynamicShape(topk, depth, min(nodes, topk + (depth - 1) * topk**2))
    proposal = SuffixProposer().propose_tree(torch.tensor([text]), shape, GREEDY, [])
    (candidates,) = proposal.candidates()
    assert candidates.num_nodes <= shape.num_nodes
    assert candidates.q is None
    for children in candidates.children():
        tokens = [candidates.token_ids[child] for child in children]
        assert len(set(tokens)) == len(tokens) <= topk


def test_a_static_tree_holds_the_continuations_by_rank_as_far_as_there_are_any():
    """After 1 2: twice 3 (then 4, later 5), once 6; nothing is known below 6 8."""
    text = [1, 2, 3, 4, 1, 2, 3, 5, 1, 2, 6, 8, 1, 2]
    proposer = SuffixProposer(SuffixSettings(factor=4.0))
    asked = DraftTree((-1, -1, -1, 0, 0, 1))
    (candidates,) = proposer.propose_tree(torch.tensor([text]), asked, GREEDY, []).candidates()
    assert candidates.parents == (-1, -1, 0, 0, 1)  # no third continuation
    assert candidates.token_ids == (3, 6, 5, 4, 8)
    assert proposer.siblings(GREEDY) is SiblingRule.TOP_K


@given(text=TEXTS, gamma=st.integers(1, 6))
@PROPERTIES
def test_trees_stay_within_their_topology(text, gamma):
    proposer, ids = SuffixProposer(), torch.tensor([text])
    (narrow,) = proposer.propose_tree(ids, chain(gamma), GREEDY, []).candidates()
    (wide,) = proposer.propose_tree(ids, wide_chains(2, gamma), GREEDY, []).candidates()
    assert narrow.is_chain
    assert narrow.num_nodes <= wide.num_nodes <= 2 * gamma
    if wide.num_nodes:
        assert max(map(len, rank_paths(DraftTree(wide.parents)))) <= gamma


def test_a_growing_text_is_read_once_even_when_requests_are_asked_one_by_one(monkeypatch):
    read: list[int] = []
    append = SuffixAutomaton.append
    monkeypatch.setattr(
        SuffixAutomaton, "append", lambda own, ids: (read.append(len(ids)), append(own, ids))
    )
    proposer, texts = SuffixProposer(), [[1, 2, 3, 4], [1, 2, 5, 6]]
    for _ in range(5):
        for text in texts:
            proposed(proposer, text, 4)
            text += [text[-2], text[-1]]
    assert read == [4, 4, *[2] * 8]


def test_memory_keeps_the_newer_outputs_when_it_is_full():
    proposer = SuffixProposer(SuffixSettings(max_remembered_tokens=20))
    for output in ([1, 2, 3, 4] * 2, [5, 6, 7, 8] * 2, [9, 10, 11, 12] * 2):
        proposer.remember(output)
    assert proposed(proposer, [0, 9, 10], 2) == [11, 12]
    assert proposed(proposer, [0, 1, 2], 2) == []


def test_an_unseen_text_gets_no_proposal():
    proposal = SuffixProposer().propose(torch.tensor([[1, 2, 3]]), 4, GREEDY, [])
    assert proposal.lengths == (0,)
    assert proposal.token_ids.shape == (1, 0)


@pytest.mark.parametrize("wrong", [{"max_draft_tokens": 0}, {"factor": -1.0}])
def test_settings_without_meaning_are_refused(wrong):
    with pytest.raises(CalibrationError, match="suffix decoding with"):
        SuffixSettings(**wrong)
