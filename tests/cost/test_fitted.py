"""The law beside the samples that it was fitted to."""

import numpy as np
import pytest

from simcore.cost.fitted import fitted_samples
from simcore.profile.store import load_profile


@pytest.fixture(scope="module")
def stored():
    return load_profile("smollm2_135m_cpu")


def test_samples_made_from_the_law_lie_on_it(stored):
    law = stored.profile.cost
    fitted = fitted_samples(law, stored.cost_samples.to_pandas())
    again = fitted_samples(
        law, fitted.assign(median_s=fitted["fitted_s"])[list(fitted.columns[:11])]
    )
    inside = again[again["median_s"] > 0.0]
    assert len(inside) > 300
    np.testing.assert_allclose(inside["residual_rel"], 0.0, atol=1e-12)


def test_the_residuals_are_no_larger_than_those_of_samples_the_fit_did_not_see(stored):
    law = stored.profile.cost
    fitted = fitted_samples(law, stored.cost_samples.to_pandas())
    seen = fitted[fitted["phase"] == "target"]["residual_rel"].abs().median()
    assert 0.0 < seen <= law.held_out_error["target"].median_rel


def test_host_overlap_hides_nothing_of_a_phase_that_was_timed_alone(stored):
    law, samples = stored.profile.cost, stored.cost_samples.to_pandas()
    hiding = law.model_copy(update={"host_overlap": 1.0})
    assert fitted_samples(hiding, samples).equals(fitted_samples(law, samples))


def test_a_proposer_that_the_law_does_not_know_has_no_fitted_time(stored):
    samples = stored.cost_samples.to_pandas()
    samples.loc[samples["proposer"] == "ngram", "proposer"] = "stranger"
    fitted = fitted_samples(stored.profile.cost, samples)
    assert fitted.loc[fitted["proposer"] == "stranger", "fitted_s"].isna().all()
    assert fitted.loc[fitted["proposer"] != "stranger", "fitted_s"].notna().all()
