"""Recordings that the heterogeneous model makes up, and the service that replays them."""

from dataclasses import replace

import numpy as np
import pytest

from simcore import ScenarioError, load_profile, open_scenario, simulate, summarise
from simcore.acceptance.heterogeneous import Heterogeneous, Parameters
from simcore.acceptance.prediction import Outputs
from simcore.acceptance.synthetic import synthetic_traces
from simcore.acceptance.trace import walk
from simcore.fitted_acceptance import FURTHEST, GAMMA_OF_FIT
from tests.factories import make_scenario

EVEN = Parameters(
    easy=2.0,
    hard=-1.0,
    easy_to_hard=-2.0,
    hard_to_easy=-1.5,
    depth_decay=0.1,
    acceptance_loading=0.4,
    chain_loading=0.3,
    skew=0.2,
    length_slope=0.0,
    opening_positions=0,
    runaway_shift=0.0,
    runaway_share=0.0,
)
TOKENS = np.full(2000, 200, dtype=np.int64)


def recording(parameters=EVEN, depth=8, seed=1, tokens=TOKENS, drafted_misses=1.0):
    domain = np.zeros(len(tokens), dtype=np.int64)
    misses = {"all": drafted_misses}
    return synthetic_traces({"all": parameters}, misses, domain, tokens, depth, seed)


@pytest.mark.parametrize("gamma", [1, 3, 7])
def test_a_made_up_recording_walks_as_the_model_says(gamma):
    found = walk(recording(), gamma)
    cycles = np.bincount(found.request, minlength=len(TOKENS))
    rate = (TOKENS - 1) / cycles
    outputs = Outputs(TOKENS - 1, np.zeros(len(TOKENS), dtype=bool))
    expected = Heterogeneous(EVEN, 3).walks(gamma, outputs, seed=2)
    told = expected.tokens / expected.cycles
    error = np.hypot(rate.std() / np.sqrt(len(rate)), told.std() / np.sqrt(len(told)))
    assert abs(rate.mean() - told.mean()) < 4 * error
    assert rate.std() == pytest.approx(told.std(), rel=0.08)


def test_one_recording_serves_every_draft_length():
    deep, shallow = recording(depth=8), recording(depth=3)
    assert np.array_equal(np.minimum(deep.accepted, 3), shallow.accepted)


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_of_the_misses_a_stated_share_had_a_draft(share):
    found, always = recording(drafted_misses=share), recording()
    missed = found.accepted == 0
    assert np.array_equal(found.accepted, always.accepted)
    assert (found.proposed[~missed] == 8).all()
    assert np.mean(found.proposed[missed] > 0) == pytest.approx(share, abs=0.01)


def test_openings_accept_nothing():
    opening = recording(EVEN._replace(opening_positions=5))
    starts = opening.offset[:, None] + np.arange(6)
    assert (opening.accepted[starts] == 0).all()
    assert opening.accepted[opening.offset + 6].any()


def test_longer_drafts_start_more_of_their_cycles_in_hard_text():
    found = recording()
    first = [np.mean(walk(found, gamma).accepted >= 1) for gamma in (1, 3, 7)]
    assert first[0] > first[1] > first[2]


@pytest.fixture
def scenario(recorded_profile):
    return make_scenario(
        recorded_profile,
        **{
            "speculation.proposer": "draft_model",
            "speculation.num_speculative_tokens": 4,
            "workload.num_requests": 400,
        },
    )


@pytest.mark.parametrize("acceptance", ["iid", "heterogeneous"])
def test_a_fitted_model_comes_near_the_replay_that_it_was_fitted_to(scenario, acceptance):
    replayed = summarise(simulate(scenario)).tokens.mean_acceptance_length
    result = simulate(scenario.with_(**{"speculation.acceptance": acceptance}))
    assert result.origin["acceptance_model"] == acceptance
    assert result.origin["acceptance_fitted_at"] == 3
    found = summarise(result).tokens.mean_acceptance_length
    assert found == pytest.approx(replayed, rel=0.06)


@pytest.mark.parametrize("acceptance", ["iid", "heterogeneous"])
def test_a_fitted_model_goes_beyond_the_measured_draft_length_but_not_far(scenario, acceptance):
    fitted = {"speculation.acceptance": acceptance, "deployment.max_num_seqs": 4}
    furthest = FURTHEST * GAMMA_OF_FIT  # the recording ends at 8
    beyond = scenario.with_(**fitted, **{"speculation.num_speculative_tokens": furthest})
    assert summarise(simulate(beyond)).tokens.mean_acceptance_length > 1.0
    much = scenario.with_(**fitted, **{"speculation.num_speculative_tokens": furthest + 1})
    with pytest.raises(ScenarioError, match="not trusted beyond"):
        simulate(much)


@pytest.fixture
def published():
    return open_scenario("h100_chat").with_(**{"workload.num_requests": 300})


def test_rates_without_a_number_of_cycles_are_not_fitted(published):
    with pytest.raises(ScenarioError, match="no number of cycles"):
        simulate(published.with_(**{"speculation.acceptance": "heterogeneous"}))


def test_published_rates_are_fitted_by_the_cycles_that_they_count(published):
    stored = load_profile(published.profile)
    counted = tuple(
        record.model_copy(update={"num_cycles": dict.fromkeys(record.gammas(), 20_000)})
        for record in stored.profile.acceptance
    )
    known = replace(stored, profile=stored.profile.model_copy(update={"acceptance": counted}))
    by_position = summarise(simulate(published)).tokens.mean_acceptance_length
    fitted = published.with_(**{"speculation.acceptance": "heterogeneous"})
    found = summarise(simulate(fitted, stored=known)).tokens.mean_acceptance_length
    assert found == pytest.approx(by_position, rel=0.05)
