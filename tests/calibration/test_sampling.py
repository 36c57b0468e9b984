"""Temperature, top-k, top-p and min-p turn logits into the distribution that is sampled."""

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install .[calibration]")

from calibration.sampling import draw, token_probabilities
from simcore.profile.schema import Sampling

pytestmark = pytest.mark.torch
LOGITS = torch.tensor([0.5, 0.3, 0.15, 0.05], dtype=torch.float64).log()


def probabilities(**transforms: float) -> list[float]:
    return token_probabilities(LOGITS, Sampling(**transforms)).tolist()


def test_temperature_one_leaves_the_softmax_as_it_is():
    assert probabilities(temperature=1.0) == pytest.approx([0.5, 0.3, 0.15, 0.05])


def test_temperature_zero_is_a_point_mass_on_the_argmax():
    assert probabilities(temperature=0.0) == [1.0, 0.0, 0.0, 0.0]


def test_top_k_keeps_the_k_most_likely_tokens_renormalised():
    assert probabilities(temperature=1.0, top_k=2) == pytest.approx([0.625, 0.375, 0.0, 0.0])


def test_top_p_keeps_the_smallest_set_that_reaches_the_mass():
    assert probabilities(temperature=1.0, top_p=0.79) == pytest.approx([0.625, 0.375, 0.0, 0.0])
    assert probabilities(temperature=1.0, top_p=0.81)[2] > 0.0


def test_min_p_keeps_what_reaches_its_share_of_the_likeliest():
    kept = probabilities(temperature=1.0, min_p=0.5)
    assert kept == pytest.approx([0.625, 0.375, 0.0, 0.0])
    assert probabilities(temperature=1.0, min_p=0.25)[2] > 0.0


def test_top_k_larger_than_the_vocabulary_changes_nothing():
    assert probabilities(temperature=1.0, top_k=9) == pytest.approx(probabilities(temperature=1.0))


def test_half_precision_logits_are_computed_in_float32():
    assert token_probabilities(LOGITS.bfloat16(), Sampling(temperature=1.0)).dtype == torch.float32


def test_a_token_without_mass_is_never_drawn():
    generator = torch.Generator().manual_seed(0)
    mass = torch.tensor([0.0, 1e-6, 0.0])
    assert {draw(mass, generator) for _ in range(200)} == {1}
