"""Sampled texts of every exact combination follow the target's law, in the serving loop."""

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install .[calibration]")

import numpy as np
from scipy.stats import chisquare

from calibration.contracts.transforms import Transforms
from calibration.model.target import decoder_of_shape, load_decoder
from calibration.proposers.lookahead import LookaheadShape
from calibration.sampling import token_probabilities
from calibration.serve.request import ServedRequest
from calibration.serve.run import Served, serve
from calibration.serve.service import Service
from simcore.profile.schema import Sampling
from tests.calibration.combinations.listing import ALL, TOPOLOGIES, Combination
from tests.calibration.paging import TINY, whole_text_logits
from tests.calibration.serving import scenario_of

pytestmark = pytest.mark.torch
SAMPLING = Sampling(temperature=1.3, top_k=2)
VOCAB_SIZE = 6  # small, so that whoever proposes hits what the target likes
PROMPT = (4, 2, 4, 2, 4, 5, 4, 2)
NUM_TOKENS, NUM_TEXTS = 5, 1500
P_VALUE = 1e-5  # of some forty runs
QUICK_GRAMS = LookaheadShape(window=4, ngram=3, guesses=3)  # complete within a short text

EXACT = tuple(
    one for one in ALL if one.is_allowed and one.rule.is_exact and one.contract != "greedy"
)
DISTINCT = tuple(one for one in EXACT if one.measured_as == one)
ALIKE = tuple(one for one in EXACT if one.measured_as != one)


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
            logits = whole_text_logits(models[0].decoder, np.array([*PROMPT, *text]))[-1]
            p = token_probabilities(logits, SAMPLING)
            longer |= {(*text, int(token)): mass * float(p[token]) for token in p.nonzero()[:, 0]}
        found = longer
    assert len(found) == 2**NUM_TOKENS
    return found


def run(combination: Combination, target, draft, requests, **changes) -> Served:
    proposing = combination.proposing(target, draft, 1, QUICK_GRAMS)
    scenario = scenario_of(TOPOLOGIES[combination.topology], 1.0, **changes)
    return serve(Service(scenario, requests, target, proposing), combination.rule)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("combination", DISTINCT, ids=lambda one: one.name)
def test_sampled_texts_of_an_exact_combination_follow_the_law(models, law, combination):
    request = ServedRequest(PROMPT, NUM_TOKENS, transforms=Transforms(SAMPLING))
    room = {
        "sampling": SAMPLING.model_dump(),
        "deployment.max_num_seqs": 64,
        "deployment.max_num_batched_tokens": 2048,
        "deployment.kv_cache_tokens": 8000,
    }
    found = run(combination, *models, [request] * NUM_TEXTS, **room)
    rows = found.records.requests
    assert rows["accepted_tokens"].sum() > 100
    assert rows["corrected_tokens"].sum() > 100
    texts = [tuple(text.output_ids) for text in found.texts]
    assert set(texts) <= set(law)
    counts = [texts.count(text) for text in law]
    assert chisquare(counts, NUM_TEXTS * np.array(list(law.values()))).pvalue > P_VALUE


@pytest.fixture(scope="module")
def pair(tiny_pair):
    return [load_decoder(p, "float64", "cpu") for p in (tiny_pair.target, tiny_pair.draft)]


@pytest.mark.parametrize("combination", ALIKE, ids=lambda one: one.name)
def test_rules_that_are_one_accept_the_same_in_every_cycle(pair, prompt_ids, combination):
    requests = [
        ServedRequest(tuple(ids), 16, transforms=Transforms(Sampling(temperature=1.0)))
        for ids in prompt_ids
    ]
    own, same = (run(one, *pair, requests).cycles for one in (combination, combination.measured_as))
    assert sum(len(cycle.path) for cycle in own) > 0
    for one, other in zip(own, same, strict=True):
        assert (one.request, one.path, one.token_ids) == (
            other.request,
            other.path,
            other.token_ids,
        )
