"""Turns of sessions and clients of a closed loop: how many, who follows whom, how long between."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from scipy import stats

from simcore.scenario import Workload
from simcore.workload.load import as_batch, at_mean_rate, mean_rate_per_s, mean_turns
from simcore.workload.sampling import sample_requests
from simcore.workload.turns import NONE, sample_turns, think_s, with_history
from simcore.workload_kinds import ThinkTime
from tests.workload.conftest import FIXED, two_states

POISSON = {"kind": "poisson", "rate_per_s": 4.0}
LOGNORMAL = {
    "kind": "lognormal",
    "prompt": {"mean_tokens": 30, "cv": 1.0, "max_tokens": 200},
    "output": {"mean_tokens": 20, "cv": 1.0, "max_tokens": 200},
}


def _workload(sessions=None, count=20_000, arrivals=POISSON, **changes):
    raw = {"arrivals": arrivals, "lengths": LOGNORMAL, "num_requests": count, "sessions": sessions}
    return Workload.model_validate(raw | changes)


def _turns(workload, seed=1):
    return sample_turns(workload, workload.num_requests, np.random.default_rng(seed))


def _chains(turns) -> list[list[int]]:
    chains = []
    for first in range(turns.num_open):
        chain = [first]
        while turns.follower[chain[-1]] != NONE:
            chain.append(int(turns.follower[chain[-1]]))
        chains.append(chain)
    return chains


def _lengths(turns) -> np.ndarray:
    return np.bincount(turns.session)


@pytest.mark.parametrize(("mean_turns_asked", "max_turns"), [(1.5, 3), (3.0, 100), (6.0, 8)])
def test_turns_are_geometric_cut_at_the_most(mean_turns_asked, max_turns):
    workload = _workload({"mean_turns": mean_turns_asked, "max_turns": max_turns}, 200_000)
    lengths = _lengths(_turns(workload))[:-1]  # the last may be cut short by num_requests
    asked = np.arange(1, max_turns + 1)
    chance = stats.geom.pmf(asked, 1 / mean_turns_asked)
    chance[-1] += stats.geom.sf(max_turns, 1 / mean_turns_asked)
    seen = np.bincount(lengths, minlength=max_turns + 1)[1:]
    error = 4 * np.sqrt(chance * (1 - chance) / len(lengths)) + 1e-5
    assert (np.abs(seen / len(lengths) - chance) < error).all()
    assert mean_turns(workload) == pytest.approx(float(chance @ asked))


def test_fixed_sessions_have_all_as_many_turns_but_the_last():
    turns = _turns(_workload({"mean_turns": 7, "turns": "fixed"}, 100))
    assert _lengths(turns).tolist() == [7] * 14 + [2]
    assert turns.num_open == 15


@given(
    count=st.integers(1, 80),
    mean=st.floats(1.0, 9.0),
    kind=st.sampled_from(["geometric", "fixed"]),
    seed=st.integers(0, 2**30),
)
def test_turns_form_one_chain_a_session_with_the_first_turns_first(count, mean, kind, seed):
    sessions = {"mean_turns": round(mean) if kind == "fixed" else mean, "turns": kind}
    turns = _turns(_workload(sessions, count), seed)
    chains = _chains(turns)
    assert sorted(index for chain in chains for index in chain) == list(range(count))
    for number, chain in enumerate(chains):
        assert chain == sorted(chain)
        assert (turns.session[chain] == number).all()
    assert (turns.think_s[: turns.num_open] == 0.0).all()
    assert (turns.think_s[turns.num_open :] > 0.0).all()


@given(
    mean=st.floats(1.0, 9.0), count=st.integers(1, 60), seed=st.integers(0, 2**30), data=st.data()
)
def test_history_adds_up_turn_by_turn(mean, count, seed, data):
    turns = _turns(_workload({"mean_turns": mean}, count), seed)
    tokens = st.lists(st.integers(1, 1000), min_size=count, max_size=count)
    prompt, output = (np.array(data.draw(tokens)) for _ in range(2))
    whole = with_history(turns, prompt, output)
    for chain in _chains(turns):
        said = 0
        for index in chain:
            assert whole[index] == said + prompt[index]
            said = whole[index] + output[index]


def test_a_session_stays_with_its_domain_and_its_prefix():
    domains = {
        "a": {"weight": 1.0, "shared_prefix_tokens": 32, "num_prefixes": 5},
        "b": {"weight": 1.0},
    }
    workload = _workload({"mean_turns": 4.0}, 3000, domains=domains)
    batch = sample_requests(workload, ("a", "b"), None, seed=5)
    for values in (batch.domain, batch.group):
        for chain in _chains(batch.turns):
            assert len(set(values[chain].tolist())) == 1
    assert set(batch.group[batch.domain == 0].tolist()) == set(range(5))
    assert set(batch.group[batch.domain == 1].tolist()) == {NONE}


@pytest.mark.parametrize("cv", [0.5, 1.0, 2.0])
def test_think_times_are_gamma_with_the_configured_mean_and_spread(cv):
    times_s = think_s(ThinkTime(mean_s=3.0, cv=cv), 50_000, np.random.default_rng(2))
    law = stats.gamma(1 / cv**2, scale=3.0 * cv**2)
    assert stats.kstest(times_s, law.cdf).pvalue > 1e-3


@pytest.mark.parametrize("cv", [0.0, 1e-200, 1e-9])
def test_think_times_without_spread_are_all_alike(cv):
    assert (think_s(ThinkTime(mean_s=3.0, cv=cv), 9, np.random.default_rng(2)) == 3.0).all()


def test_think_times_move_no_arrival_and_no_length():
    slow = _workload({"mean_turns": 3.0, "think": {"mean_s": 100.0}})
    fast = _workload({"mean_turns": 3.0, "think": {"mean_s": 0.1, "cv": 0.0}})
    one, other = (sample_requests(each, ("a",), None, seed=3) for each in (slow, fast))
    for name in ("arrival_s", "prompt_tokens", "output_tokens", "domain"):
        assert np.array_equal(getattr(one, name), getattr(other, name))
    assert np.array_equal(one.turns.follower, other.turns.follower)


def test_clients_of_a_closed_loop_begin_by_thinking():
    arrivals = {"kind": "closed_loop", "num_clients": 5000, "think": {"mean_s": 2.0}}
    batch = sample_requests(_workload(None, arrivals=arrivals), ("a",), None, seed=4)
    assert batch.turns.num_open == 5000
    first_s = batch.arrival_s[:5000]
    assert (np.diff(first_s) >= 0.0).all()
    assert stats.kstest(first_s, "expon", args=(0, 2.0)).pvalue > 1e-3


def test_fewer_requests_than_clients_leave_some_without_one():
    arrivals = {"kind": "closed_loop", "num_clients": 50}
    turns = _turns(_workload(None, 8, arrivals))
    assert turns.num_open == 8
    assert (turns.follower == NONE).all()


RAMP = {"kind": "ramp", "from_rate_per_s": 1.0, "to_rate_per_s": 9.0, "duration_s": 50.0}


@pytest.mark.parametrize(
    ("arrivals", "sessions_per_s"),
    [
        (POISSON, 4.0),
        ({"kind": "gamma", "rate_per_s": 4.0, "cv": 2.0}, 4.0),
        (two_states(), 6.5),
        (RAMP, None),
    ],
)
@pytest.mark.parametrize("turns", ["geometric", "fixed"])
def test_the_load_counts_every_turn_and_scales(arrivals, sessions_per_s, turns):
    workload = _workload({"mean_turns": 3.0, "max_turns": 5, "turns": turns}, arrivals=arrivals)
    rate_per_s = mean_rate_per_s(workload)
    if sessions_per_s is not None:
        assert rate_per_s == pytest.approx(sessions_per_s * mean_turns(workload))
    seen = []
    for seed in range(30):
        batch = sample_requests(workload, ("a",), None, seed=seed)
        seen.append(20_000 / batch.arrival_s[batch.turns.num_open - 1])
    assert abs(np.mean(seen) - rate_per_s) < 4 * np.std(seen) / np.sqrt(30) + 2e-3 * rate_per_s
    faster = at_mean_rate(workload, 2.5 * rate_per_s)
    assert mean_rate_per_s(faster) == pytest.approx(2.5 * rate_per_s)
    assert faster.sessions == workload.sessions


def test_at_a_load_of_its_own_a_closed_loop_becomes_poisson_and_a_batch_has_no_turns():
    closed = _workload(None, arrivals={"kind": "closed_loop", "num_clients": 3})
    assert mean_rate_per_s(closed) is None
    assert at_mean_rate(closed, 5.0).arrivals.rate_per_s == 5.0
    together = _workload({"mean_turns": 4, "turns": "fixed"}, arrivals={"kind": "batch"})
    assert at_mean_rate(together, 8.0).arrivals.rate_per_s == 2.0
    assert as_batch(_workload({"mean_turns": 4.0}), 10).sessions is None


CLOSED = {"kind": "closed_loop", "num_clients": 3}
RECORDED = {"kind": "recorded", "path": "a.csv"}
ROWS = {"kind": "file_rows", "file": {"path": "a.csv"}}
THREE = {"mean_turns": 3.0}
BAD = {
    "a loop of sessions": ({"sessions": THREE, "arrivals": CLOSED}, "these say themselves who"),
    "recorded sessions": ({"sessions": THREE, "arrivals": RECORDED}, "these say themselves who"),
    "sessions of rows": ({"sessions": THREE, "lengths": ROWS}, "these say themselves who"),
    "more on average than at most": (
        {"sessions": {"mean_turns": 9.0, "max_turns": 4}},
        "mean_turns 9.0 exceeds max_turns 4; raise it",
    ),
    "half a turn": (
        {"sessions": {"mean_turns": 2.5, "turns": "fixed"}},
        "mean_turns 2.5; expected a whole number when fixed",
    ),
    "no turn": ({"sessions": {"mean_turns": 0.0}}, "greater than or equal to 1"),
    "no number of turns": ({"sessions": {"mean_turns": float("nan")}}, "finite number"),
    "endless turns": ({"sessions": {"mean_turns": 3.0, "max_turns": 10**9}}, "less than or equal"),
    "negative think time": (
        {"sessions": {"mean_turns": 3.0, "think": {"mean_s": -1.0}}},
        "greater than or equal to 0",
    ),
    "endless think time": (
        {"arrivals": {**CLOSED, "think": {"mean_s": float("inf")}}},
        "finite number",
    ),
    "wild think time": (
        {"arrivals": {**CLOSED, "think": {"cv": 1e9}}},
        "less than or equal to 100",
    ),
    "nobody": (
        {"arrivals": {"kind": "closed_loop", "num_clients": 0}},
        "greater than or equal to 1",
    ),
    "a crowd": ({"arrivals": {"kind": "closed_loop", "num_clients": 10**9}}, "less than or equal"),
    "a loop without end": ({"arrivals": CLOSED, "num_requests": None}, "num_requests is null"),
    "a negative prefix": (
        {"domains": {"a": {"shared_prefix_tokens": -1}}},
        "greater than or equal",
    ),
    "no prefix at all": ({"domains": {"a": {"num_prefixes": 0}}}, "greater than or equal to 1"),
    "a weight of nothing": ({"domains": {"a": {"weight": 0.0}}}, "greater than 0"),
}


@pytest.mark.parametrize("domain", [{"weight": -1.0}, {"wait": 1.0}, "many", -2.0, None])
def test_a_wrong_share_is_one_error_whichever_way_it_is_spelt(domain):
    raw = {"arrivals": POISSON, "lengths": FIXED, "num_requests": 10, "domains": {"a": domain}}
    with pytest.raises(ValidationError) as error:
        Workload.model_validate(raw)
    assert error.value.error_count() == 1


@pytest.mark.parametrize(("changes", "message"), BAD.values(), ids=BAD)
def test_turns_that_contradict_themselves_are_refused_in_a_sentence(changes, message):
    raw = {"arrivals": POISSON, "lengths": FIXED, "num_requests": 10}
    with pytest.raises(ValidationError, match=re.escape(message)):
        Workload.model_validate(raw | changes)
