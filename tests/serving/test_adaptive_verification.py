"""Adaptive verification: the batch verifies the drafts that are likeliest to survive."""

import numpy as np
import pytest

from simcore import simulate, summarise
from simcore.cost.price import price
from simcore.cost.shape import StepShape
from simcore.profile.store import write_profile
from simcore.serving.one_step import arrive, begin, commit
from simcore.serving.setup import new_state
from simcore.serving.state import DECODING, NONE
from tests.factories import Recording, make_profile, make_scenario
from tests.invariants import check_every_mode, check_result
from tests.theory.service import target_law

ADAPTIVE = {"kind": "adaptive_verification"}
GAMMA = 6
CROWD = {
    "workload.arrivals": {"kind": "batch"},
    "workload.num_requests": 40,
    "deployment.max_num_seqs": 12,
    "deployment.kv_cache_tokens": 100_000,
    "speculation.proposer": "draft_model",
    "speculation.num_speculative_tokens": GAMMA,
    "speculation.policy": ADAPTIVE,
}


def _run(stored, **changes):
    result = simulate(
        make_scenario(stored, **{**CROWD, **changes}), stored=stored, record_cycles=True
    )
    check_result(result)
    return result


def _survivals(state, row, expected):
    """P(drafts 1 .. k accepted) of one request, by confidence or by the profile."""
    if row["confidence_row"] == NONE:
        return np.diff(expected)
    confidence = state.cycles.confidence[0, row["confidence_row"], :GAMMA]
    return np.cumprod(confidence.astype(np.float64))


def _best_verified(state, rows, expected):
    """Drafts verified of each request, by sorting and trying every budget."""
    own = [_survivals(state, row, expected) for row in rows]
    likeliest = np.sort(np.concatenate(own))[::-1]
    batch, kv = len(rows), float(sum(row["committed_tokens"] for row in rows))
    rates = []
    for budget in range(len(likeliest) + 1):
        queries = batch + budget
        shape = StepShape(
            num_requests=float(batch),
            num_decoding=float(batch),
            gamma=float(GAMMA),
            proposed_tokens=float(GAMMA * batch),
            verified_tokens=float(budget),
            query_tokens=float(queries),
            plain_context_tokens=kv if budget == 0 else 0.0,
            verify_context_tokens=kv if budget else 0.0,
            prefill_tokens=0.0,
            lagging_tokens=0.0,
            attention_pairs=queries * (kv / batch + queries / batch / 2) if budget else 0.0,
        )
        step_s = sum(price(state.law, shape))
        rates.append((batch + likeliest[:budget].sum()) / step_s)
    budget = int(np.argmax(rates))
    bound = likeliest[budget - 1] if budget else 2.0
    ties = int(np.sum(likeliest[:budget] == bound))
    verified = []
    for survival in own:  # ties last in order of admission
        alike = min(ties, int(np.sum(survival == bound)))
        ties -= alike
        verified.append(int(np.sum(survival > bound)) + alike)
    return verified, budget


def test_every_step_verifies_what_sorting_and_trying_all_budgets_says(twin_profile):
    state = new_state(make_scenario(twin_profile, **CROWD), twin_profile).state
    expected = state.policy.expected_tokens
    now_s, compared, budgets = 0.0, 0, set()
    for _ in range(len(state.requests)):
        arrive(state)
    while state.cursor[0].num_ended < len(state.requests):
        running = state.running[0, : state.replicas["num_running"][0]]
        decoding = [r for r in running if state.requests["state"][r] == DECODING]
        rows = state.requests[decoding].copy()
        begin(state, 0, now_s)
        if decoding:
            verified, budget = _best_verified(state, rows, expected)
            assert state.requests["step_most"][decoding].tolist() == verified
            assert sum(verified) == budget
            budgets.add(round(budget / len(decoding), 1))
            compared += 1
        now_s = float(state.replicas["step_end_s"][0])
        commit(state, 0)
        state.cursor[0].num_steps = 0
    assert compared > 50
    assert len(budgets) > 10


def test_a_preempted_request_has_lost_what_its_proposer_thought(twin_profile):
    scenario = make_scenario(twin_profile, **{**CROWD, "deployment.kv_cache_tokens": 400})
    state = new_state(scenario, twin_profile).state
    now_s, forgotten = 0.0, 0
    for _ in range(len(state.requests)):
        arrive(state)
    while state.cursor[0].num_ended < len(state.requests):
        before = state.requests.copy()
        begin(state, 0, now_s)
        lost = state.requests["num_preemptions"] > before["num_preemptions"]
        assert (state.requests["confidence_row"][lost] == NONE).all()
        forgotten += int((before["confidence_row"][lost] != NONE).sum())
        now_s = float(state.replicas["step_end_s"][0])
        commit(state, 0)
        state.cursor[0].num_steps = 0
    assert forgotten > 5


def test_requests_that_are_sure_have_more_verified(twin_profile):
    result = _run(twin_profile, **{"deployment.max_num_seqs": 16})
    cycles, traces = result.cycles, result.model.traces
    first = traces.offset[result.request_records["trace"]][cycles["request"]]
    confidence = traces.confidence[first + cycles["position"].to_numpy(), :GAMMA]
    cycles["survival"] = np.cumprod(confidence, axis=1).sum(axis=1)
    before = cycles.groupby("request")["survival"].shift(1)  # one cycle old
    sure, unsure = (
        cycles.loc[before > before.quantile(0.75), "verified_tokens"].mean(),
        cycles.loc[before < before.quantile(0.25), "verified_tokens"].mean(),
    )
    assert sure > unsure + 2.0
    assert (cycles["proposed_tokens"] == GAMMA).all()
    assert (cycles["verified_tokens"] < GAMMA).any()


def test_the_larger_the_batch_the_fewer_drafts_each_has_verified(twin_profile):
    def verified_a_cycle(seats):
        requests = _run(twin_profile, **{"deployment.max_num_seqs": seats}).request_records
        return requests["verified_tokens"].sum() / requests["num_cycles"].sum()

    alone, few, many = map(verified_a_cycle, (1, 6, 24))
    assert alone > few > many


def test_with_verification_for_nothing_all_is_verified_as_under_a_fixed_length(tmp_path):
    even = make_profile(tmp_path / "even", Recording(acceptance=0.9))
    stored = target_law(even, base_s=0.05)
    adaptive, fixed = (
        _run(stored, **{"speculation.policy": policy}) for policy in (ADAPTIVE, {"kind": "fixed"})
    )
    assert np.array_equal(adaptive.step_records, fixed.step_records)
    assert np.array_equal(adaptive.request_records, fixed.request_records)


def test_without_confidences_the_expected_survival_decides(recorded_profile):
    # By position all requests have the same survivals: ties go in order of admission.
    changes = {"speculation.acceptance": "positional", "deployment.max_num_seqs": 16}
    result = _run(recorded_profile, **changes)
    requests = result.request_records
    share = requests["verified_tokens"].sum() / requests["proposed_tokens"].sum()
    assert 0.05 < share < 0.95
    cycles = result.cycles.groupby("time_s")["verified_tokens"]
    assert ((cycles.max() - cycles.min()) <= 1).all()


def test_a_recording_without_confidences_is_not_taken_for_hopeless(recorded_profile, tmp_path):
    rows = recorded_profile.traces.to_pandas()
    rows["confidence"] = [[] for _ in range(len(rows))]
    silent = write_profile(
        recorded_profile.profile,
        tmp_path / "silent",
        cost=recorded_profile.cost_samples.to_pandas(),
        traces=rows,
    )
    requests = _run(silent, **{"deployment.max_num_seqs": 2}).request_records
    assert requests["verified_tokens"].sum() > 0.5 * requests["proposed_tokens"].sum()


def test_where_a_fixed_length_wastes_it_serves_sooner(twin_profile):
    def duration_s(policy, seats):
        changes = {"speculation.policy": policy, "deployment.max_num_seqs": seats}
        return summarise(_run(twin_profile, **changes)).duration_s

    fixed = {"kind": "fixed"}
    assert duration_s(ADAPTIVE, 32) < 0.95 * duration_s(fixed, 32)
    assert duration_s(ADAPTIVE, 2) < 1.02 * duration_s(fixed, 2)


def test_blocks_are_reserved_for_every_draft_whatever_is_verified(twin_profile):
    result = _run(
        twin_profile,
        **{
            "deployment.block_size": 1,
            "workload.num_requests": 12,
            "workload.lengths": {"kind": "fixed", "prompt_tokens": 10, "output_tokens": 40},
        },
    )
    steps = result.step_records[result.step_records["prefill_tokens"] == 0]
    assert (steps["verified_tokens"] < steps["proposed_tokens"]).any()
    held = steps["context_tokens"] + steps["num_decoding"] * (1 + GAMMA)
    assert np.array_equal(steps["used_blocks"], held)


@pytest.mark.parametrize("kv_cache_tokens", [300, 100_000])
def test_every_law_holds_whatever_is_verified(twin_profile, kv_cache_tokens):
    scenario = make_scenario(
        twin_profile,
        **{
            **CROWD,
            "workload.arrivals": {"kind": "poisson", "rate_per_s": 8.0},
            "deployment.kv_cache_tokens": kv_cache_tokens,
            "deployment.replicas": 2,
            "speculation.plain_fraction": 0.3,
        },
    )
    check_every_mode(scenario, twin_profile)
