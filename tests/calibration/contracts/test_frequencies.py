"""The same rules with real generators: frequencies against the target, with stated power.

The power is that of the chi-square test against two laws that common mistakes would give: a
correction drawn from p itself, and a draft accepted with p(x) although it was drawn from q.
"""

import numpy as np
import pytest
from scipy.stats import chi2, chisquare, ncx2

torch = pytest.importorskip("torch", reason="torch is not installed: pip install .[calibration]")

from contract_law import choose_children

from calibration.contracts.block import BLOCK
from calibration.contracts.candidates import Candidates, chain_candidates
from calibration.contracts.judge import judge
from calibration.contracts.luck import GeneratorLuck
from calibration.contracts.recursive_rejection import SEQUOIA, SPECINFER, TOKEN_WISE, TOP_K
from calibration.contracts.transforms import Transforms
from calibration.randomness import keyed_generator
from simcore.acceptance.topology.sibling_rules import SiblingRule
from simcore.profile.schema import Sampling

pytestmark = pytest.mark.torch
NUM_DRAWS = 4000
ALPHA = 1e-4
MIN_POWER = 0.999
WARM = Transforms(Sampling(temperature=1.0))
CASES = {
    "p equals q": ([0.5, 0.3, 0.2], [0.5, 0.3, 0.2]),
    "partial overlap": ([0.6, 0.3, 0.1], [0.1, 0.2, 0.7]),
    "disjoint supports": ([0.7, 0.3, 0.0, 0.0], [0.0, 0.0, 0.4, 0.6]),
    "a token that q never proposes": ([0.25, 0.25, 0.5], [0.5, 0.5, 0.0]),
}
TREES = {
    SiblingRule.SPECINFER: SPECINFER,
    SiblingRule.SEQUOIA: SEQUOIA,
    SiblingRule.TOP_K: TOP_K,
}


def power(p: np.ndarray, other: np.ndarray) -> float:
    """P(the test refuses p) where the truth is `other`; 1 where it emits what p never does."""
    if other[p == 0].sum() * NUM_DRAWS > 50:
        return 1.0
    cells = p > 0
    distance = NUM_DRAWS * ((other[cells] - p[cells]) ** 2 / p[cells]).sum()
    freedom = int(cells.sum()) - 1
    return float(ncx2.sf(chi2.isf(ALPHA, freedom), freedom, distance)) if distance > 0 else 0.0


def check(counts: np.ndarray, p: np.ndarray) -> None:
    assert counts[p == 0].sum() == 0
    cells = p > 0
    assert chisquare(counts[cells], p[cells] * counts.sum()).pvalue > ALPHA
    distance = np.abs(counts / counts.sum() - p).sum() / 2
    # E|counts/n - p| <= sqrt(p(1-p)/n) by cell; four times that leaves it by chance alone.
    assert distance <= 2 * np.sqrt(p * (1 - p) / counts.sum()).sum()


def uncorrected(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    kept = np.minimum(p, q)
    return kept + (1 - kept.sum()) * p


def accepted_by_p(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    kept = q * p
    return kept + (1 - kept.sum()) * np.maximum(p - q, 0) / max(np.maximum(p - q, 0).sum(), 1e-300)


@pytest.mark.parametrize("case", ["partial overlap", "a token that q never proposes"])
def test_the_frequencies_would_betray_the_two_common_mistakes(case):
    p, q = map(np.array, CASES[case])
    assert power(p, uncorrected(p, q)) > MIN_POWER
    assert power(p, accepted_by_p(p, q)) > MIN_POWER


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("contract", [TOKEN_WISE, BLOCK])
def test_tokens_of_a_chain_follow_the_target_and_acceptance_is_the_overlap(contract, case):
    p, q = map(np.array, CASES[case])
    logits = torch.tensor(p).log().expand(2, -1)
    drafted = torch.tensor(q)[None]
    counts, accepted = np.zeros(len(p)), 0
    for seed in range(NUM_DRAWS):
        generator = torch.Generator().manual_seed(seed)
        token = GeneratorLuck(generator, 1).draw(drafted[0])
        candidates = [chain_candidates((token,), drafted)]
        (verdict,) = judge(contract, [logits], candidates, [WARM], [generator])
        counts[token if verdict.accepted else verdict.next_token] += 1
        accepted += verdict.accepted
    check(counts, p)
    overlap = np.minimum(p, q).sum()
    error = np.sqrt(overlap * (1 - overlap) / NUM_DRAWS)
    assert abs(accepted / NUM_DRAWS - overlap) <= 4 * error + 1e-12


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("rule", SiblingRule)
def test_tokens_of_a_tree_node_follow_the_target(rule, case):
    p, q = map(np.array, CASES[case])
    drafted = torch.tensor(q)
    counts = np.zeros(len(p))
    for seed in range(NUM_DRAWS):
        generator = torch.Generator().manual_seed(seed)
        tokens = choose_children(rule, drafted, 2, GeneratorLuck(generator, 1))
        is_drawn = rule is not SiblingRule.TOP_K
        candidates = Candidates((-1, -1), tuple(tokens), drafted[None] if is_drawn else None)
        logits = torch.tensor(p).log().expand(3, -1)
        (verdict,) = judge(TREES[rule], [logits], [candidates], [WARM], [generator])
        counts[tokens[verdict.path[0]] if verdict.path else verdict.next_token] += 1
    check(counts, p)


def test_a_token_without_probability_is_neither_accepted_nor_drawn():
    logits = torch.tensor([[0.0, -torch.inf, -torch.inf], [-torch.inf, 0.0, -torch.inf]])
    drafts = chain_candidates((1,), torch.tensor([[0.0, 1.0, 0.0]]))
    for contract in (TOKEN_WISE, BLOCK, SPECINFER, SEQUOIA, TOP_K):
        for seed in range(50):
            generator = keyed_generator(torch.device("cpu"), seed)
            (verdict,) = judge(contract, [logits], [drafts], [WARM], [generator])
            assert (verdict.path, verdict.next_token) == ((), 0)


def test_half_precision_logits_that_are_one_up_to_rounding_lose_nothing():
    logits = torch.randn(4, 50, generator=torch.Generator().manual_seed(3)).bfloat16()
    q = WARM.probabilities(logits) * (1 + 1e-6)
    drafts = tuple(int(row.argmax()) for row in q[:3])
    for contract in (TOKEN_WISE, BLOCK, SEQUOIA):
        for seed in range(30):
            generator = torch.Generator().manual_seed(seed)
            candidates = [chain_candidates(drafts, q[:3])]
            (verdict,) = judge(contract, [logits], candidates, [WARM], [generator])
            assert verdict.accepted == 3
