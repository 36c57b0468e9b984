"""The laws on random scenarios, and the two execution modes against each other."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from simcore import simulate
from simcore.scenario import Scenario
from simcore.serving import service
from simcore.serving.setup import new_state
from tests.factories import make_scenario
from tests.invariants import check_result, check_while_running

LENGTHS = st.one_of(
    st.just({"kind": "recorded"}),
    st.builds(
        lambda prompt, output, cv: {
            "kind": "lognormal",
            "prompt": {"mean_tokens": prompt, "cv": cv, "max_tokens": 3 * prompt},
            "output": {"mean_tokens": output, "cv": cv, "max_tokens": 3 * output},
        },
        st.integers(1, 60),
        st.integers(1, 60),
        st.sampled_from([0.0, 0.5, 2.0]),
    ),
)


def _with_room_for_decodes(changes):
    """The fewest tokens of a step that its limits allow, and as many more as were drawn."""
    width = 1 + changes["speculation.num_speculative_tokens"]
    least = changes["deployment.max_num_seqs"] * width
    more = changes["deployment.max_num_batched_tokens"]
    return {**changes, "deployment.max_num_batched_tokens": least + more}


CHANGES = st.fixed_dictionaries(
    {
        "workload.lengths": LENGTHS,
        "workload.arrivals": st.one_of(
            st.just({"kind": "batch"}),
            st.builds(
                lambda rate: {"kind": "poisson", "rate_per_s": rate},
                st.sampled_from([0.5, 5.0, 500.0]),
            ),
        ),
        "workload.num_requests": st.integers(1, 40),
        "deployment.replicas": st.integers(1, 3),
        "deployment.max_num_seqs": st.integers(1, 9),
        "deployment.max_num_batched_tokens": st.integers(0, 120),  # beyond what decodes take
        "deployment.block_size": st.sampled_from([1, 4, 16, 64]),
        "deployment.kv_cache_tokens": st.sampled_from([80, 150, 400, 100_000]),
        "speculation.proposer": st.sampled_from(["ngram", "draft_model"]),
        "speculation.num_speculative_tokens": st.integers(0, 8),
        "speculation.acceptance": st.sampled_from(["trace", "positional"]),
        "seed": st.integers(0, 2**40),
    }
).map(_with_room_for_decodes)


@given(changes=CHANGES)
def test_every_law_holds_after_any_run(recorded_profile, changes):
    check_result(simulate(make_scenario(recorded_profile, **changes), stored=recorded_profile))


@given(changes=CHANGES)
def test_blocks_balance_and_states_are_legal_after_every_event(recorded_profile, changes):
    scenario = make_scenario(recorded_profile, **changes)
    check_while_running(new_state(scenario, recorded_profile).state)


@given(changes=CHANGES)
def test_one_step_at_a_time_gives_the_same_records(recorded_profile, changes):
    scenario = make_scenario(recorded_profile, **changes)
    bulk = simulate(scenario, stored=recorded_profile)
    stepwise = simulate(scenario, stored=recorded_profile, stepwise=True)
    assert np.array_equal(bulk.request_records, stepwise.request_records)
    assert np.array_equal(bulk.step_records, stepwise.step_records)
    assert np.array_equal(bulk.gap_counts, stepwise.gap_counts)


def test_records_do_not_depend_on_how_often_they_are_moved_out(recorded_profile, monkeypatch):
    scenario = make_scenario(recorded_profile, **{"deployment.replicas": 3})
    whole = simulate(scenario)
    monkeypatch.setattr(service, "STEPS_PER_CHUNK", 5)
    assert np.array_equal(whole.step_records, simulate(scenario).step_records)


def test_the_same_seed_gives_the_same_records_and_another_does_not(recorded_profile):
    scenario = make_scenario(recorded_profile)
    first, again = simulate(scenario), simulate(scenario)
    other = simulate(scenario.with_(seed=4))
    assert np.array_equal(first.request_records, again.request_records)
    assert np.array_equal(first.step_records, again.step_records)
    assert not np.array_equal(first.request_records, other.request_records)


def test_gamma_zero_equals_plain_decoding_record_for_record(recorded_profile):
    zero = simulate(make_scenario(recorded_profile, **{"speculation.num_speculative_tokens": 0}))
    plain = simulate(
        make_scenario(
            recorded_profile,
            **{"speculation.num_speculative_tokens": 0, "speculation.proposer": None},
        )
    )
    for column in ("arrival_s", "first_token_s", "finish_s", "num_cycles", "emitted_tokens"):
        assert np.array_equal(zero.request_records[column], plain.request_records[column])
    assert np.array_equal(zero.step_records, plain.step_records)


def test_the_scheduler_does_not_know_how_long_an_output_will_be(recorded_profile):
    def steps_with(output_tokens: int):
        lengths = {
            "kind": "lognormal",
            "prompt": {"mean_tokens": 30, "cv": 0, "max_tokens": 30},
            "output": {"mean_tokens": output_tokens, "cv": 0, "max_tokens": output_tokens},
        }
        scenario = make_scenario(
            recorded_profile,
            **{
                "workload.lengths": lengths,
                "workload.arrivals": {"kind": "batch"},
                "workload.num_requests": 12,
                "deployment.kv_cache_tokens": 400,
            },
        )
        result = simulate(scenario)
        return result.step_records, float(result.request_records["finish_s"].min())

    short, first_finish_s = steps_with(40)
    long, _ = steps_with(90)
    count = int(np.sum(short["end_s"] < first_finish_s))
    assert count > 5
    assert np.array_equal(short[:count], long[:count])


def test_every_request_of_the_workload_is_accounted_for(recorded_profile):
    # Two prompts in three can never fit into 70 tokens.
    scenario: Scenario = make_scenario(
        recorded_profile, **{"deployment.kv_cache_tokens": 32, "workload.num_requests": 80}
    )
    result = simulate(scenario)
    check_result(result)
    states = result.requests["state"].value_counts()
    assert states["rejected"] > 0
    assert states["finished"] > 0
    assert states.sum() == 80
