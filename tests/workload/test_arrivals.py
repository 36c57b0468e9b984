"""Every kind of arrivals against its law, in standard errors."""

import numpy as np
import pytest
from scipy import stats

from simcore.errors import ScenarioError
from simcore.workload.sampling import sample_requests
from tests.workload.conftest import two_states

NUM_RUNS = 2000


def _arrivals_s(workload, seed=1):
    return sample_requests(workload, ("a",), None, seed=seed).arrival_s


# --- gamma ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("cv", [0.3, 1.0, 2.0])
def test_gamma_gaps_have_the_configured_rate_and_spread(make_workload, cv):
    arrivals = {"kind": "gamma", "rate_per_s": 4.0, "cv": cv}
    gaps_s = np.diff(_arrivals_s(make_workload(arrivals)), prepend=0.0)
    shape = cv**-2
    assert abs(gaps_s.mean() - 0.25) < 4 * 0.25 * cv / np.sqrt(len(gaps_s))
    # The variance of a sample variance: (kurtosis + 2) σ⁴ / n, with excess kurtosis 6 / shape.
    error = np.sqrt((6 / shape + 2) / len(gaps_s))
    assert abs(gaps_s.var() / (0.25 * cv) ** 2 - 1) < 4 * error
    assert stats.kstest(gaps_s, "gamma", args=(shape, 0, 0.25 / shape)).pvalue > 1e-3


def test_gamma_gaps_of_cv_one_are_exponential(make_workload):
    arrivals = {"kind": "gamma", "rate_per_s": 4.0, "cv": 1.0}
    gaps_s = np.diff(_arrivals_s(make_workload(arrivals)), prepend=0.0)
    assert stats.kstest(gaps_s, "expon", args=(0, 0.25)).pvalue > 1e-3


def test_gamma_gaps_of_cv_zero_are_equal(make_workload):
    arrivals = {"kind": "gamma", "rate_per_s": 4.0, "cv": 0.0}
    assert np.allclose(np.diff(_arrivals_s(make_workload(arrivals))), 0.25)


# --- Markov-modulated ----------------------------------------------------------------------------


def test_markov_modulated_counts_have_the_mean_and_variance_of_their_law(make_workload):
    workload = make_workload(two_states(), num_requests=300)
    until_s = 4.0
    counts = np.array(
        [np.searchsorted(_arrivals_s(workload, seed), until_s) for seed in range(NUM_RUNS)]
    )
    # Two states left at rates 2 and 2/3 a second: shares 1/4 and 3/4, mean rate 6.5 a second.
    mean = 6.5 * until_s
    leaving = 2.0 + 2.0 / 3.0
    memory_s = until_s - (1 - np.exp(-leaving * until_s)) / leaving
    variance = mean + 2 * (20.0 - 2.0) ** 2 * 0.25 * 0.75 / leaving * memory_s
    assert counts.max() < 300
    assert abs(counts.mean() - mean) < 4 * np.sqrt(variance / NUM_RUNS)
    assert abs(counts.var() / variance - 1) < 4 * np.sqrt(2.5 / NUM_RUNS)


def test_states_of_equal_rate_are_poisson(make_workload):
    states = [{"rate_per_s": 3.0, "mean_dwell_s": dwell_s} for dwell_s in (0.1, 2.0)]
    workload = make_workload({"kind": "markov_modulated", "states": states})
    gaps_s = np.diff(_arrivals_s(workload), prepend=0.0)
    assert stats.kstest(gaps_s, "expon", args=(0, 1 / 3)).pvalue > 1e-3


def test_a_silent_state_brings_nobody_while_it_lasts(make_workload):
    states = [
        {"rate_per_s": 1000.0, "mean_dwell_s": 1.0},
        {"rate_per_s": 0.0, "mean_dwell_s": 100.0},
    ]
    gaps_s = np.diff(_arrivals_s(make_workload({"kind": "markov_modulated", "states": states})))
    silences_s = gaps_s[gaps_s > 0.1]
    assert 5 < len(silences_s) < 60
    assert abs(silences_s.mean() - 100.0) < 4 * 100.0 / np.sqrt(len(silences_s))


def test_a_transition_matrix_sets_the_shares_of_time(make_workload):
    rates, dwells_s = (8.0, 4.0, 0.0), (1.0, 2.0, 4.0)
    arrivals = {
        "kind": "markov_modulated",
        "states": [
            {"rate_per_s": rate, "mean_dwell_s": dwell_s}
            for rate, dwell_s in zip(rates, dwells_s, strict=True)
        ],
        "transitions": [[0.0, 0.5, 0.5], [1.0, 0.0, 0.0], [1.0, 0.0, 0.0]],
    }
    workload = make_workload(arrivals, num_requests=3000)
    # Visits 2:1:1, weighed by how long they last.
    assert workload.arrivals.time_shares() == pytest.approx([0.25, 0.25, 0.5])
    assert workload.arrivals.mean_rate_per_s == pytest.approx(3.0)
    ends_s = np.array([_arrivals_s(workload, seed)[-1] for seed in range(200)])
    rates_per_s = 3000 / ends_s
    error = rates_per_s.std() / np.sqrt(len(rates_per_s))
    assert abs(rates_per_s.mean() - 3.0) < 4 * error + 3.0 * rates_per_s.var() / 9.0


def test_more_requests_begin_with_the_same_ones(make_workload):
    for arrivals in (two_states(), {"kind": "gamma", "rate_per_s": 4.0, "cv": 2.0}):
        few = _arrivals_s(make_workload(arrivals, num_requests=100))
        many = _arrivals_s(make_workload(arrivals, num_requests=1000))
        assert few == pytest.approx(many[:100])


# --- ramp ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("first", "last"), [(0.0, 30.0), (30.0, 1.0), (5.0, 5.0)])
def test_a_ramp_brings_what_the_integral_of_its_rate_says(make_workload, first, last):
    ramp = {"kind": "ramp", "from_rate_per_s": first, "to_rate_per_s": last, "duration_s": 400.0}
    times_s = _arrivals_s(make_workload(ramp, num_requests=8000))
    inside_s = np.minimum(times_s, 400.0)
    expected = first * inside_s + (last - first) * inside_s**2 / 800.0
    expected += last * (times_s - inside_s)
    # On the scale of expected requests the arrivals are a Poisson process of rate 1.
    assert (times_s > 400.0).any()
    assert stats.kstest(np.diff(expected, prepend=0.0), "expon").pvalue > 1e-3


# --- recorded ------------------------------------------------------------------------------------

ROWS = [(10.0, 11, 2), (12.0, 12, 3), (12.0, 13, 4), (20.0, 14, 5)]


@pytest.mark.parametrize(
    ("changes", "expected_s"),
    [
        ({}, [0.0, 2.0, 2.0, 10.0]),
        ({"rate_scale": 4.0}, [0.0, 0.5, 0.5, 2.5]),
        ({"start_s": 1.5}, [0.5, 0.5, 8.5]),
        ({"start_s": 2.0, "rate_scale": 2.0, "max_requests": 3}, [0.0, 0.0, 4.0]),
        ({"max_requests": 2}, [0.0, 2.0]),
    ],
)
def test_recorded_arrivals_are_those_of_the_file(make_workload, request_file, changes, expected_s):
    arrivals = {"kind": "recorded", "path": request_file(ROWS)} | changes
    workload = make_workload(arrivals, num_requests=None)
    assert _arrivals_s(workload) == pytest.approx(expected_s)
    assert np.array_equal(_arrivals_s(workload, seed=1), _arrivals_s(workload, seed=2))


@pytest.mark.parametrize(
    ("changes", "num_requests", "message"),
    [
        ({}, 5, "gives 4 requests .* num_requests is 5; lower it, or set it to null"),
        ({"max_requests": 2}, 3, "gives 2 requests"),
        ({"start_s": 11.0}, None, "ends 10 s after its first request; expected .* lower it"),
        ({"path": "/nowhere/a.csv"}, None, "/nowhere/a.csv is not there"),
    ],
)
def test_a_file_that_gives_too_little_is_refused(
    make_workload, request_file, changes, num_requests, message
):
    arrivals = {"kind": "recorded", "path": request_file(ROWS)} | changes
    workload = make_workload(arrivals, num_requests=num_requests)
    with pytest.raises(ScenarioError, match=message):
        _arrivals_s(workload)


def test_a_file_of_lengths_has_no_arrivals(make_workload, tmp_path):
    path = tmp_path / "lengths.csv"
    path.write_text("prompt_tokens,output_tokens\n3,4\n")
    for start_s in (0.0, 1.0):
        recorded = {"kind": "recorded", "path": str(path), "start_s": start_s}
        with pytest.raises(ScenarioError, match="holds no arrival times; use another kind"):
            _arrivals_s(make_workload(recorded, num_requests=None))


# --- all kinds -----------------------------------------------------------------------------------


def test_poisson_arrivals_are_the_first_stream_of_the_seed(make_workload):
    stream = np.random.SeedSequence(9).spawn(4)[0]
    gaps_s = np.random.default_rng(stream).exponential(1 / 3.0, size=50)
    workload = make_workload({"kind": "poisson", "rate_per_s": 3.0}, num_requests=50)
    assert np.array_equal(_arrivals_s(workload, seed=9), np.cumsum(gaps_s))


@pytest.mark.parametrize(
    "arrivals",
    [
        {"kind": "batch"},
        {"kind": "gamma", "rate_per_s": 4.0, "cv": 2.0},
        two_states(),
        {"kind": "ramp", "from_rate_per_s": 1.0, "to_rate_per_s": 9.0, "duration_s": 60.0},
    ],
)
def test_arrivals_move_neither_lengths_nor_domains(make_workload, arrivals):
    tokens = {"mean_tokens": 40, "cv": 0.7, "max_tokens": 400}
    lengths = {"kind": "lognormal", "prompt": tokens, "output": tokens}
    first = make_workload({"kind": "poisson", "rate_per_s": 1.0}, 500, lengths)
    second = make_workload(arrivals, 500, lengths)
    one, two = (sample_requests(each, ("a", "b"), None, seed=5) for each in (first, second))
    for name in ("prompt_tokens", "output_tokens", "domain"):
        assert np.array_equal(getattr(one, name), getattr(two, name))
