"""Texts of the serving loop follow the target's law: enumerated, against frequencies."""

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install .[calibration]")

import numpy as np
from scipy.stats import chisquare

from calibration.contracts.named import contract_named
from calibration.contracts.threshold import ThresholdAcceptance
from calibration.contracts.transforms import Transforms
from calibration.model.target import decoder_of_shape
from calibration.proposers.suffix import SuffixProposer
from calibration.sampling import token_probabilities
from calibration.serve.proposing import by_draft_model, by_lookup
from calibration.serve.request import ServedRequest
from calibration.serve.run import serve
from calibration.serve.service import Service
from simcore.profile.schema import Sampling
from tests.calibration.paging import TINY, whole_text_logits
from tests.calibration.serving import TOPOLOGIES, scenario_of

pytestmark = pytest.mark.torch
SAMPLING = Sampling(temperature=1.3, top_k=3)
VOCAB_SIZE = 6  # small, so that the draft likes some of what the target likes
PROMPT = (4, 2, 4, 2, 4, 5, 4, 2)
NUM_TOKENS, NUM_TEXTS = 3, 1500
P_VALUE = 1e-4


@pytest.fixture(scope="module")
def models():
    """A target and a draft that know nothing of each other."""
    found = []
    for num_layers, seed in ((3, 0), (1, 1)):
        shape = TINY.model_copy(update={"num_layers": num_layers, "vocab_size": VOCAB_SIZE})
        found.append(decoder_of_shape(shape, "tiny", "float64", "cpu", seed=seed))
    return found


@pytest.fixture(scope="module")
def law(models):
    """Probability of every text, token by token."""
    found: dict[tuple[int, ...], float] = {(): 1.0}
    for _ in range(NUM_TOKENS):
        longer = {}
        for text, mass in found.items():
            p = token_probabilities(
                whole_text_logits(models[0].decoder, np.array([*PROMPT, *text]))[-1], SAMPLING
            )
            longer |= {(*text, int(token)): mass * float(p[token]) for token in p.nonzero()[:, 0]}
        found = longer
    assert len(found) == 3**NUM_TOKENS
    assert sum(found.values()) == pytest.approx(1.0, abs=1e-12)
    return found


def p_value(models, law, proposing, topology, contract) -> float:
    request = ServedRequest(PROMPT, NUM_TOKENS, transforms=Transforms(SAMPLING))
    scenario = scenario_of(
        TOPOLOGIES[topology],
        **{
            "contract": "exact_sampling",
            "sampling": SAMPLING.model_dump(),
            "deployment.max_num_seqs": 64,
            "deployment.max_num_batched_tokens": 1024,
            "deployment.kv_cache_tokens": 8000,
        },
    )
    run = serve(Service(scenario, [request] * NUM_TEXTS, models[0], proposing), contract)
    assert run.records.requests["accepted_tokens"].sum() > 100
    assert run.records.requests["corrected_tokens"].sum() > 100
    texts = [tuple(text.output_ids) for text in run.texts]
    assert set(texts) <= set(law)
    counts = [texts.count(text) for text in law]
    return float(chisquare(counts, NUM_TEXTS * np.array(list(law.values()))).pvalue)


EXACT = [("chain 4", "token_wise"), ("chain 4", "block"), ("fixture", "sequoia")]


@pytest.mark.parametrize(("topology", "contract"), EXACT)
def test_sampled_texts_under_an_exact_contract_follow_the_targets_law(
    models, law, topology, contract
):
    proposing = by_draft_model(models[1])
    assert p_value(models, law, proposing, topology, contract_named(contract)) > P_VALUE


def test_texts_drafted_by_a_lookup_follow_the_targets_law(models, law):
    found = p_value(models, law, by_lookup(SuffixProposer), "chain 4", contract_named("exact"))
    assert found > P_VALUE


def test_texts_under_a_relaxed_contract_do_not(models, law):
    proposing = by_draft_model(models[1])
    relaxed = ThresholdAcceptance(single=0.15)
    assert p_value(models, law, proposing, "chain 4", relaxed) < P_VALUE
