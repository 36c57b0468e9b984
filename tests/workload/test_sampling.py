"""Samplers against their stated laws, in standard errors."""

import numpy as np
import pytest
from scipy import stats

from simcore.scenario import Workload
from simcore.workload.sampling import sample_requests


def _workload(**changes):
    raw = {
        "arrivals": {"kind": "poisson", "rate_per_s": 3.0},
        "lengths": {
            "kind": "lognormal",
            "prompt": {"mean_tokens": 400, "cv": 0.7, "max_tokens": 100_000},
            "output": {"mean_tokens": 150, "cv": 1.2, "max_tokens": 100_000},
        },
        "num_requests": 50_000,
    }
    return Workload.model_validate(raw | changes)


def test_poisson_gaps_are_exponential_with_the_configured_rate():
    batch = sample_requests(_workload(), ("a",), None, seed=1)
    gaps_s = np.diff(batch.arrival_s, prepend=0.0)
    assert stats.kstest(gaps_s, "expon", args=(0, 1 / 3.0)).pvalue > 1e-3
    assert abs(gaps_s.mean() - 1 / 3.0) < 4 * (1 / 3.0) / np.sqrt(len(gaps_s))


@pytest.mark.parametrize(("name", "mean", "cv"), [("prompt", 400, 0.7), ("output", 150, 1.2)])
def test_lognormal_lengths_have_the_configured_mean_and_spread(name, mean, cv):
    tokens = getattr(sample_requests(_workload(), ("a",), None, seed=2), f"{name}_tokens")
    assert abs(tokens.mean() - mean) < 4 * mean * cv / np.sqrt(len(tokens))
    assert tokens.std() / tokens.mean() == pytest.approx(cv, rel=0.05)
    assert tokens.min() >= 1


def test_domains_come_with_their_weights():
    batch = sample_requests(_workload(domains={"a": 3.0, "b": 1.0}), ("a", "b"), None, seed=3)
    share = (batch.domain == 0).mean()
    assert abs(share - 0.75) < 4 * np.sqrt(0.75 * 0.25 / 50_000)


def test_lengths_do_not_move_arrivals():
    short = _workload(
        lengths={
            "kind": "lognormal",
            "prompt": {"mean_tokens": 10, "cv": 0, "max_tokens": 10},
            "output": {"mean_tokens": 10, "cv": 0, "max_tokens": 10},
        }
    )
    first = sample_requests(_workload(), ("a",), None, seed=4)
    second = sample_requests(short, ("a",), None, seed=4)
    assert np.array_equal(first.arrival_s, second.arrival_s)
    assert np.array_equal(first.domain, second.domain)
