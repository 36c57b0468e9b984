"""Greedy speculation changes the pace, never the text (float64, so that no tie flips)."""

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install .[calibration]")

from calibration.contracts.typical import TypicalAcceptance
from calibration.decode import Decoded, decode
from calibration.models import LanguageModel
from calibration.proposers.draft_model import DraftModelProposer
from calibration.proposers.ngram import NgramProposer
from calibration.proposers.suffix import SuffixProposer
from simcore.profile.schema import Sampling

pytestmark = pytest.mark.torch
GREEDY = Sampling()


def run(target, proposer, ids, gamma, max_tokens=48, sampling=GREEDY) -> Decoded:
    return decode(
        target,
        proposer,
        ids,
        num_speculative_tokens=gamma,
        sampling=sampling,
        max_tokens=max_tokens,
        generator=torch.Generator().manual_seed(3),
    )


@pytest.fixture(scope="module")
def plain(target: LanguageModel, prompt_ids) -> list[list[int]]:
    return [run(target, None, ids, 0).token_ids for ids in prompt_ids]


def test_plain_decoding_equals_repeated_full_passes(target, prompt_ids, plain):
    for ids, expected in zip(prompt_ids, plain, strict=True):
        tokens: list[int] = []
        while len(tokens) < len(expected):
            tokens.append(int(target.forward(torch.tensor([ids + tokens]))[0, -1].argmax()))
        assert tokens == expected
        assert expected[-1] in target.eos_token_ids or len(expected) == 48


@pytest.mark.parametrize("gamma", range(1, 9))
@pytest.mark.parametrize("kind", ["ngram", "suffix", "draft_model"])
def test_speculative_output_equals_plain_output_token_for_token(
    target, draft, prompt_ids, plain, kind, gamma
):
    proposers = {"ngram": NgramProposer(), "suffix": SuffixProposer()}
    proposer = proposers.get(kind) or DraftModelProposer(draft)
    for ids, expected in zip(prompt_ids, plain, strict=True):
        assert run(target, proposer, ids, gamma).token_ids == expected


@pytest.mark.parametrize("limit", range(1, 14))
def test_the_limit_cuts_a_cycle_at_every_offset(target, draft, prompt_ids, plain, limit):
    for proposer in (NgramProposer(), SuffixProposer(), DraftModelProposer(draft)):
        found = run(target, proposer, prompt_ids[1], 4, max_tokens=limit)
        assert found.token_ids == plain[1][:limit]


@pytest.mark.parametrize("offset", range(12))
def test_eos_cuts_a_cycle_at_every_offset(target, draft, prompt_ids, plain, offset):
    first_seen = plain[1].index(plain[1][offset])
    stopping = LanguageModel(
        target.model, target.tokenizer, target.identity, frozenset({plain[1][offset]})
    )
    for proposer in (NgramProposer(), SuffixProposer(), DraftModelProposer(draft)):
        found = run(stopping, proposer, prompt_ids[1], 5)
        assert found.token_ids == plain[1][: first_seen + 1]


def test_a_target_that_drafts_for_itself_has_every_draft_accepted(target, prompt_ids):
    decoded = run(target, DraftModelProposer(target), prompt_ids[1], 4)
    assert all(cycle.accepted == 4 for cycle in decoded.cycles[:-1])
    assert all(cycle.emitted == 5 for cycle in decoded.cycles[:-1])


def test_cycles_are_contiguous_and_account_for_every_token(target, draft, prompt_ids):
    for temperature in (0.0, 1.0):
        for proposer in (None, NgramProposer(), DraftModelProposer(draft)):
            decoded = run(
                target, proposer, prompt_ids[0], 3, sampling=Sampling(temperature=temperature)
            )
            start = 1  # the prefill emitted the first token
            for cycle in decoded.cycles:
                assert cycle.start == start
                assert 0 <= cycle.accepted <= cycle.proposed <= 3
                assert cycle.accepted <= cycle.emitted <= cycle.accepted + 1
                assert set(cycle.phase_s) == {"propose", "target", "reconcile", "overhead"}
                start += cycle.emitted
            assert start == len(decoded.token_ids)


def test_a_chain_after_a_sampled_full_acceptance_reads_what_the_draft_cache_lacks(
    target, prompt_ids
):
    proposer = DraftModelProposer(target)
    ids = torch.tensor([prompt_ids[0]])
    generators = [torch.Generator().manual_seed(0)]
    first = proposer.propose(ids, 3, GREEDY, generators)
    assert proposer.cache.get_seq_length() == ids.shape[1] + 2  # the last draft was never read
    bonus = torch.tensor([[5]])
    longer = torch.cat([ids, first.token_ids, bonus], dim=1)
    proposer.keep(ids.shape[1] + 3)
    lagging = proposer.propose(longer, 3, GREEDY, generators)
    fresh = DraftModelProposer(target).propose(longer, 3, GREEDY, generators)
    assert torch.equal(lagging.token_ids, fresh.token_ids)


@pytest.mark.parametrize("contract", [None, TypicalAcceptance()])
def test_the_result_of_a_relaxed_contract_says_that_it_is_not_exact(target, prompt_ids, contract):
    decoded = decode(
        target,
        NgramProposer(),
        prompt_ids[0],
        num_speculative_tokens=4,
        sampling=Sampling(temperature=1.0),
        max_tokens=8,
        generator=torch.Generator().manual_seed(3),
        contract=contract,
    )
    assert ("(not exact)" in decoded.contract) == (contract is not None)


def test_an_empty_prompt_or_a_negative_draft_length_is_refused(target):
    with pytest.raises(ValueError, match="expected at least 1, 0 and 1"):
        run(target, None, [], 0)
    with pytest.raises(ValueError, match="γ = -1"):
        run(target, None, [1], -1)
