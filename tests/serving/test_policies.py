"""Every policy acts where it should, says why, and keeps the laws."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcore import PolicyView, simulate, summarise
from simcore.errors import ScenarioError
from tests.factories import Recording, make_profile, make_scenario
from tests.invariants import check_every_mode, check_result

FIXED_LENGTHS = {
    "kind": "lognormal",
    "prompt": {"mean_tokens": 30, "cv": 0.5, "max_tokens": 100},
    "output": {"mean_tokens": 60, "cv": 0.5, "max_tokens": 200},
}
CROWD = {
    "workload.lengths": FIXED_LENGTHS,
    "workload.arrivals": {"kind": "batch"},
    "workload.num_requests": 60,
    "deployment.max_num_seqs": 20,
    "speculation.num_speculative_tokens": 6,
}


def _run(stored, policy, **changes):
    result = simulate(
        make_scenario(stored, **{**CROWD, "speculation.policy": policy, **changes}), stored=stored
    )
    check_result(result)
    return result


def _gammas(result):
    return set(result.step_records["gamma"][result.step_records["num_decoding"] > 0].tolist())


def test_a_fixed_policy_never_changes(recorded_profile):
    result = _run(recorded_profile, {"kind": "fixed"})
    assert _gammas(result) == {6}
    assert len(result.policy_changes) == 0


def test_the_batch_table_follows_the_size_of_the_step_before(recorded_profile):
    table = [[1, 4, 6], [5, 12, 2], [16, 20, 0]]
    result = _run(recorded_profile, {"kind": "batch_size_table", "table": table})
    steps = result.step_records
    scheduled = steps["num_decoding"] + (steps["prefill_tokens"] > 0)
    for before, now in pairwise(steps):
        if before["prefill_tokens"] or not now["num_decoding"]:
            continue
        size = int(before["num_decoding"])
        if size <= 4:
            assert now["gamma"] == 6
        elif size <= 15:  # 13 to 15 lie in a gap and keep the row before
            assert now["gamma"] == 2
        else:
            assert now["gamma"] == 0
    assert scheduled.max() > 12
    assert set(result.policy_changes["reason"]) == {"batch size"}
    assert _gammas(result) == {0, 2, 6}


def test_the_moving_average_shortens_drafts_that_fail(tmp_path):
    policy = {"kind": "adaptive_ema", "candidates": [1, 3, 6]}
    poor = make_profile(tmp_path / "poor", Recording(acceptance=0.1))
    result = _run(poor, policy)
    assert result.step_records["gamma"][-1] == 1
    assert "acceptance fell" in set(result.policy_changes["reason"])
    good = make_profile(tmp_path / "good", Recording(acceptance=0.97))
    assert _run(good, policy).step_records["gamma"][-1] == 6


def test_the_moving_average_probes_after_a_spell_without_drafts(tmp_path):
    poor = make_profile(tmp_path / "poor", Recording(acceptance=0.02))
    policy = {"kind": "adaptive_ema", "candidates": [0, 2], "probe_interval": 20}
    reasons = list(
        _run(poor, policy, **{"speculation.num_speculative_tokens": 2}).policy_changes["reason"]
    )
    assert "acceptance fell" in reasons
    assert "probe after a spell without drafts" in reasons


def test_the_gate_closes_once_and_for_good(tmp_path):
    poor = make_profile(tmp_path / "poor", Recording(acceptance=0.2))
    result = _run(poor, {"kind": "acceptance_gate", "window_steps": 30, "threshold": 0.5})
    changes = result.policy_changes
    assert changes["reason"].tolist() == ["acceptance below the gate: off for good"]
    after = result.step_records["begin_s"] > changes["time_s"].iloc[0]
    assert (result.step_records["gamma"][after] == 0).all()
    good = make_profile(tmp_path / "good", Recording(acceptance=0.95))
    assert len(_run(good, {"kind": "acceptance_gate", "threshold": 0.5}).policy_changes) == 0


def test_goodput_drafts_less_in_a_crowd_and_more_alone(recorded_profile):
    result = _run(recorded_profile, {"kind": "goodput"}, **{"speculation.proposer": "draft_model"})
    steps = result.step_records[result.step_records["num_decoding"] > 0]
    crowded = steps["gamma"][steps["num_decoding"] >= 18].mean()
    alone = steps["gamma"][steps["num_decoding"] <= 2].mean()
    assert crowded < alone
    assert set(result.policy_changes["reason"]) == {"better expected goodput"}


def test_goodput_is_not_worse_than_the_best_fixed_length_by_more_than_a_little(recorded_profile):
    def duration_s(**changes):
        policy = changes.pop("policy", {"kind": "fixed"})
        return summarise(_run(recorded_profile, policy, **changes)).duration_s

    fixed = [duration_s(**{"speculation.num_speculative_tokens": gamma}) for gamma in range(7)]
    assert duration_s(policy={"kind": "goodput"}) < 1.05 * min(fixed)


def test_memory_pressure_shortens_then_stops_and_recovers(recorded_profile):
    tight = {"deployment.kv_cache_tokens": 1200, "deployment.block_size": 4}
    ladder = [
        {"below": 0.4, "num_speculative_tokens": 3},
        {"below": 0.2, "num_speculative_tokens": 0},
    ]
    policy = {"kind": "memory_pressure", "ladder": ladder}
    result = _run(recorded_profile, policy, **tight)
    assert {0, 3, 6} <= _gammas(result)
    assert set(result.policy_changes["reason"]) == {"blocks running out", "blocks free again"}
    fixed = _run(recorded_profile, {"kind": "fixed"}, **tight)
    preemptions = [summarise(each).num_preemptions for each in (result, fixed)]
    assert preemptions[0] < preemptions[1]


def test_the_oracle_wastes_no_draft(recorded_profile):
    result = _run(recorded_profile, {"kind": "oracle"})
    requests = result.request_records
    assert (requests["planned_tokens"] == requests["proposed_tokens"]).all()
    assert requests["corrected_tokens"].sum() == 0
    fixed = _run(recorded_profile, {"kind": "fixed"})
    assert summarise(result).duration_s < summarise(fixed).duration_s
    assert requests["num_cycles"].sum() == fixed.request_records["num_cycles"].sum()


def test_requests_that_cannot_speculate_run_plain_in_the_same_batch(recorded_profile):
    result = _run(recorded_profile, {"kind": "fixed"}, **{"speculation.plain_fraction": 0.4})
    requests = result.request_records
    plain = requests["can_speculate"] == 0
    assert 0.2 < plain.mean() < 0.6
    assert (requests["planned_tokens"][plain] == 0).all()
    assert (requests["num_cycles"][plain] == requests["output_tokens"][plain] - 1).all()
    assert (requests["planned_tokens"][~plain] > 0).all()
    steps = result.step_records
    mixed = (steps["planned_tokens"] > 0) & (steps["planned_tokens"] < 6 * steps["num_decoding"])
    assert mixed.any()


def test_a_policy_in_plain_python_is_obeyed_and_logged(recorded_profile):
    seen: list[PolicyView] = []

    def calm(view: PolicyView) -> int:
        seen.append(view)
        return view.longest if view.num_running <= 4 else 0

    result = simulate(make_scenario(recorded_profile, **CROWD), policy=calm)
    check_result(result)
    steps = result.step_records
    decoding = steps["num_decoding"] > 0
    calm_steps = decoding & (steps["num_running"] <= 4)
    assert (steps["gamma"][calm_steps] == 6).all()
    assert set(result.policy_changes["reason"]) == {"the caller's policy"}
    assert len(seen) == len(steps)
    assert any(view.last_accepted_tokens > 0 for view in seen)


@pytest.mark.parametrize("asked", [7, -1, 2.5, None])
def test_a_python_policy_that_asks_for_too_much_is_stopped(recorded_profile, asked):
    with pytest.raises(ScenarioError, match="expected a whole number"):
        simulate(make_scenario(recorded_profile, **CROWD), policy=lambda view: asked)


def test_a_python_policy_without_traces_switches_between_off_and_full(load_bundled):
    scenario, stored = load_bundled("h100_chat")
    small = scenario.with_(**{"workload.num_requests": 50})
    table = {"kind": "batch_size_table", "table": [[1, 3, 3], [4, 64, 0]]}
    result = simulate(
        small, stored=stored, policy=lambda view: view.longest if view.num_running <= 3 else 0
    )
    assert set(result.step_records["gamma"]) == {0, 3}
    assert simulate(small.with_(**{"speculation.policy": table}), stored=stored).step_records[
        "proposed_tokens"
    ].sum() == pytest.approx(result.step_records["proposed_tokens"].sum(), rel=0.2)
    with pytest.raises(ScenarioError, match="choose 0 or 3"):
        simulate(small, stored=stored, policy=lambda view: 2)


def test_a_python_policy_cannot_shorten_a_tree(recorded_profile):
    tree = {"speculation.tree": [-1, -1, 0, 1, 2], "speculation.num_speculative_tokens": 3}
    scenario = make_scenario(recorded_profile, **tree)
    whole = simulate(scenario, policy=lambda view: view.longest if view.num_waiting == 0 else 0)
    assert whole.step_records["verified_tokens"].any()
    with pytest.raises(ScenarioError, match="whole or not at all"):
        simulate(scenario, policy=lambda view: 2)


def test_a_ladder_to_another_proposer_is_no_matter_of_one_latent_chain(recorded_profile):
    rung = {"below": 0.9, "num_speculative_tokens": 2, "proposer": "draft_model"}
    changes = {
        "speculation.acceptance": "heterogeneous",
        "speculation.policy": {"kind": "memory_pressure", "ladder": [rung]},
    }
    with pytest.raises(ScenarioError, match="one proposer"):
        simulate(make_scenario(recorded_profile, **changes), stored=recorded_profile)


def test_a_policy_of_many_lengths_needs_traces(load_bundled):
    scenario, stored = load_bundled("h100_chat")
    asked = scenario.with_(
        **{
            "speculation.proposer": "eagle",
            "speculation.num_speculative_tokens": 3,
            "speculation.policy": {"kind": "goodput"},
        }
    )
    with pytest.raises(ScenarioError, match="traces"):
        simulate(asked, stored=stored)
    between = asked.with_(
        **{"speculation.policy": {"kind": "batch_size_table", "table": [[1, 8, 3], [9, 64, 0]]}}
    )
    assert len(simulate(between, stored=stored).policy_changes) > 0


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ({"kind": "batch_size_table", "table": [[2, 4, 1]]}, "beginning at 1"),
        ({"kind": "batch_size_table", "table": [[1, 4, 1], [3, 9, 0]]}, "without overlap"),
        ({"kind": "batch_size_table", "table": [[1, 4, 9]]}, "raise it or shorten"),
        ({"kind": "adaptive_ema", "candidates": [3, 1]}, "ascending"),
        (
            {
                "kind": "memory_pressure",
                "ladder": [
                    {"below": 0.1, "num_speculative_tokens": 3},
                    {"below": 0.2, "num_speculative_tokens": 0},
                ],
            },
            "falling",
        ),
        ({"kind": "wishful"}, "policy"),
    ],
)
def test_a_policy_that_contradicts_itself_is_refused(recorded_profile, policy, message):
    with pytest.raises(ScenarioError, match=message):
        make_scenario(recorded_profile, **{**CROWD, "speculation.policy": policy})


def test_tiers_of_the_moving_average_follow_the_batch_size(recorded_profile):
    tiers = {1: [1, 3, 6], 4: [0, 1, 3], 12: [0]}
    result = _run(recorded_profile, {"kind": "adaptive_ema", "tiers": tiers, "warmup_steps": 0})
    steps = result.step_records[result.step_records["num_decoding"] > 0]
    for first, last, allowed in ((1, 3, {1, 3, 6}), (4, 11, {0, 1, 3}), (12, 99, {0})):
        # The policy sees who runs when the step begins; those admitted in it come on top.
        alone = steps["num_running"] == steps["num_decoding"]
        inside = (steps["num_running"] >= first) & (steps["num_running"] <= last) & alone
        assert set(steps["gamma"][inside].tolist()) <= allowed
        assert inside.any()
    assert "batch size" in set(result.policy_changes["reason"])


@pytest.mark.parametrize("tiers", [{2: [1]}, {1: [1], 0: [0]}, {1: [3, 1]}, {1: []}])
def test_tiers_that_contradict_themselves_are_refused(recorded_profile, tiers):
    policy = {"kind": "adaptive_ema", "tiers": tiers}
    with pytest.raises(ScenarioError, match="expected"):
        make_scenario(recorded_profile, **{**CROWD, "speculation.policy": policy})


POLICIES = st.sampled_from(
    [
        {"kind": "batch_size_table", "table": [[1, 2, 6], [3, 5, 3], [6, 64, 0]]},
        {"kind": "adaptive_ema", "candidates": [0, 2, 5], "probe_interval": 7},
        {"kind": "adaptive_ema", "tiers": {1: [1, 4], 3: [0, 2], 7: [0]}, "warmup_steps": 2},
        {"kind": "acceptance_gate", "window_steps": 9, "threshold": 0.4},
        {"kind": "goodput"},
        {"kind": "memory_pressure"},
        {"kind": "oracle"},
    ]
)


@given(
    policy=POLICIES,
    kv_cache_tokens=st.sampled_from([150, 400, 100_000]),
    replicas=st.integers(1, 3),
    plain_fraction=st.sampled_from([0.0, 0.3]),
    seed=st.integers(0, 2**30),
)
def test_every_law_holds_under_every_policy(
    recorded_profile, policy, kv_cache_tokens, replicas, plain_fraction, seed
):
    scenario = make_scenario(
        recorded_profile,
        **{
            **CROWD,
            "speculation.policy": policy,
            "speculation.plain_fraction": plain_fraction,
            "deployment.kv_cache_tokens": kv_cache_tokens,
            "deployment.replicas": replicas,
            "seed": seed,
        },
    )
    check_every_mode(scenario, recorded_profile)
