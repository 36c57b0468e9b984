"""Statistics of walked cycles: by hand, as laws, and as published."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcore.acceptance.lists import AcceptanceLists
from simcore.acceptance.reading import read_lists
from simcore.acceptance.statistics import figures, summarise_cycles
from simcore.errors import AcceptanceError
from tests.acceptance.recordings import lists_of, text_of_two_kinds

REQUESTS = st.lists(
    st.lists(st.integers(0, 9), min_size=1, max_size=40), min_size=1, max_size=8
).map(lambda requests: lists_of(*requests))


def test_one_request_by_hand():
    # γ = 2 from position 0: accepts 2 of 2; at 3 accepts 0; at 4 only one position is left, and
    # a draft for the next would lie past the end.
    sample = lists_of([5, 4, 3, 0, 7]).cycles(2)
    assert sample.accepted.tolist() == [2, 0, 0]
    assert sample.testable.tolist() == [2, 1, 0]
    found = summarise_cycles(sample)
    assert found.mean_emitted_tokens == pytest.approx(5 / 3)
    assert found.conditional == pytest.approx([1 / 2, 1.0])
    assert found.survival_counted == pytest.approx([1 / 3, 1 / 3])
    assert found.acceptance_rate == pytest.approx(2 / 3)
    assert found.request_sd is None


def test_the_walk_may_start_after_the_token_that_prefill_emits():
    sample = lists_of([0, 1, 0, 0]).cycles(3, start=1)
    assert sample.accepted.tolist() == [1, 0]
    assert sample.output_tokens.tolist() == [3]


def test_a_draft_that_the_proposer_did_not_have_was_not_tested():
    lists = lists_of([0, 2, 1, 0], proposed=[[0, 2, 1, 0]])
    # Cycles at 0 (nothing proposed) and 1 (two of two, which reach the end).
    assert summarise_cycles(lists.cycles(3)).acceptance_rate == 1.0


@given(lists=REQUESTS, gamma=st.integers(1, 12))
def test_survival_never_increases_and_tokens_lie_between_one_and_gamma_plus_one(lists, gamma):
    found = summarise_cycles(lists.cycles(gamma))
    for survival in (found.survival, found.survival_counted):
        assert (np.diff([1.0, *survival]) <= 1e-12).all()
    assert 1.0 <= found.mean_emitted_tokens <= gamma + 1
    assert found.mean_emitted_tokens == pytest.approx(1.0 + sum(found.survival_counted))
    assert (np.array(found.survival_low) <= np.array(found.survival_high)).all()


@given(lists=REQUESTS, gamma=st.integers(1, 12), start=st.integers(0, 1))
def test_a_walk_emits_every_token_after_its_start(lists: AcceptanceLists, gamma, start):
    if max(lists.output_tokens) <= start:
        return
    sample = lists.cycles(gamma, start=start)
    own = np.bincount(sample.request, weights=sample.emitted, minlength=sample.num_requests)
    assert own.tolist() == [max(length - start, 0) for length in lists.output_tokens]


def test_independent_positions_show_the_spread_and_memory_that_one_rate_predicts():
    found = summarise_cycles(text_of_two_kinds(300, 300, 1, easy=0.7, hard=0.7).cycles(3))
    assert found.request_sd == pytest.approx(found.iid_request_sd, rel=0.15)
    assert found.lag1_correlation.pooled == pytest.approx(0.0, abs=0.03)
    assert found.iid_mean_emitted_tokens == pytest.approx(found.mean_emitted_tokens, rel=0.02)


def test_text_of_two_kinds_remembers_and_its_requests_differ():
    found = summarise_cycles(text_of_two_kinds(300, 300, 1, spread=0.7).cycles(3))
    assert found.lag1_correlation.pooled > found.lag1_correlation.within_request > 0.1
    assert found.request_sd > 2 * found.iid_request_sd


def test_the_slowest_five_percent_are_rounded_up_to_whole_requests():
    tokens = np.full(21, 10)
    cycles = np.array([10, 5, *[2] * 19])
    assert figures(tokens, cycles).slowest == pytest.approx((1.0 + 2.0) / 2)


@pytest.mark.parametrize(
    ("gamma", "start", "message"), [(0, 0, "γ = 0"), (101, 0, "101"), (3, 9, "past")]
)
def test_what_no_list_can_answer_is_refused(gamma, start, message):
    with pytest.raises(AcceptanceError, match=message):
        lists_of([1, 0, 0]).cycles(gamma, start=start)


def _study(shared_data, name, column):
    path = shared_data / "specdecode-bench" / f"llama31_8b_h100_{name}.parquet"
    if not path.exists():
        pytest.skip(f"{path.name} is not beside the project")
    return read_lists(path, column=column)


# All requests, from position 0: (data set, proposer, γ) -> tokens, counted conditional, lag-1
# correlation pooled and within a request.
PUBLISHED = [
    ("gsm8k", "emitted_eagle", 1, 1.693, (0.693,), (0.08, 0.06)),
    ("gsm8k", "emitted_eagle", 3, 2.379, (0.669, 0.649, 0.638), (0.08, 0.05)),
    ("gsm8k", "emitted_eagle", 5, 2.651, (0.661, 0.648, 0.633, 0.657, 0.628), (0.08, 0.04)),
    ("gsm8k", "emitted_eagle", 7, 2.750, (0.658, 0.647, 0.630, 0.652), (0.08, 0.04)),
    ("instructcoder", "emitted_ngram", 3, 2.028, (0.372, 0.915, 0.924), (0.75, 0.64)),
    ("instructcoder", "emitted_eagle", 3, 2.343, (0.628, 0.666, 0.709), (0.38, 0.21)),
]


@pytest.mark.parametrize(("name", "column", "gamma", "tokens", "conditional", "lag"), PUBLISHED)
def test_published_figures_of_the_h100_lists(
    shared_data, name, column, gamma, tokens, conditional, lag
):
    found = summarise_cycles(_study(shared_data, name, column).cycles(gamma))
    assert found.mean_emitted_tokens == pytest.approx(tokens, abs=0.0006)
    for ours, theirs in zip(found.conditional_counted, conditional, strict=False):
        assert ours == pytest.approx(theirs, abs=0.0006)
    correlation = (found.lag1_correlation.pooled, found.lag1_correlation.within_request)
    assert correlation == pytest.approx(lag, abs=0.006)
