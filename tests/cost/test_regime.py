"""Captured sizes, the cliff behind them, and what runs in pieces or eager."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcore.cost.law import Capture, CostLaw, Regime, TokenLaw
from simcore.cost.price import decode_step, law_tables, price
from simcore.cost.regime import check_regimes
from simcore.cost.regime import graph_of as inner_graph_of
from simcore.cost.shape import StepShape
from simcore.errors import ScenarioError
from tests.factories import cost_law
from tests.from_python import from_python

graph_of = from_python(inner_graph_of)

SIZES = (1, 2, 4, 8, 16, 24)
EAGER = Regime(floor_s=0.03, extra_s=0.001)
PLAIN = cost_law()


def law(**changes) -> CostLaw:
    return PLAIN.model_copy(update=changes)


def captured(**changes) -> CostLaw:
    return law(capture=Capture(**{"sizes": SIZES, "eager": EAGER} | changes))


def prefill(tokens: int, requests: int = 1) -> StepShape:
    return StepShape(
        float(requests), 0.0, 0.0, 0.0, 0.0, float(tokens), 0.0, 0.0, float(tokens), 0.0
    )


def target_s(law: CostLaw, shape: StepShape) -> float:
    return price(law_tables(law, None), shape)[1]


def test_a_step_pays_for_the_next_captured_size_and_reads_its_own_kv():
    padded = decode_step(law_tables(captured(), None), 5, 100, 0)
    whole = decode_step(law_tables(PLAIN, None), 8, 100, 0)
    unread = 3 * (1e-5 + 100e-6)  # requests and KV of the padding do not exist
    assert padded.target_s == pytest.approx(whole.target_s - unread)


def test_a_captured_size_itself_costs_what_it_does_without_capture():
    for batch_size in SIZES:
        step = decode_step(law_tables(captured(), None), batch_size, 64, 0)
        assert step == decode_step(law_tables(PLAIN, None), batch_size, 64, 0)


def test_past_the_last_size_the_step_falls_to_the_eager_floor():
    tables = law_tables(captured(), None)
    within, beyond = decode_step(tables, 24, 64, 0), decode_step(tables, 25, 64, 0)
    assert within.target_s < 0.024
    assert beyond.target_s == 0.03  # the launch time, which hides f and the KV reads
    assert decode_step(tables, 25, 100, 0).target_s == beyond.target_s


def test_long_contexts_show_again_where_they_outlast_the_launches():
    tables = law_tables(captured(), None)
    plain = decode_step(law_tables(PLAIN, None), 25, 1000, 0)
    assert decode_step(tables, 25, 1000, 0).target_s == pytest.approx(plain.target_s + 0.001)


def test_drafts_fill_the_captured_tokens():
    tables = law_tables(captured(), "ngram")
    assert decode_step(tables, 6, 64, 3).target_s < 0.024  # 24 tokens
    assert decode_step(tables, 7, 64, 3).target_s == 0.03  # 28


@given(tokens=st.floats(1, 40))
def test_padding_never_shrinks_a_step_and_ends_at_a_captured_size(tokens):
    shape = StepShape(1.0, 1.0, 0.0, 0.0, 0.0, tokens, 0.0, 0.0, 0.0, 0.0)
    computed, _ = graph_of(law_tables(captured(), None).regimes, shape)
    assert computed >= tokens
    assert computed in SIZES if tokens <= SIZES[-1] else computed == tokens


def test_sizes_of_requests_hold_whole_drafts():
    counted = law_tables(captured(captured_on="requests", prefill="eager"), "ngram")
    ragged = StepShape(5.0, 5.0, 3.0, 9.0, 9.0, 14.0, 0.0, 320.0, 0.0, 0.0)
    assert graph_of(counted.regimes, ragged)[0] == 8 * 4  # a graph of 8 requests, 1 + γ = 4 each
    tree = StepShape(5.0, 5.0, 2.0, 35.0, 35.0, 40.0, 0.0, 320.0, 0.0, 0.0)
    assert graph_of(counted.regimes, tree)[0] == 8 * 8  # depth 2, 1 + 7 nodes
    assert decode_step(counted, 25, 64, 3).target_s >= 0.03


def test_prefill_runs_as_the_engine_runs_it():
    pieces = Regime(floor_s=0.025)
    assert target_s(captured(), prefill(20)) < 0.025
    assert target_s(captured(prefill="piecewise", piecewise=pieces), prefill(20)) == 0.025
    assert target_s(captured(prefill="eager"), prefill(20)) == 0.03


def test_sizes_beyond_the_full_graphs_run_in_pieces():
    tables = law_tables(captured(full_until=8, piecewise=Regime(floor_s=0.025)), None)
    assert decode_step(tables, 8, 64, 0).target_s < 0.025
    assert decode_step(tables, 9, 64, 0).target_s == 0.025
    assert decode_step(tables, 25, 64, 0).target_s == 0.03


def test_the_cost_never_falls_with_the_batch():
    tables = law_tables(captured(full_until=8, piecewise=Regime(floor_s=0.025)), "ngram")
    seconds = [decode_step(tables, batch, 64, 3).target_s for batch in range(1, 40)]
    assert all(later >= earlier for earlier, later in pairwise(seconds))


def test_communication_is_paid_on_padded_tokens():
    comm = TokenLaw(base_s=1e-3, per_token_s=1e-5)
    with_it = captured().model_copy(update={"comm": comm})
    step = decode_step(law_tables(with_it, None), 5, 64, 0)
    without = decode_step(law_tables(captured(), None), 5, 64, 0)
    assert step.target_s - without.target_s == pytest.approx(1e-3 + 8e-5)


def test_what_was_not_measured_is_refused():
    unmeasured = captured(eager=None)
    check_regimes(unmeasured, max_num_seqs=8, max_num_batched_tokens=24)
    check_regimes(PLAIN, max_num_seqs=8, max_num_batched_tokens=10_000)
    check_regimes(captured(), max_num_seqs=8, max_num_batched_tokens=10_000)
    with pytest.raises(ScenarioError, match=r"max_num_batched_tokens 25 .* last captured size, 24"):
        check_regimes(unmeasured, max_num_seqs=8, max_num_batched_tokens=25)
    on_requests = captured(captured_on="requests", prefill="eager", eager=None)
    with pytest.raises(ScenarioError, match="max_num_seqs 25"):
        check_regimes(on_requests, max_num_seqs=25, max_num_batched_tokens=100)
    with pytest.raises(ScenarioError, match="prefill runs eager"):
        check_regimes(on_requests, max_num_seqs=8, max_num_batched_tokens=100)
    with pytest.raises(ScenarioError, match="last captured size, 24"):
        decode_step(law_tables(unmeasured, None), 25, 64, 0)


@pytest.mark.parametrize(
    ("capture", "message"),
    [
        ({"sizes": (4, 2)}, "ascending"),
        ({"sizes": (0, 2)}, "ascending from 1"),
        ({"sizes": (2, 4), "captured_on": "requests"}, "expected 'eager'"),
        ({"sizes": (2, 4), "full_until": 2}, "`piecewise` is not given"),
        ({"sizes": (2, 4), "prefill": "piecewise"}, "`piecewise` is not given"),
    ],
)
def test_captured_sizes_that_contradict_themselves_are_refused(capture, message):
    with pytest.raises(ValueError, match=message):
        Capture(**capture)


def test_a_law_without_capture_pads_nothing():
    tables = law_tables(PLAIN, None)
    for tokens in np.linspace(1, 5000, 50):
        assert graph_of(tables.regimes, prefill(int(tokens))) == (
            float(int(tokens)),
            0,
        )
