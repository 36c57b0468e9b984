"""The service against queueing theory and hand computation."""

import numpy as np
import pytest

from simcore import simulate, summarise
from simcore.cost.law import CostLaw, LinearLaw, TargetLaw
from simcore.profile.store import StoredProfile
from tests.factories import make_scenario

STEP_S = 0.05


def _with_constant_steps(stored: StoredProfile, step_s: float = STEP_S) -> StoredProfile:
    """The same profile with steps that take `step_s` whatever they hold."""
    law = CostLaw(
        target=TargetLaw(
            knot_tokens=(1, 2),
            knot_s=(step_s, step_s),
            per_kv_token_plain_s=0.0,
            per_kv_token_verify_s=0.0,
        ),
        propose=dict.fromkeys(stored.profile.proposers, LinearLaw()),
        domain=stored.profile.cost.domain,
    )
    return StoredProfile(stored.profile.model_copy(update={"cost": law}), stored.folder)


def _fixed(prompt_tokens: int, output_tokens: int, cv: float = 0.0):
    return {
        "kind": "lognormal",
        "prompt": {"mean_tokens": prompt_tokens, "cv": 0.0, "max_tokens": prompt_tokens},
        "output": {"mean_tokens": output_tokens, "cv": cv, "max_tokens": 100 * output_tokens},
    }


@pytest.mark.parametrize("utilisation", [0.3, 0.7, 0.85])
def test_one_seat_and_constant_service_wait_as_in_m_d_1(recorded_profile, utilisation):
    # One prefill step a request: deterministic service. Pollaczek-Khinchine: ρ·s / (2(1 − ρ)).
    waits = []
    for seed in range(20):
        scenario = make_scenario(
            recorded_profile,
            **{
                "workload.lengths": _fixed(8, 1),
                "workload.arrivals": {"kind": "poisson", "rate_per_s": utilisation / STEP_S},
                "workload.num_requests": 20_000,
                "deployment.max_num_seqs": 1,
                "speculation.num_speculative_tokens": 0,
                "seed": seed,
            },
        )
        result = simulate(scenario, stored=_with_constant_steps(recorded_profile))
        waits.append(summarise(result).queue.mean_s)
    expected_s = utilisation * STEP_S / (2 * (1 - utilisation))
    standard_error = np.std(waits, ddof=1) / np.sqrt(len(waits))
    assert abs(np.mean(waits) - expected_s) < 4 * standard_error


def test_one_seat_and_general_service_wait_as_in_m_g_1(recorded_profile):
    # A request takes as many steps as it has output tokens: E[S²] from the sampled lengths.
    waits, expected = [], []
    for seed in range(20):
        scenario = make_scenario(
            recorded_profile,
            **{
                "workload.lengths": _fixed(8, 20, cv=0.8),
                "workload.arrivals": {"kind": "poisson", "rate_per_s": 0.6 / (20 * STEP_S)},
                "workload.num_requests": 20_000,
                "deployment.max_num_seqs": 1,
                "speculation.num_speculative_tokens": 0,
                "seed": seed,
            },
        )
        result = simulate(scenario, stored=_with_constant_steps(recorded_profile))
        service_s = result.request_records["output_tokens"] * STEP_S
        rate = scenario.workload.arrivals.rate_per_s
        expected.append(rate * np.mean(service_s**2) / (2 * (1 - rate * np.mean(service_s))))
        waits.append(summarise(result).queue.mean_s)
    differences = np.array(waits) - np.array(expected)
    standard_error = differences.std(ddof=1) / np.sqrt(len(differences))
    assert abs(differences.mean()) < 4 * standard_error


@pytest.mark.parametrize("gamma", [0, 4])
def test_little_law_holds_over_a_whole_run(recorded_profile, gamma):
    result = simulate(
        make_scenario(recorded_profile, **{"speculation.num_speculative_tokens": gamma})
    )
    requests = result.request_records
    moments = np.concatenate([requests["arrival_s"], requests["finish_s"]])
    changes = np.concatenate([np.ones(len(requests)), -np.ones(len(requests))])
    order = np.argsort(moments, kind="stable")
    present = np.cumsum(changes[order])[:-1]
    span_s = moments.max() - moments.min()
    mean_present = float(present @ np.diff(moments[order])) / span_s
    rate = len(requests) / span_s
    mean_e2e_s = float(np.mean(requests["finish_s"] - requests["arrival_s"]))
    assert mean_present == pytest.approx(rate * mean_e2e_s, rel=1e-9)


def test_a_closed_batch_takes_the_time_computed_by_hand(recorded_profile):
    # Four requests of 10 prompt and 5 output tokens, all at time 0, no speculation.
    scenario = make_scenario(
        recorded_profile,
        **{
            "workload.lengths": _fixed(10, 5),
            "workload.arrivals": {"kind": "batch"},
            "workload.num_requests": 4,
            "speculation.num_speculative_tokens": 0,
        },
    )
    result = simulate(scenario)
    law = recorded_profile.profile.cost
    prefill_s = 0.022 + 8 * 0.0005 + 4 * 1e-5 + 1e-3  # 40 tokens: past the knee at 32
    ends = [prefill_s]
    for cycle in range(4):
        kv_tokens = 4 * (10 + cycle)
        target_s = 0.02 + 3 * (0.002 / 31) + 4 * 1e-5 + kv_tokens * 1e-6
        ends.append(ends[-1] + target_s + (5e-4 + 4 * 2e-5) + law.overhead_s)
    assert np.allclose(result.step_records["end_s"], ends, rtol=1e-12)
    assert np.allclose(result.request_records["first_token_s"], ends[0])
    assert np.allclose(result.request_records["finish_s"], ends[-1])
    assert result.step_records["used_blocks"].max() == 4  # 15 tokens fit one block of 16
    summary = summarise(result)
    assert summary.tpot.mean_s == pytest.approx((ends[-1] - ends[0]) / 4)
    assert summary.time.idle == pytest.approx(0.0, abs=1e-12)


def test_a_cycle_reserves_root_and_drafts_and_keeps_what_it_emitted(recorded_profile):
    # One request, 12 prompt tokens, γ = 8, blocks of one token: what is held can be counted.
    scenario = make_scenario(
        recorded_profile,
        **{
            "workload.lengths": _fixed(12, 30),
            "workload.num_requests": 1,
            "deployment.block_size": 1,
            "speculation.num_speculative_tokens": 8,
        },
    )
    steps = simulate(scenario).step_records
    held = [12]
    for step in steps[1:]:
        held.append(step["context_tokens"] + 9)
    assert steps["used_blocks"].tolist() == held
    kept = np.diff(steps["context_tokens"][1:])
    assert (kept == steps["emitted_tokens"][1:-1]).all()
    assert (kept == 1 + steps["accepted_tokens"][1:-1]).all()


def test_more_replicas_never_lengthen_the_mean_request(recorded_profile):
    means = [
        summarise(
            simulate(
                make_scenario(
                    recorded_profile,
                    **{
                        "deployment.replicas": replicas,
                        "workload.arrivals": {"kind": "poisson", "rate_per_s": 8.0},
                        "workload.num_requests": 400,
                    },
                )
            )
        ).e2e.mean_s
        for replicas in (1, 2, 4)
    ]
    assert means[0] > means[1] > means[2]


def test_a_request_that_outgrows_the_memory_alone_fails_and_frees_the_service(recorded_profile):
    scenario = make_scenario(
        recorded_profile,
        **{
            "workload.lengths": _fixed(20, 200),
            "workload.num_requests": 3,
            "deployment.kv_cache_tokens": 64,
            "workload.arrivals": {"kind": "batch"},
        },
    )
    result = simulate(scenario)
    assert (result.requests["state"] == "failed").all()
    assert (result.request_records["emitted_tokens"] > 40).all()
