"""Pricing a step and fitting the law, against known coefficients."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcore.cost.fit import fit_cost, fit_imported, fit_target
from simcore.cost.law import CostLaw
from simcore.cost.price import decode_step, law_tables, price
from simcore.cost.shape import StepShape
from simcore.errors import ProfileError
from tests.factories import cost_law

LAW = cost_law()


def test_a_plain_step_costs_what_the_law_says():
    step = decode_step(law_tables(LAW, None), 4, 100, 0)
    assert step.propose_s == 0.0
    assert step.target_s == pytest.approx(0.02 + 3 * 0.002 / 31 + 4e-5 + 400e-6)
    assert step.reconcile_s == pytest.approx(5e-4 + 4 * 2e-5)
    assert step.total_s == pytest.approx(step.target_s + step.reconcile_s + 1e-3)


def test_a_drafting_step_pays_each_pass_and_each_draft():
    step = decode_step(law_tables(LAW, "draft_model"), 4, 100, 3)
    assert step.propose_s == pytest.approx(1e-4 + 3 * 1.5e-3 + 12 * 2e-5)
    assert step.target_s == pytest.approx(0.02 + 15 * 0.002 / 31 + 4e-5 + 400e-6)


def test_gamma_zero_with_a_proposer_loaded_costs_exactly_plain_decoding():
    for batch_size in (1, 5, 16):
        with_proposer = decode_step(law_tables(LAW, "draft_model"), batch_size, 64, 0)
        assert with_proposer == decode_step(law_tables(LAW, None), batch_size, 64, 0)


@given(tokens=st.floats(1, 5000), more=st.floats(0, 5000))
def test_the_target_pass_never_gets_cheaper_with_more_tokens(tokens, more):
    tables = law_tables(LAW, None)

    def target_s(count: float) -> float:
        return price(tables, StepShape(1.0, 1.0, 0.0, 0.0, 0.0, count, 0.0, 0.0, 0.0, 0.0))[1]

    assert target_s(tokens + more) >= target_s(tokens)


def _samples(law: CostLaw, noise: float, seed: int = 0) -> pd.DataFrame:
    """Timed samples of a law over a grid, with relative noise."""
    rng = np.random.default_rng(seed)
    rows = []

    def add(phase, proposer, batch, queries, context, gamma, seconds):
        median_s = seconds * np.exp(noise * rng.standard_normal())
        rows.append((phase, proposer, batch, queries, context, gamma, median_s))

    for batch in (1, 2, 4, 8, 16):
        for context in (64, 512, 1536):
            for gamma in (0, 1, 2, 4, 8):
                for proposer in ("ngram", "draft_model"):
                    step = decode_step(law_tables(law, proposer), batch, context, gamma)
                    if gamma > 0:
                        add("propose", proposer, batch, gamma + 1, context, gamma, step.propose_s)
                add("target", None, batch, gamma + 1, context, gamma, step.target_s)
                add("reconcile", None, batch, gamma + 1, context, gamma, step.reconcile_s)
        add("overhead", None, batch, 1, 64, 0, law.overhead_s)
    tables = law_tables(law, None)
    for chunk in (16, 64, 128, 256, 512, 1024):
        shape = StepShape(1.0, 0.0, 0.0, 0.0, 0.0, float(chunk), 0.0, 0.0, float(chunk), 0.0)
        add("target", None, 1, chunk, 0, 0, price(tables, shape)[1])
    columns = [
        "phase",
        "proposer",
        "batch_size",
        "num_query_tokens",
        "context_tokens",
        "num_speculative_tokens",
        "median_s",
    ]
    return pd.DataFrame(rows, columns=columns)


def test_the_fit_finds_a_law_again_from_clean_samples():
    fitted = fit_cost(_samples(LAW, 0.0), ("ngram", "draft_model"))
    for proposer, gamma in (("ngram", 0), ("ngram", 4), ("draft_model", 6)):
        for batch, context in ((1, 64), (3, 700), (16, 1536)):
            expected = decode_step(law_tables(LAW, proposer), batch, context, gamma)
            found = decode_step(law_tables(fitted, proposer), batch, context, gamma)
            assert found.total_s == pytest.approx(expected.total_s, rel=1e-3)
    assert fitted.held_out_error["target"].p90_rel < 1e-3
    assert fitted.domain.max_batch_size == 16
    assert fitted.domain.max_context_tokens == 1536
    assert fitted.domain.max_query_tokens_per_request == 9
    assert fitted.domain.max_step_tokens == 1024


def test_only_roots_drafts_and_the_last_token_of_a_chunk_are_scored():
    law = LAW.model_copy(
        update={"target": LAW.target.model_copy(update={"per_scored_token_s": 1e-3})}
    )
    # Two requests with three drafts each beside a prefill chunk of 50 tokens.
    shape = StepShape(3.0, 2.0, 3.0, 6.0, 6.0, 58.0, 0.0, 0.0, 50.0, 0.0)
    more_s = price(law_tables(law, None), shape)[1] - price(law_tables(LAW, None), shape)[1]
    assert more_s == pytest.approx((2 * 4 + 1) * 1e-3)


def test_the_fit_tells_scored_tokens_from_those_of_a_prefill():
    target = LAW.target.model_copy(update={"per_scored_token_s": 2e-4})
    law = LAW.model_copy(update={"target": target})
    fitted, _ = fit_target(_samples(law, 0.0))
    assert fitted.per_scored_token_s == pytest.approx(2e-4, rel=0.02)


def test_without_a_prefill_among_the_samples_no_cost_is_put_on_scored_tokens():
    samples = _samples(LAW, 0.0)
    decoding = samples["num_query_tokens"] == samples["num_speculative_tokens"] + 1
    fitted, _ = fit_target(samples[decoding])
    assert fitted.per_scored_token_s == 0.0


def test_imported_drafting_times_give_the_same_prefill_rate_as_measured_ones():
    samples = _samples(LAW, 0.0)
    chunk = samples.iloc[0].to_dict() | {
        "phase": "propose",
        "proposer": "draft_model",
        "batch_size": 1,
        "num_query_tokens": 64,
        "context_tokens": 0,
        "num_speculative_tokens": 0,
        "median_s": 64 * 8e-5,
    }
    samples = pd.concat([samples, pd.DataFrame([chunk])], ignore_index=True)
    for law in (fit_cost(samples, ("draft_model",)), fit_imported(samples, ("draft_model",))):
        assert law.proposer_runs["draft_model"].per_prefill_token_s == pytest.approx(8e-5)


def test_a_proposers_own_prefill_becomes_one_rate_a_token():
    samples = _samples(LAW, 0.0)
    chunks = (16, 64, 256)
    prefill = pd.DataFrame(
        {
            "phase": "propose",
            "proposer": "draft_model",
            "batch_size": 1,
            "num_query_tokens": chunks,
            "context_tokens": 0,
            "num_speculative_tokens": 0,
            "median_s": [chunk * 8e-5 for chunk in chunks],
        }
    )
    with_prefill = fit_cost(pd.concat([samples, prefill]), ("ngram", "draft_model"))
    without = fit_cost(samples, ("ngram", "draft_model"))
    run = with_prefill.proposer_runs["draft_model"]
    assert run.per_prefill_token_s == pytest.approx(8e-5)
    assert with_prefill.propose == without.propose
    assert without.proposer_runs == {}


def test_the_held_out_error_is_about_the_noise_of_the_samples():
    fitted = fit_cost(_samples(LAW, 0.05), ("ngram", "draft_model"))
    # The median of |N(0, 5 %)| is 3.4 %; the fit adds a little.
    assert 0.02 < fitted.held_out_error["target"].median_rel < 0.06


def test_too_few_samples_are_refused():
    few = _samples(LAW, 0.0).head(9)
    with pytest.raises(ProfileError, match="expected at least"):
        fit_cost(few, ("ngram",))


def test_a_law_whose_knots_fall_is_refused():
    with pytest.raises(ValueError, match="must not decrease"):
        LAW.target.model_validate(LAW.target.model_dump() | {"knot_s": (0.03, 0.02, 0.5)})
