"""Texts of the real loop follow the target's distribution, whatever proposed them."""

import itertools

import numpy as np
import pytest
from scipy.stats import chisquare

torch = pytest.importorskip("torch", reason="torch is not installed: pip install .[calibration]")

from calibration.contracts.block import BLOCK
from calibration.contracts.recursive_rejection import TOKEN_WISE, TOP_K
from calibration.decode import decode
from calibration.models import LanguageModel
from calibration.proposers.draft_model import DraftModelProposer
from calibration.proposers.ngram import NgramProposer
from calibration.proposers.suffix import SuffixProposer
from calibration.sampling import token_probabilities
from calibration.tiny import random_model
from simcore.profile.schema import Sampling

pytestmark = pytest.mark.torch
SAMPLED = Sampling(temperature=1.0)


def agrees(counts: np.ndarray, probabilities: np.ndarray) -> bool:
    """Chi-square over the cells that can occur; the others must be empty."""
    possible = probabilities > 0
    assert counts[~possible].sum() == 0
    if possible.sum() == 1:
        return True
    expected = probabilities[possible] / probabilities[possible].sum() * counts.sum()
    return chisquare(counts[possible], expected).pvalue > 1e-4


def bare(model) -> LanguageModel:
    """A model without tokenizer or identity: the loop needs neither."""
    return LanguageModel(model.double().eval(), None, None, frozenset({0}))


def sequence_law(target, prompt, max_tokens, sampling) -> dict[tuple[int, ...], float]:
    """Probability of every text that can be emitted, by enumeration."""
    law: dict[tuple[int, ...], float] = {}
    vocab = target.model.config.vocab_size
    for text in itertools.product(range(vocab), repeat=max_tokens):
        end = text.index(0) + 1 if 0 in text else max_tokens
        if any(text[end:]):
            continue  # counted once, with zeros after EOS
        ids = torch.tensor([[*prompt, *text[:end]]])
        rows = token_probabilities(target.forward(ids)[0], sampling)[len(prompt) - 1 : -1]
        law[text[:end]] = float(rows.gather(-1, torch.tensor(text[:end])[:, None]).prod())
    assert abs(sum(law.values()) - 1.0) < 1e-9
    return law


@pytest.mark.parametrize(
    ("kind", "contract"),
    [
        ("plain", TOKEN_WISE),
        ("ngram", TOKEN_WISE),
        ("ngram", BLOCK),
        ("suffix", TOP_K),
        ("draft_model", TOKEN_WISE),
        ("draft_model", BLOCK),
    ],
)
@pytest.mark.parametrize("sampling", [SAMPLED, Sampling(temperature=0.7, top_k=3, top_p=0.9)])
def test_texts_of_the_real_loop_follow_the_enumerated_distribution(kind, sampling, contract):
    target = bare(random_model(1, 16, seed=1, vocab_size=4))
    prompt = [1, 2, 3, 1, 2]
    proposers = {
        "plain": None,
        "ngram": NgramProposer(),
        "suffix": SuffixProposer(),
        "draft_model": DraftModelProposer(bare(random_model(1, 16, seed=2, vocab_size=4))),
    }
    law = sequence_law(target, prompt, 3, sampling)
    counts = dict.fromkeys(law, 0)
    for seed in range(500):
        decoded = decode(
            target,
            proposers[kind],
            prompt,
            num_speculative_tokens=2,
            sampling=sampling,
            max_tokens=3,
            generator=torch.Generator().manual_seed(seed),
            contract=contract,
        )
        counts[tuple(decoded.token_ids)] += 1
        assert decoded.contract == contract.name
    likely = [text for text in law if law[text] * 500 >= 5]
    rest_count = 500 - sum(counts[text] for text in likely)
    rest = 1.0 - sum(law[text] for text in likely)
    observed = np.array([*(counts[text] for text in likely), rest_count])
    expected = np.array([*(law[text] for text in likely), max(rest, 0.0)])
    expected[expected < 1e-12] = 0.0
    assert agrees(observed, expected)
