"""Modified rejection sampling is exact: what is emitted follows p, whatever q was."""

import itertools

import numpy as np
import pytest
from scipy.stats import chisquare

torch = pytest.importorskip("torch", reason="torch is not installed: pip install .[calibration]")

from calibration.decode import decode
from calibration.models import LanguageModel
from calibration.proposers.draft_model import DraftModelProposer
from calibration.proposers.ngram import NgramProposer
from calibration.sampling import draw, token_probabilities
from calibration.tiny import random_model
from calibration.verify import verify_sampled
from simcore.profile.schema import Sampling

pytestmark = pytest.mark.torch
NUM_DRAWS = 6000
SAMPLED = Sampling(temperature=1.0)

CASES = {
    "p equals q": ([0.5, 0.3, 0.2], [0.5, 0.3, 0.2]),
    "partial overlap": ([0.6, 0.3, 0.1], [0.1, 0.2, 0.7]),
    "disjoint supports": ([0.7, 0.3, 0.0, 0.0], [0.0, 0.0, 0.4, 0.6]),
    "a token that q never proposes": ([0.25, 0.25, 0.5], [0.5, 0.5, 0.0]),
}


def agrees(counts: np.ndarray, probabilities: np.ndarray) -> bool:
    """Chi-square over the cells that can occur; the others must be empty."""
    possible = probabilities > 0
    assert counts[~possible].sum() == 0
    if possible.sum() == 1:
        return True
    expected = probabilities[possible] / probabilities[possible].sum() * counts.sum()
    return chisquare(counts[possible], expected).pvalue > 1e-4


@pytest.mark.parametrize("case", CASES)
def test_first_emitted_token_follows_the_target_and_acceptance_is_the_overlap(case):
    p_row, q_row = (torch.tensor(values, dtype=torch.float64) for values in CASES[case])
    generator = torch.Generator().manual_seed(11)
    counts, accepted = np.zeros(len(p_row)), 0
    for _ in range(NUM_DRAWS):
        draft = draw(q_row, generator)
        verdict = verify_sampled(
            torch.stack([p_row, p_row]), torch.tensor([draft]), q_row[None], generator
        )
        counts[draft if verdict.accepted else verdict.next_token] += 1
        accepted += verdict.accepted
    overlap = float(torch.minimum(p_row, q_row).sum())
    error = np.sqrt(overlap * (1 - overlap) / NUM_DRAWS)
    assert agrees(counts, p_row.numpy())
    assert abs(accepted / NUM_DRAWS - overlap) <= 4 * error + 1e-12


def test_a_point_mass_draft_is_accepted_with_its_target_probability():
    p_row = torch.tensor([0.2, 0.5, 0.3], dtype=torch.float64)
    generator = torch.Generator().manual_seed(5)
    counts, accepted = np.zeros(3), 0
    for _ in range(NUM_DRAWS):
        verdict = verify_sampled(torch.stack([p_row, p_row]), torch.tensor([0]), None, generator)
        counts[0 if verdict.accepted else verdict.next_token] += 1
        assert verdict.accepted or verdict.next_token != 0
        accepted += verdict.accepted
    assert agrees(counts, p_row.numpy())
    assert abs(accepted / NUM_DRAWS - 0.2) < 4 * np.sqrt(0.16 / NUM_DRAWS)


def test_full_acceptance_emits_a_bonus_token_of_the_position_after_the_chain():
    certain = torch.tensor([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.3, 0.7, 0.0]], dtype=torch.float64)
    generator = torch.Generator().manual_seed(2)
    counts = np.zeros(3)
    for _ in range(NUM_DRAWS):
        verdict = verify_sampled(certain, torch.tensor([1, 2]), certain[:2], generator)
        assert verdict.accepted == 2
        counts[verdict.next_token] += 1
    assert agrees(counts, certain[2].numpy())


def test_nothing_proposed_is_plain_sampling():
    p_row = torch.tensor([[0.1, 0.9, 0.0]], dtype=torch.float64)
    generator = torch.Generator().manual_seed(2)
    counts = np.zeros(3)
    for _ in range(NUM_DRAWS):
        verdict = verify_sampled(p_row, torch.tensor([], dtype=torch.int64), None, generator)
        counts[verdict.next_token] += 1
    assert agrees(counts, p_row[0].numpy())


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


@pytest.mark.parametrize("kind", ["plain", "ngram", "draft_model"])
@pytest.mark.parametrize("sampling", [SAMPLED, Sampling(temperature=0.7, top_k=3, top_p=0.9)])
def test_texts_of_the_real_loop_follow_the_enumerated_distribution(kind, sampling):
    target = bare(random_model(1, 16, seed=1, vocab_size=4))
    prompt = [1, 2, 3, 1, 2]
    proposers = {
        "plain": None,
        "ngram": NgramProposer(),
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
        )
        counts[tuple(decoded.token_ids)] += 1
    likely = [text for text in law if law[text] * 500 >= 5]
    rest_count = 500 - sum(counts[text] for text in likely)
    rest = 1.0 - sum(law[text] for text in likely)
    observed = np.array([*(counts[text] for text in likely), rest_count])
    expected = np.array([*(law[text] for text in likely), max(rest, 0.0)])
    expected[expected < 1e-12] = 0.0
    assert agrees(observed, expected)
