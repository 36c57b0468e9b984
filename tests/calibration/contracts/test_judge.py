"""One call for a batch: ragged rows, their own transforms, their own luck."""

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install .[calibration]")

from calibration.contracts.block import BLOCK
from calibration.contracts.candidates import Candidates, chain_candidates
from calibration.contracts.greedy import GREEDY
from calibration.contracts.judge import judge
from calibration.contracts.named import CONTRACTS, contract_named
from calibration.contracts.recursive_rejection import SEQUOIA, SPECINFER, TOKEN_WISE, TOP_K
from calibration.contracts.transforms import Constraint, Transforms
from calibration.contracts.typical import TypicalAcceptance
from calibration.errors import CalibrationError
from simcore.acceptance.topology.sibling_rules import SiblingRule
from simcore.profile.schema import Sampling

pytestmark = pytest.mark.torch
VOCAB = 7
WARM = Transforms(Sampling(temperature=1.0))
ROWS = [
    Candidates((), ()),
    chain_candidates((3,)),
    chain_candidates((1, 4, 2)),
    Candidates((-1, -1, 0, 1, 1), (1, 2, 3, 4, 5)),
]


def batch_logits(seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(len(ROWS), 6, VOCAB, generator=generator)


def luck(order=(0, 1, 2, 3)):
    return [torch.Generator().manual_seed(100 + row) for row in order]


@pytest.mark.parametrize("contract", [GREEDY, TOP_K, SPECINFER, SEQUOIA, TypicalAcceptance()])
def test_a_ragged_batch_is_judged_as_its_requests_alone(contract):
    together = judge(contract, batch_logits(), ROWS, [WARM] * len(ROWS), luck())
    for row, candidates in enumerate(ROWS):
        own = batch_logits()[row, : candidates.num_nodes + 1]
        alone = judge(contract, [own], [candidates], [WARM], [luck()[row]])
        assert alone == [together[row]]


def test_a_request_keeps_its_luck_when_the_batch_is_repacked():
    together = judge(TOP_K, batch_logits(), ROWS, [WARM] * len(ROWS), luck())
    order = [2, 0, 3]
    repacked = judge(
        TOP_K,
        batch_logits()[order],
        [ROWS[row] for row in order],
        [WARM] * len(order),
        luck(order),
    )
    assert repacked == [together[row] for row in order]


def test_every_request_has_its_own_transforms():
    asked = [
        WARM,
        Transforms(Sampling(temperature=1.0, top_k=1)),
        Transforms(WARM.sampling, repetition_penalty=1.5),
        Transforms(WARM.sampling, constraint=Constraint("five", lambda _: [5])),
    ]
    committed = [[0, 1, 2]] * len(ROWS)
    verdicts = judge(TOP_K, batch_logits(), ROWS, asked, luck(), committed)
    likeliest = int(batch_logits()[1, 0].argmax())
    assert verdicts[1].accepted or verdicts[1].next_token == likeliest
    assert (verdicts[3].path, verdicts[3].next_token) == ((), 5)
    plain = judge(TOP_K, batch_logits(), ROWS, [WARM] * len(ROWS), luck())
    assert verdicts[0] == plain[0]


def test_greedy_takes_the_longest_of_equal_siblings_paths():
    """Draws may repeat a token among siblings; the path below either copy counts."""
    scores = torch.full((6, VOCAB), -1.0)
    for row, token in enumerate((1, 2, 2, 3, 4, 0)):
        scores[row, token] = 1.0
    candidates = Candidates((-1, -1, 0, 1, 3), (1, 1, 5, 2, 3))
    (verdict,) = GREEDY.verify([scores], [candidates], [torch.Generator()])
    assert verdict.path == (1, 3)
    assert (verdict.next_token, verdict.is_bonus) == (4, False)
    (bonus,) = GREEDY.verify([scores[[0, 1, 2]]], [chain_candidates((1, 2))], [torch.Generator()])
    assert (bonus.path, bonus.next_token, bonus.is_bonus) == ((0, 1), 2, True)


def test_typical_acceptance_follows_the_bound_and_the_argmax():
    """p = (.6, .3, .1): H = 0.898 nats, δ·exp(-H) = 0.122 for δ = 0.3, above ε = 0.09."""
    p = torch.tensor([0.6, 0.3, 0.1]).expand(4, -1)
    accepts = [
        bool(TypicalAcceptance(epsilon, 0.3).verify_one(p, chain_candidates((2,)), None).accepted)
        for epsilon in (0.09, 0.11, 0.5)
    ]
    assert accepts == [True, False, False]
    verdict = TypicalAcceptance().verify_one(p, chain_candidates((1, 2, 0)), None)
    assert (verdict.accepted, verdict.next_token) == (3, 0)
    assert not verdict.is_exact


def test_chain_contracts_refuse_trees():
    for contract in (TOKEN_WISE, BLOCK):
        with pytest.raises(ValueError, match="verifies chains"):
            contract.verify([torch.zeros(6, VOCAB)], [ROWS[3]], [torch.Generator()])


def test_candidates_that_contradict_themselves_are_refused():
    with pytest.raises(ValueError, match="expected one each"):
        Candidates((-1, 0), (1,))
    with pytest.raises(ValueError, match="parent"):
        Candidates((-1, 1), (1, 2))
    with pytest.raises(ValueError, match="q has 1 rows; expected 2"):
        Candidates((-1, 0), (1, 2), torch.zeros(1, VOCAB))


def test_every_contract_has_its_own_name_and_relaxed_ones_are_labelled():
    assert len(CONTRACTS) == 8
    for name, contract in CONTRACTS.items():
        assert contract_named(name) is contract
        assert ("not exact" in contract.label) == (not contract.is_exact)
    assert contract_named("exact") is TOKEN_WISE
    assert contract_named("exact", is_chain=False, siblings=SiblingRule.SEQUOIA) is SEQUOIA
    assert contract_named("greedy") is GREEDY
    with pytest.raises(CalibrationError, match="contract 'magic' is unknown; expected"):
        contract_named("magic")
