"""The latent chain with a request effect: laws, recovery, and what it may see."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcore.acceptance.chain import cycle_matrices
from simcore.acceptance.comparison import compare_models, fit_models, prediction_errors
from simcore.acceptance.evidence import (
    evidence_from_counters,
    evidence_from_cycles,
    evidence_from_histograms,
    histogram_from_positions,
)
from simcore.acceptance.heterogeneous import (
    Heterogeneous,
    Parameters,
    chain_at,
    simulate_walks,
    typical_ease,
)
from simcore.acceptance.heterogeneous_fit import fit_heterogeneous, fit_report
from simcore.acceptance.lists import AcceptanceLists
from simcore.acceptance.prediction import Independent, Outputs, fit_iid
from simcore.acceptance.survival import iid_mean_emitted_tokens
from simcore.errors import AcceptanceError
from tests.acceptance.recordings import lists_of, text_of_two_kinds

LOG_ODDS = st.floats(-4.0, 4.0)
PARAMETERS = st.builds(
    Parameters,
    easy=LOG_ODDS,
    hard=LOG_ODDS,
    easy_to_hard=LOG_ODDS,
    hard_to_easy=LOG_ODDS,
    depth_decay=st.floats(-0.5, 1.0),
    acceptance_loading=st.floats(0.0, 1.5),
    chain_loading=st.floats(0.0, 1.5),
    skew=st.floats(-0.8, 0.8),
    length_slope=st.floats(-0.5, 0.5),
    opening_positions=st.integers(0, 8),
    runaway_shift=st.floats(-3.0, 3.0),
    runaway_share=st.just(0.0),
)
STICKY = Parameters(3.0, -1.0, -3.0, -3.0, 0.0, 0.4, 0.4, 0.0, 0.0, 0, 0.0, 0.0)


@given(parameters=PARAMETERS, gamma=st.integers(1, 10))
def test_a_cycle_ends_somewhere_whatever_the_parameters(parameters, gamma):
    matrices = cycle_matrices(chain_at(parameters, [-2.0, 0.0, 2.0]), gamma)
    assert (matrices >= 0.0).all()
    assert np.allclose(matrices.sum(axis=(-3, -1)), 1.0)


@given(parameters=PARAMETERS, gamma=st.integers(1, 10))
def test_survival_never_increases_and_tokens_lie_between_one_and_gamma_plus_one(parameters, gamma):
    survival = Heterogeneous(parameters, 3).survival(gamma)
    assert (np.diff([1.0, *survival]) <= 1e-9).all()
    tokens, cycles = simulate_walks(
        parameters, gamma, Outputs(np.full(20, 50), np.zeros(20, dtype=bool)), seed=1
    )
    assert (cycles <= tokens).all()
    assert (cycles * (gamma + 1) >= tokens).all()


@given(skew=st.floats(-0.8, 0.8))
def test_the_ease_has_mean_zero_and_variance_one_whatever_its_skew(skew):
    ease = typical_ease(STICKY._replace(skew=skew))
    assert ease.mean() == pytest.approx(0.0, abs=0.03)
    assert ease.std() == pytest.approx(1.0, abs=0.12)


def test_a_longer_draft_starts_more_of_its_cycles_in_hard_text():
    first = [Heterogeneous(STICKY, 3).survival(gamma)[0] for gamma in (1, 3, 5, 7)]
    assert (np.diff(first) < -0.01).all()


def test_without_states_and_effects_it_is_one_rate():
    same = STICKY._replace(hard=STICKY.easy, acceptance_loading=0.0)
    rate = 1 / (1 + np.exp(-STICKY.easy))
    survival = Heterogeneous(same, 3).survival(5)
    assert 1 + survival.sum() == pytest.approx(iid_mean_emitted_tokens(rate, 5))


def test_long_walks_emit_what_the_law_says():
    alike = STICKY._replace(acceptance_loading=0.0, chain_loading=0.0)
    tokens, cycles = simulate_walks(
        alike, 4, Outputs(np.full(200, 2_000), np.zeros(200, dtype=bool)), seed=2
    )
    expected = 1 + Heterogeneous(alike, 3).survival(4).sum()
    rate = tokens / cycles
    assert abs(rate.mean() - expected) < 4 * rate.std() / np.sqrt(len(rate)) + 0.005


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_fitted_at_three_it_predicts_the_mean_and_the_spread_at_other_draft_lengths(seed):
    lists = text_of_two_kinds(600, 200, seed, spread=0.6)
    train, test = lists.chosen(np.arange(300)), lists.chosen(np.arange(300, 600))
    errors = prediction_errors(fit_models(train, 3), test)
    for gamma, by_model in errors.items():
        own, one_rate = by_model["heterogeneous"], by_model["iid"]
        assert abs(own["mean_by_request"].relative) < 0.05, gamma
        assert abs(own["mean_by_token"].relative) < 0.05, gamma
        assert abs(own["request_sd"].relative) < 0.2, gamma
        assert one_rate["request_sd"].relative < -0.3, gamma


def test_the_fit_sees_nothing_beyond_the_draft_length_that_it_is_fitted_at():
    lists = text_of_two_kinds(60, 120, 4)
    capped = AcceptanceLists(
        tuple(np.minimum(each, 3) for each in lists.accepted), "position", lists.output_tokens
    )
    full = fit_heterogeneous(evidence_from_cycles(lists.cycles(3)))
    assert fit_heterogeneous(evidence_from_cycles(capped.cycles(3))) == full
    assert len(full.parameters) <= 12


def test_positions_that_no_draft_survives_open_every_output():
    late = [np.concatenate([[0] * 4, each]) for each in text_of_two_kinds(80, 60, 5).accepted]
    model = fit_heterogeneous(evidence_from_cycles(lists_of(*late).cycles(3)))
    assert model.parameters.opening_positions == 4


def test_runaways_are_a_stratum_with_their_own_shift():
    easy = text_of_two_kinds(6, 400, 6, easy=0.99, hard=0.99)
    usual = text_of_two_kinds(100, 100, 7, easy=0.6, hard=0.6)
    both = lists_of(*usual.accepted, *easy.accepted)
    evidence = evidence_from_cycles(both.cycles(3, runaway_tokens=400))
    alone = evidence_from_cycles(usual.cycles(3))
    model = fit_heterogeneous(evidence)
    assert model.parameters.runaway_share == pytest.approx(6 / 106)
    assert model.parameters.runaway_shift > 1.0
    kept = fit_heterogeneous(alone).parameters
    assert model.parameters._replace(runaway_shift=0.0, runaway_share=0.0) == kept
    report = fit_report(evidence, model, num_resamples=2)
    assert report.num_runaways == 6
    assert report.parameters["runaway_shift"].identified


def test_where_every_output_is_a_runaway_they_are_the_population():
    lists = text_of_two_kinds(30, 80, 11)
    evidence = evidence_from_cycles(lists.cycles(3, runaway_tokens=80))
    usual = fit_heterogeneous(evidence_from_cycles(lists.cycles(3))).parameters
    model = fit_heterogeneous(evidence)
    assert model.parameters._replace(runaway_share=0.0) == usual
    assert fit_report(evidence, model, num_resamples=0).num_runaways == 30


def test_outputs_too_short_for_the_draft_length_are_refused():
    with pytest.raises(AcceptanceError, match="whole cycles"):
        fit_heterogeneous(evidence_from_cycles(lists_of([0], [1, 0], [2, 1, 0]).cycles(5)))


def test_histograms_by_request_tell_the_mean_and_the_spread():
    lists = text_of_two_kinds(300, 200, 8, spread=0.6)
    sample = lists.cycles(3)
    counts = np.zeros((300, 4))
    np.add.at(counts, (sample.request, sample.accepted), 1)
    model = fit_heterogeneous(evidence_from_histograms(counts))
    errors = prediction_errors([model], lists, (3,))[3]["heterogeneous"]
    assert abs(errors["mean_by_request"].relative) < 0.02
    assert abs(errors["request_sd"].relative) < 0.1


def test_counters_tell_survival_and_leave_the_spread_to_the_prior():
    evidence = evidence_from_counters(1000, [670, 430, 270])
    model = fit_heterogeneous(evidence)
    assert model.survival(3) == pytest.approx([0.67, 0.43, 0.27], abs=0.02)
    report = fit_report(evidence, model, num_resamples=5)
    assert not report.parameters["acceptance_loading"].identified
    assert not report.parameters["opening_positions"].identified


@pytest.mark.parametrize("counters", [(10, [11]), (10, [5, 6]), (-1, [0])])
def test_counters_that_rise_with_depth_are_refused(counters):
    with pytest.raises(AcceptanceError, match="never rise"):
        histogram_from_positions(*counters)


@pytest.mark.parametrize("counts", [[[1.5, 2]], [[-1, 2]], [[0, 0]], [[3]], [1, 2]])
def test_a_histogram_that_counts_nothing_is_refused(counts):
    with pytest.raises(AcceptanceError, match="histogram"):
        evidence_from_histograms(counts)


def test_one_rate_predicts_its_own_cycles():
    lists = text_of_two_kinds(400, 200, 9, easy=0.7, hard=0.7)
    model = fit_iid(lists.cycles(3))
    errors = prediction_errors([model], lists, (1, 5))
    for by_model in errors.values():
        assert abs(by_model["iid"]["mean_by_token"].relative) < 0.02


def test_rates_by_position_go_on_with_the_last_one_and_hold_at_the_extremes():
    outputs = Outputs(np.full(50, 60), np.zeros(50, dtype=bool))
    assert (Independent("iid", (1.0,)).walks(5, outputs, seed=1).cycles == 10).all()
    assert (Independent("iid", (0.0,)).walks(5, outputs, seed=1).cycles == 60).all()
    only_first = Independent("positional", (1.0, 0.0)).walks(5, outputs, seed=1)
    assert (only_first.cycles == 30).all()


def test_the_comparison_holds_every_model_with_and_without_runaways():
    lists = text_of_two_kinds(40, 60, 10)
    found = compare_models(lists, lists, 3, (1, 3), num_resamples=2)
    assert set(found.errors[3]) == {"heterogeneous", "iid", "positional", "trace"}
    assert found.errors_without_runaways == found.errors
    assert found.errors[3]["trace"]["mean_by_token"].absolute == 0.0
    low, high = (getattr(found.heterogeneous.parameters["easy"], end) for end in ("low", "high"))
    assert low < found.heterogeneous.parameters["easy"].value < high


def test_a_fit_tells_how_many_refits_are_done():
    evidence = evidence_from_cycles(text_of_two_kinds(20, 60, 1).cycles(3))
    told = []
    fit_report(
        evidence,
        fit_heterogeneous(evidence),
        num_resamples=2,
        progress=lambda done, total: told.append((done, total)),
    )
    assert told == [(1, 2), (2, 2)]
