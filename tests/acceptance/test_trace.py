"""Traces, the renewal walk and the models that replay them."""

import numpy as np
import pytest

from simcore.acceptance.counter_random import STREAM_ACCEPTANCE
from simcore.acceptance.counter_random import uniform as inner_uniform
from simcore.acceptance.model import draw_cycle as inner_draw_cycle
from simcore.acceptance.model import next_trace as inner_next_trace
from simcore.acceptance.model import positional_from_traces, trace_model
from simcore.acceptance.survival import mean_emitted_tokens, survival_from_conditional
from simcore.acceptance.trace import TraceSet, walk
from simcore.matching import load_traces, matching_records
from tests.factories import Recording, make_profile, make_scenario, sampled
from tests.from_python import from_python

draw_cycle = from_python(inner_draw_cycle)
next_trace = from_python(inner_next_trace)
uniform = from_python(inner_uniform)


@pytest.fixture(scope="module")
def traces(recorded_profile) -> TraceSet:
    records = matching_records(recorded_profile, make_scenario(recorded_profile), "ngram")
    return load_traces(recorded_profile, records)


def _walk_in_plain_python(traces: TraceSet, gamma: int, start: int):
    cycles = []
    for offset, length in zip(traces.offset, traces.output_tokens, strict=True):
        position = start
        while position < length:
            accepted = min(int(traces.accepted[offset + position]), gamma)
            cycles.append((accepted, min(accepted + 1, length - position)))
            position += accepted + 1
    return cycles


@pytest.mark.parametrize("gamma", [0, 1, 3, 8])
@pytest.mark.parametrize("start", [0, 1])
def test_the_walk_equals_a_plain_loop_over_the_same_lists(traces, gamma, start):
    expected = _walk_in_plain_python(traces, gamma, start)
    found = walk(traces, gamma, start=start)
    assert found.accepted.tolist() == [cycle[0] for cycle in expected]
    assert found.emitted.tolist() == [cycle[1] for cycle in expected]


def test_a_walk_emits_every_token_after_its_start(traces):
    found = walk(traces, 5)
    assert found.emitted.sum() == (traces.output_tokens - 1).sum()


def test_cycle_starts_show_fewer_tokens_than_all_positions(traces):
    by_cycle = walk(traces, 5).accepted.mean()
    by_position = np.minimum(traces.accepted, 5).mean()
    assert by_cycle < by_position


def test_a_continuation_is_another_request_of_the_same_domain(traces):
    tables = trace_model(traces).tables
    for current in range(traces.num_requests):
        chosen = next_trace(tables, np.uint64(5), 17, 1, current)
        assert chosen != current
        assert traces.domain[chosen] == traces.domain[current]


def test_strata_hold_every_request_once(traces):
    strata = traces.strata
    assert sorted(strata.members) == list(range(traces.num_requests))
    for request in range(traces.num_requests):
        assert request in strata.members[strata.begin[request] : strata.end[request]]


def test_positional_rates_predict_the_walk_they_were_counted_on(traces):
    model = positional_from_traces(traces, 4)
    for index, name in enumerate(model.domain_names):
        rates = model.tables.conditional[0, index].copy()
        rates[0] *= model.tables.match_probability[0, index]
        cycles = walk(traces, 4, requests=traces.requests_of(name))
        expected = mean_emitted_tokens(survival_from_conditional(rates))
        assert expected == pytest.approx(cycles.accepted.mean() + 1)


def test_uniform_numbers_are_uniform_and_keyed():
    draws = np.array([uniform(np.uint64(1), STREAM_ACCEPTANCE, 3, k) for k in range(20_000)])
    standard_error = np.sqrt(1 / 12 / len(draws))
    assert abs(draws.mean() - 0.5) < 4 * standard_error
    assert abs(np.corrcoef(draws[:-1], draws[1:])[0, 1]) < 4 / np.sqrt(len(draws))
    assert uniform(np.uint64(1), STREAM_ACCEPTANCE, 3, 9) == draws[9]
    assert uniform(np.uint64(2), STREAM_ACCEPTANCE, 3, 9) != draws[9]
    assert uniform(np.uint64(1), STREAM_ACCEPTANCE, 4, 9) != draws[9]


def test_sampled_replay_accepts_each_depth_with_its_own_ratio(tmp_path):
    stored = make_profile(tmp_path / "one", Recording(acceptance=0.7))
    scenario = make_scenario(stored, **sampled({"speculation.proposer": "draft_model"}))
    tables = trace_model(load_traces(stored, matching_records(stored, scenario, "draft_model")))
    accepted = np.array(
        [draw_cycle(tables.tables, np.uint64(seed), 0, 0, 5, 5, 0, 8)[1] for seed in range(20_000)]
    )
    for depth in range(1, 6):
        expected = 0.7**depth
        error = np.sqrt(expected * (1 - expected) / len(accepted))
        assert abs((accepted >= depth).mean() - expected) < 4 * error


# The published replay of llama-3.1-8B traces: every request, walked from position 0.
PUBLISHED = [
    ("gsm8k", "emitted_eagle", {1: 1.693, 3: 2.379, 5: 2.651, 7: 2.750}),
    ("instructcoder", "emitted_ngram", {1: 1.509, 3: 2.028, 7: 2.447}),
]


@pytest.mark.parametrize(("name", "column", "published"), PUBLISHED)
def test_the_walk_reproduces_published_tokens_a_cycle(shared_data, name, column, published):
    path = shared_data / "specdecode-bench" / f"llama31_8b_h100_{name}.parquet"
    if not path.exists():
        pytest.skip(f"{path.name} is not beside the project")
    traces = _from_emitted_lists(path, column)
    for gamma, expected in published.items():
        found = walk(traces, gamma, start=0)
        assert found.emitted.sum() / len(found.emitted) == pytest.approx(expected, abs=0.0006)


def _from_emitted_lists(path, column) -> TraceSet:
    import pyarrow.parquet as pq

    lists = pq.read_table(path, columns=[column]).column(column).combine_chunks()
    lengths = lists.value_lengths().to_numpy()
    emitted = lists.flatten().to_numpy().astype(np.int64)
    return TraceSet(
        domain_names=("all",),
        accepted=(emitted - 1).astype(np.int8),
        proposed=np.full(len(emitted), 21, dtype=np.int8),
        ratio=np.zeros((len(emitted), 0)),
        offset=(np.cumsum(lengths) - lengths).astype(np.int64),
        output_tokens=lengths.astype(np.int64),
        prompt_tokens=np.ones(len(lengths), dtype=np.int64),
        domain=np.zeros(len(lengths), dtype=np.int64),
        max_gamma=21,
    )
