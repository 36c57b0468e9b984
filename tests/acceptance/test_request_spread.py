"""How requests differ, and the mistake of counting every position."""

import numpy as np
import pytest

from simcore.acceptance.request_spread import count_every_position, request_spread
from simcore.acceptance.trace import TraceSet, walk


def _traces(requests: list[list[int]], longest: int = 8) -> TraceSet:
    lengths = np.array([len(each) for each in requests])
    accepted = np.concatenate([np.array(each, dtype=np.int8) for each in requests])
    return TraceSet(
        domain_names=("all",),
        accepted=accepted,
        proposed=np.full(len(accepted), longest, dtype=np.int8),
        ratio=np.zeros((len(accepted), 0)),
        offset=np.cumsum(lengths) - lengths,
        output_tokens=lengths,
        prompt_tokens=np.ones(len(lengths), dtype=np.int64),
        domain=np.zeros(len(lengths), dtype=np.int64),
        max_gamma=longest,
    )


def test_positions_over_count_a_long_accepted_run():
    """One run of 4 after a miss: starts at 1 (A = 0) and 2 (A = 4), and three positions inside."""
    traces = _traces([[0, 0, 4, 3, 2, 1, 0]])
    assert walk(traces, 4).accepted.tolist() == [0, 4]
    counted = count_every_position(traces, 4)
    assert counted.survival == pytest.approx((4 / 6, 3 / 6, 2 / 6, 1 / 6))
    assert counted.mean_emitted_tokens == pytest.approx(1 + 10 / 6)


def test_every_position_is_right_where_nothing_or_everything_is_accepted():
    none, all_ = _traces([[0] * 50]), _traces([[4] * 50])
    assert count_every_position(none, 4).mean_emitted_tokens == 1.0
    assert count_every_position(all_, 4).mean_emitted_tokens == 5.0


def test_easy_and_hard_requests_spread_more_than_independent_draws():
    requests = [[0] * 61] * 10 + [[8] * 61] * 10
    found = request_spread(_traces(requests), 2)
    assert found.recorded.tolist() == [1.0] * 10 + [3.0] * 10
    assert found.recorded_sd == pytest.approx(1.0)
    assert found.independent_sd < 0.3
    assert found.slowest_recorded == 1.0 < found.slowest_independent
    assert found.lag1.pooled == pytest.approx(1.0)


def test_requests_of_independent_cycles_spread_as_independent_draws_do():
    random = np.random.default_rng(3)
    requests = [list(random.geometric(0.5, 400) - 1) for _ in range(300)]
    clipped = [[min(int(each), 8) for each in request] for request in requests]
    found = request_spread(_traces(clipped), 3)
    assert found.recorded_sd == pytest.approx(found.independent_sd, rel=0.2)
    assert found.recorded.mean() == pytest.approx(found.independent.mean(), rel=0.02)
    assert abs(found.lag1.pooled or 0.0) < 0.05


def test_the_same_seed_gives_the_same_draws():
    traces = _traces([[0, 2, 1, 0, 3, 2, 1, 0] * 4] * 3)
    first, again = request_spread(traces, 3, seed=5), request_spread(traces, 3, seed=5)
    assert np.array_equal(first.independent, again.independent)
