"""The step kernel hands the law what it asks for: padding, cliffs, catching up, draft prefill."""

import numpy as np
import pytest

from simcore.cost.law import Capture, ProposerRun, Regime, TokenLaw
from simcore.errors import ScenarioError
from simcore.metrics.summary import summarise
from simcore.profile.store import StoredProfile
from simcore.serving.simulation import SimulationResult, simulate
from tests.factories import make_scenario

SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
SWITCHING = {  # off in the steps that follow one with four requests or more
    "kind": "batch_size_table",
    "table": [[1, 3, 4], [4, 64, 0]],
}


def with_cost(stored: StoredProfile, **changes) -> StoredProfile:
    cost = stored.profile.cost.model_copy(update=changes)
    return StoredProfile(stored.profile.model_copy(update={"cost": cost}), stored.folder)


def run(stored: StoredProfile, **changes) -> SimulationResult:
    changes = {"speculation.proposer": "draft_model"} | changes
    return simulate(make_scenario(stored, **changes), stored=stored)


def test_padding_is_recorded_and_summed(recorded_profile):
    captured = with_cost(recorded_profile, capture=Capture(sizes=SIZES, eager=Regime()))
    result = run(captured)
    steps = result.step_records
    computed = steps["query_tokens"] + steps["prefill_tokens"] + steps["padded_tokens"]
    assert np.isin(computed, SIZES).all()
    assert summarise(result).tokens.padded_tokens == steps["padded_tokens"].sum() > 0
    assert not run(recorded_profile).step_records["padded_tokens"].any()


def test_padding_beyond_the_measured_tokens_counts_as_extrapolated(recorded_profile):
    beyond = Capture(sizes=(2048,), eager=Regime())
    steps = run(with_cost(recorded_profile, capture=beyond)).step_records
    assert steps["is_extrapolated"].all()  # 2048 computed, 1024 measured
    assert not run(recorded_profile).step_records["is_extrapolated"].any()


def test_sizes_that_hold_every_step_exactly_change_no_record(recorded_profile):
    every = Capture(sizes=tuple(range(1, 257)), eager=Regime(floor_s=9.0))
    exact = run(with_cost(recorded_profile, capture=every))
    assert np.array_equal(exact.step_records, run(recorded_profile).step_records)


def test_a_service_that_could_cross_an_unmeasured_cliff_never_starts(recorded_profile):
    within = with_cost(recorded_profile, capture=Capture(sizes=SIZES))
    assert len(run(within).step_records)
    short = with_cost(recorded_profile, capture=Capture(sizes=SIZES[:-1]))
    with pytest.raises(ScenarioError, match="max_num_batched_tokens 256"):
        run(short)


def test_a_draft_model_catches_up_on_exactly_what_it_missed(recorded_profile):
    """Two runs with the same steps apart from their time: a batch that arrives at once."""
    token_s = 1e-3
    catching_up = ProposerRun(switch_on=TokenLaw(base_s=0.5, per_token_s=token_s))
    changes = {
        "speculation.policy": SWITCHING,
        "workload.arrivals": {"kind": "batch"},
        "workload.num_requests": 30,
    }
    free = run(recorded_profile, **changes)
    paid = run(with_cost(recorded_profile, proposer_runs={"draft_model": catching_up}), **changes)
    extra_s = paid.step_records["propose_s"] - free.step_records["propose_s"]
    gamma = free.step_records["gamma"]
    caught_up = extra_s > 1e-9
    assert caught_up.any()
    assert (gamma[caught_up] > 0).all()
    # Draft lengths follow batch sizes alone, so drafting begins again only after steps without.
    assert (gamma[np.flatnonzero(caught_up) - 1] == 0).all()
    missed = (extra_s[caught_up] - 0.5) / token_s
    assert missed == pytest.approx(np.round(missed), abs=1e-6)
    assert (missed >= 1).all()
    emitted = free.step_records["emitted_tokens"][gamma == 0].sum()
    assert missed.sum() <= emitted


def test_draft_prefill_delays_the_first_token(recorded_profile):
    slow = ProposerRun(per_prefill_token_s=1e-4)
    alone = {"workload.num_requests": 1}
    free = run(recorded_profile, **alone)
    paid = run(with_cost(recorded_profile, proposer_runs={"draft_model": slow}), **alone)
    later_s = paid.request_records["first_token_s"] - free.request_records["first_token_s"]
    prompt = free.request_records["prompt_tokens"]
    assert later_s == pytest.approx(1e-4 * prompt)
    off = alone | {"speculation.num_speculative_tokens": 0}
    unloaded = run(with_cost(recorded_profile, proposer_runs={"draft_model": slow}), **off)
    assert np.array_equal(unloaded.step_records, run(recorded_profile, **off).step_records)
