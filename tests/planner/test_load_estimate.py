"""The closed form under load: its laws, what it refuses, and a service that it must match."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simcore import ScenarioError, estimate_load, load_basis, simulate, summarise
from simcore.planner.break_even import at_rate
from simcore.planner.load.accuracy import METRICS, REGIMES, load_accuracy, regime_of
from simcore.workload.load import as_batch
from tests.factories import make_scenario

GAMMAS = (0, 1, 4, 8)
LENGTHS = {
    "kind": "lognormal",
    "prompt": {"mean_tokens": 40, "cv": 0.7, "max_tokens": 200},
    "output": {"mean_tokens": 60, "cv": 0.8, "max_tokens": 300},
}


@pytest.fixture(scope="module")
def service(recorded_profile):
    """(stored, scenario, basis) of the invented service."""
    scenario = make_scenario(
        recorded_profile,
        **{"workload.lengths": LENGTHS, "deployment.max_num_batched_tokens": 1024},
    )
    return recorded_profile, scenario, load_basis(recorded_profile, scenario)


def _at(service, **changes):
    stored, scenario, basis = service
    return estimate_load(stored, scenario.with_(**changes), basis)


def _loaded(service, share, **changes):
    """At a share of what it can carry."""
    stored, scenario, basis = service
    scenario = scenario.with_(**changes)
    most = estimate_load(stored, scenario, basis).max_rate_per_s
    return estimate_load(stored, at_rate(scenario, share * most), basis)


@settings(max_examples=25)
@given(
    gamma=st.sampled_from(GAMMAS),
    share=st.floats(0.02, 0.98),
    seats=st.integers(1, 24),
    replicas=st.integers(1, 4),
    cv=st.floats(0.1, 3.0),
    kv=st.integers(600, 20_000),
)
def test_littles_law_holds_inside_the_result(service, gamma, share, seats, replicas, cv, kv):
    found = _loaded(
        service,
        share,
        **{
            "speculation.num_speculative_tokens": gamma,
            "deployment.max_num_seqs": seats,
            "deployment.replicas": replicas,
            "deployment.kv_cache_tokens": kv,
            "workload.arrivals": {"kind": "gamma", "rate_per_s": 1.0, "cv": cv},
        },
    )
    assert found.is_stable
    running_s = found.e2e_s - found.queue_s
    rate = found.offered_rate_per_s / replicas
    assert found.batch_size == pytest.approx(rate * running_s, rel=1e-9)
    assert found.batch_size <= found.max_batch_size * (1 + 1e-9)
    assert found.max_batch_size <= seats
    assert 1.0 <= found.emitted_tokens_per_cycle <= (gamma + 1.0) * (1 + 1e-9)
    assert found.e2e_s >= found.ttft_s >= found.queue_s >= 0.0
    assert found.utilization == pytest.approx(share, rel=1e-6)
    assert 0.0 <= found.busy_fraction <= 1.0


@settings(max_examples=25)
@given(
    gamma=st.sampled_from(GAMMAS),
    shares=st.lists(st.floats(0.01, 0.99), min_size=2, max_size=2, unique=True),
    seats=st.integers(1, 24),
    preset=st.sampled_from(["plain", "vllm", "sglang", "llama_cpp"]),
)
def test_tpot_e2e_and_batch_never_fall_with_load(service, gamma, shares, seats, preset):
    changes = {
        "speculation.num_speculative_tokens": gamma,
        "deployment.preset": preset,
        "deployment.max_num_seqs": seats,
        "deployment.kv_cache_tokens": 20_000,
    }
    less, more = (_loaded(service, share, **changes) for share in sorted(shares))
    for name in ("tpot_s", "e2e_s", "batch_size", "busy_fraction"):
        assert getattr(more, name) >= getattr(less, name) * (1 - 1e-9), name


@settings(max_examples=10)
@given(replicas=st.integers(1, 64), gamma=st.sampled_from(GAMMAS))
def test_the_bound_grows_with_the_number_of_replicas(service, replicas, gamma):
    change = {"speculation.num_speculative_tokens": gamma}
    one = _at(service, **change).max_rate_per_s
    many = _at(service, **{"deployment.replicas": replicas}, **change).max_rate_per_s
    assert many == pytest.approx(replicas * one, rel=1e-12)


def test_the_bound_never_falls_with_more_memory_or_seats(service):
    rates = [
        _at(service, **{"deployment.kv_cache_tokens": kv}).max_rate_per_s
        for kv in (400, 600, 800, 1200, 2400, 4800)
    ]
    assert (np.diff(rates) >= -1e-9).all()
    rates = [
        _at(
            service, **{"deployment.max_num_seqs": seats, "deployment.kv_cache_tokens": 50_000}
        ).max_rate_per_s
        for seats in (1, 2, 4, 8, 16, 32)
    ]
    assert (np.diff(rates) > 0).all()


def test_at_gamma_0_the_proposer_is_not_loaded(service):
    stored, scenario, basis = service
    off = scenario.with_(**{"speculation": {}})
    named = scenario.with_(**{"speculation.num_speculative_tokens": 0})
    assert estimate_load(stored, off, basis) == estimate_load(stored, named, basis)


def test_a_table_that_never_drafts_is_off_but_for_the_loaded_proposers_tax(service):
    stored, scenario, _ = service
    never = {"speculation.policy": {"kind": "batch_size_table", "table": [[1, 64, 0]]}}
    off = _at(service, **{"speculation.num_speculative_tokens": 0})
    free = _at(service, **never)
    for name in ("tpot_s", "e2e_s", "batch_size", "max_rate_per_s", "emitted_tokens_per_cycle"):
        assert getattr(free, name) == pytest.approx(getattr(off, name), rel=1e-9)
    law = stored.profile.cost
    taxed = law.model_copy(update={"idle_propose": {"ngram": law.propose["draft_model"]}})
    costly = replace(stored, profile=stored.profile.model_copy(update={"cost": taxed}))
    changed = scenario.with_(**never)
    assert estimate_load(costly, changed, load_basis(costly, changed)).tpot_s > off.tpot_s


def test_goodput_is_never_slower_than_any_length_that_it_may_choose(service):
    chosen = _at(service, **{"speculation.policy": {"kind": "goodput"}})
    rates = [
        _at(service, **{"speculation.num_speculative_tokens": gamma}).max_rate_per_s
        for gamma in range(5)
    ]
    assert chosen.max_rate_per_s >= max(rates) * (1 - 1e-9)


def test_beyond_the_bound_nothing_has_a_mean_but_the_service_works_at_its_most(service):
    found = _loaded(service, 1.5)
    assert not found.is_stable
    assert (found.queue_s, found.ttft_s, found.e2e_s) == (None, None, None)
    assert found.batch_size == found.max_batch_size
    assert found.output_tokens_per_s == pytest.approx(
        _loaded(service, 0.999).output_tokens_per_s, rel=0.01
    )


def test_a_closed_loop_reaches_what_its_clients_ask_for(service):
    clients, think_s = 5, 2.0
    arrivals = {"kind": "closed_loop", "num_clients": clients, "think": {"mean_s": think_s}}
    found = _at(service, **{"workload.arrivals": arrivals})
    around_s = think_s + found.e2e_s
    assert found.offered_rate_per_s == pytest.approx(clients / around_s, rel=0.05)


def test_an_offline_batch_takes_as_long_as_simulated(service):
    stored, scenario, basis = service
    batch = scenario.with_(workload=as_batch(scenario.workload, 400))
    found = estimate_load(stored, batch, basis)
    result = simulate(batch, stored=stored)
    assert found.makespan_s == pytest.approx(summarise(result).duration_s, rel=0.1)


@pytest.mark.parametrize("gamma", GAMMAS)
def test_a_service_with_room_is_met_within_a_few_per_cent(service, gamma):
    stored, scenario, basis = service
    change = {"speculation.num_speculative_tokens": gamma, "workload.num_requests": 3000}
    scenario = scenario.with_(**change)
    most = estimate_load(stored, scenario, basis).max_rate_per_s
    scenario = at_rate(scenario, 0.5 * most)
    found = estimate_load(stored, scenario, basis)
    summary = summarise(simulate(scenario, stored=stored))
    assert found.tpot_s == pytest.approx(summary.tpot.mean_s, rel=0.05)
    assert found.e2e_s == pytest.approx(summary.e2e.mean_s, rel=0.06)
    tokens = summary.tokens.mean_acceptance_length
    assert found.emitted_tokens_per_cycle == pytest.approx(tokens, rel=0.03)


def test_slow_requests_count_by_their_cycles_and_not_by_their_tokens(service):
    # TPOT over requests is above the mean cycle time over the mean of tokens a cycle.
    found = _at(service, **{"speculation.num_speculative_tokens": 8})
    assert found.tpot_s > 1.005 * found.itl_s / found.emitted_tokens_per_cycle


ODD = {
    "one token": {"workload.lengths": {"kind": "fixed", "prompt_tokens": 9, "output_tokens": 1}},
    "all alike, whole lives in little memory": {
        "workload.lengths": {"kind": "fixed", "prompt_tokens": 40, "output_tokens": 30},
        "deployment.preset": "tensorrt_llm",
        "deployment.kv_cache_tokens": 400,
    },
    "prompts longer than a step": {
        "workload.lengths": {"kind": "fixed", "prompt_tokens": 900, "output_tokens": 30},
        "deployment.max_num_batched_tokens": 128,
        "deployment.kv_cache_tokens": 3000,
    },
    "equally spaced": {"workload.arrivals": {"kind": "gamma", "rate_per_s": 0.5, "cv": 0.0}},
    "changing rates": {
        "workload.arrivals": {
            "kind": "markov_modulated",
            "states": [
                {"rate_per_s": 0.1, "mean_dwell_s": 60.0},
                {"rate_per_s": 1.0, "mean_dwell_s": 20.0},
            ],
        }
    },
    "a ramp": {
        "workload.arrivals": {
            "kind": "ramp",
            "from_rate_per_s": 0.1,
            "to_rate_per_s": 1.0,
            "duration_s": 60.0,
        }
    },
    "sessions": {"workload.sessions": {"mean_turns": 3.0}, "workload.arrivals.rate_per_s": 0.1},
    "a tree": {
        "speculation.proposer": "draft_model",
        "speculation.num_speculative_tokens": 2,
        "speculation.tree": [-1, 0],
    },
    "half the requests plain": {"speculation.plain_fraction": 0.5},
    "acceptance by position": {"speculation.acceptance": "positional"},
    "a fitted model": {"speculation.acceptance": "iid"},
    "sampling": {"contract": "exact_sampling", "sampling": {"temperature": 1.0}},
    "many seats": {
        "deployment.max_num_seqs": 2000,
        "deployment.max_num_batched_tokens": 100_000,
        "deployment.kv_cache_tokens": 10_000_000,
    },
}


@pytest.mark.parametrize("name", ODD)
def test_odd_services_have_an_estimate_too(service, name):
    stored, scenario, _ = service
    found = estimate_load(
        stored, scenario.with_(**{"workload.arrivals.rate_per_s": 0.5, **ODD[name]})
    )
    assert found.is_stable
    for value in found.model_dump().values():
        if isinstance(value, float):
            assert np.isfinite(value)
            assert value >= 0.0
    assert found.e2e_s >= found.ttft_s > 0.0


def test_half_the_requests_plain_lie_between_off_and_all_drafting(service):
    def tokens(**changes):
        return _at(service, **changes).emitted_tokens_per_cycle

    half = tokens(**{"speculation.plain_fraction": 0.5})
    assert 1.0 < half < tokens()


def test_a_basis_of_another_workload_is_refused(service):
    with pytest.raises(ScenarioError, match="made for another lengths"):
        _at(service, **{"workload.lengths": {"kind": "recorded"}})
    with pytest.raises(ScenarioError, match="made for another proposer"):
        _at(service, **{"speculation.proposer": "draft_model"})


def test_the_oracle_is_refused_and_other_policies_say_what_they_leave_out(service):
    with pytest.raises(ScenarioError, match="'oracle' has no closed form"):
        _at(service, **{"speculation.policy": {"kind": "oracle"}})
    gate = {"kind": "acceptance_gate", "threshold": 0.3}
    found = _at(service, **{"speculation.policy": gate})
    assert any("'acceptance_gate'" in caveat for caveat in found.caveats)


def test_the_shipped_errors_cover_every_regime_and_metric():
    accuracy = load_accuracy()
    for regime in REGIMES:
        found = accuracy.regimes[regime]
        assert found.num_points >= 20
        for metric in METRICS:
            error = getattr(found, metric)
            assert error.median_rel is None or error.median_rel >= 0.0
    assert sum(accuracy.regimes[regime].num_points for regime in REGIMES) >= 200


def test_the_regime_is_told_from_the_estimate_alone(service):
    assert regime_of(_loaded(service, 0.5)) == "roomy"
    assert regime_of(_loaded(service, 0.9)) == "near_saturation"
    tight = _loaded(service, 0.5, **{"deployment.kv_cache_tokens": 400})
    assert (regime_of(tight), tight.binding) == ("kv_tight", "kv")
