"""EOS, stop strings and the limit cut a cycle at every offset and suppress what follows."""

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install .[calibration]")

from calibration.contracts.candidates import Candidates, Verdict, chain_candidates
from calibration.contracts.cut import Ending, Stopping, cut
from calibration.errors import CalibrationError
from calibration.proposers.tree_protocol import Draft
from calibration.serve.texts import ServedCycle

pytestmark = pytest.mark.torch
GAMMA = 4
DRAFTS = (10, 11, 12, 13)
BONUS = 14
OUTPUT = [7, 8]
CHAIN = chain_candidates(DRAFTS)
FULL = Verdict((0, 1, 2, 3), BONUS, is_bonus=True, is_exact=True)


def letters(token_ids) -> str:
    """Token 10 is 'a', 11 'b' and so on."""
    return "".join(chr(ord("a") + token - 10) for token in token_ids)


def emitted(stopping, verdict=FULL, candidates=CHAIN):
    tokens = [*candidates.tokens_at(verdict.path), verdict.next_token]
    kept, ending = cut(tokens, stopping, OUTPUT)
    draft = Draft(candidates.parents, candidates.token_ids)
    return ServedCycle(0, len(OUTPUT), 0.0, draft, verdict.path, tuple(kept), ending)


def test_without_a_reason_to_end_the_whole_cycle_is_emitted():
    found = emitted(Stopping(100))
    assert list(found.token_ids) == [*DRAFTS, BONUS]
    assert (found.accepted, found.has_bonus, found.ending) == (GAMMA, True, None)


@pytest.mark.parametrize("offset", range(GAMMA + 1))
def test_eos_at_every_offset_is_kept_and_ends_the_output(offset):
    tokens = [*DRAFTS, BONUS]
    found = emitted(Stopping(100, frozenset({tokens[offset]})))
    assert list(found.token_ids) == tokens[: offset + 1]
    assert found.accepted == min(offset + 1, GAMMA)
    assert found.has_bonus == (offset == GAMMA)  # EOS among the drafts suppresses the bonus
    assert found.ending is Ending.EOS


@pytest.mark.parametrize("room", range(1, GAMMA + 2))
def test_the_limit_at_every_offset_full_acceptance_at_the_boundary_included(room):
    found = emitted(Stopping(len(OUTPUT) + room))
    assert list(found.token_ids) == [*DRAFTS, BONUS][:room]
    assert found.accepted == min(room, GAMMA)
    assert found.has_bonus == (room == GAMMA + 1)
    assert found.ending is Ending.MAX_TOKENS
    roomier = emitted(Stopping(len(OUTPUT) + GAMMA + 2))
    assert (roomier.has_bonus, roomier.ending) == (True, None)


@pytest.mark.parametrize("offset", range(GAMMA + 1))
def test_a_stop_string_ends_the_output_where_its_last_character_appears(offset):
    tokens = [*DRAFTS, BONUS]
    stops = (letters(tokens[max(0, offset - 1) : offset + 1]), "never")
    found = emitted(Stopping(100, frozenset(), stops, letters))
    assert list(found.token_ids) == tokens[: offset + 1]
    assert found.has_bonus == (offset == GAMMA)
    assert found.ending is Ending.STOP_STRING


def test_a_stop_string_may_begin_in_an_earlier_cycle():
    stopping = Stopping(100, frozenset(), ("cde",), letters)
    assert cut([14, 15], stopping, [10, 12, 13]) == ([14], Ending.STOP_STRING)
    assert cut([15, 14], stopping, [10, 12, 13]) == ([15, 14], None)


def test_a_stop_string_may_end_inside_a_token():
    words = {1: "Good ", 2: "day, world", 3: "!"}
    stopping = Stopping(100, frozenset(), ("day",), lambda ids: "".join(words[i] for i in ids))
    assert cut([1, 2, 3], stopping, []) == ([1, 2], Ending.STOP_STRING)


def test_eos_counts_before_a_stop_string_and_that_before_the_limit():
    both = Stopping(3, frozenset({10}), ("a",), lambda ids: letters(i for i in ids if i >= 10))
    assert emitted(both).ending is Ending.EOS
    stop_at_limit = Stopping(3, frozenset(), ("a",), lambda ids: letters(i for i in ids if i >= 10))
    assert emitted(stop_at_limit).ending is Ending.STOP_STRING


def test_a_cut_tree_path_keeps_the_order_of_the_path():
    candidates = Candidates((-1, -1, 1, 2), (20, 10, 11, 12))
    verdict = Verdict((1, 2, 3), 9, is_bonus=True, is_exact=True)
    assert emitted(Stopping(100), verdict, candidates).token_ids == (10, 11, 12, 9)
    short = emitted(Stopping(len(OUTPUT) + 2), verdict, candidates)
    assert (short.token_ids, short.accepted, short.has_bonus) == ((10, 11), 2, False)


def test_a_cut_correction_is_no_emission():
    verdict = Verdict((0, 1), 99, is_bonus=False, is_exact=True)
    assert emitted(Stopping(len(OUTPUT) + 2), verdict).token_ids == (10, 11)
    assert emitted(Stopping(len(OUTPUT) + 3), verdict).token_ids == (10, 11, 99)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"max_tokens": 0}, "max_tokens is 0"),
        ({"max_tokens": 5, "stop_strings": ("x",)}, "need a tokenizer's decode"),
        ({"max_tokens": 5, "stop_strings": ("",), "decode": letters}, "one character each"),
    ],
)
def test_stopping_that_cannot_be_followed_is_refused(wrong, message):
    with pytest.raises(CalibrationError, match=message):
        Stopping(**wrong)
