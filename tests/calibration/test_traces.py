"""A trace says what real cycles did: exactly where drafts are deterministic, else in law."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install .[calibration]")

from calibration.decode import decode
from calibration.proposers.draft_model import DraftModelProposer
from calibration.proposers.ngram import NgramProposer
from calibration.traces import (
    RANK_ABSENT,
    draft_trace,
    ngram_trace,
    round_significant,
    walk_emitted_tokens,
)
from simcore.profile.schema import Sampling

pytestmark = pytest.mark.torch
GREEDY, SAMPLED = Sampling(), Sampling(temperature=1.0)
GAMMA, LIMIT = 6, 20


def text_of(target, proposer, ids, sampling, seed=0, gamma=GAMMA):
    return decode(
        target,
        proposer,
        ids,
        num_speculative_tokens=gamma,
        sampling=sampling,
        max_tokens=LIMIT + GAMMA,
        generator=torch.Generator().manual_seed(seed),
    )


def kept_cycles(decoded) -> list[int]:
    kept = min(LIMIT, len(decoded.token_ids))
    return [min(c.emitted, kept - c.start) for c in decoded.cycles if c.start < kept]


def trace_of(target, draft, ids, text, sampling, seed=0):
    kept = min(LIMIT, len(text))
    if draft is None:
        return ngram_trace(NgramProposer(), ids, text, kept, GAMMA)
    rng = np.random.default_rng(seed)
    return draft_trace(target, draft, ids, text, kept, GAMMA, sampling, rng)


@pytest.mark.parametrize("gamma", range(1, GAMMA + 1))
def test_greedy_draft_replay_equals_the_real_cycles_at_every_gamma(
    target, draft, prompt_ids, gamma
):
    for ids in prompt_ids:
        decoded = text_of(target, DraftModelProposer(draft), ids, GREEDY, gamma=gamma)
        trace = trace_of(target, draft, ids, decoded.token_ids, GREEDY)
        assert walk_emitted_tokens(trace, gamma) == kept_cycles(decoded)


@pytest.mark.parametrize("sampling", [GREEDY, SAMPLED])
@pytest.mark.parametrize("gamma", range(1, GAMMA + 1))
def test_ngram_replay_equals_the_real_cycles_at_every_gamma(target, prompt_ids, gamma, sampling):
    for ids in prompt_ids:
        decoded = text_of(target, NgramProposer(), ids, sampling, gamma=gamma)
        trace = trace_of(target, None, ids, decoded.token_ids, sampling)
        assert walk_emitted_tokens(trace, gamma) == kept_cycles(decoded)
        for cycle in decoded.cycles:
            if cycle.start < trace.output_tokens:
                assert min(trace.proposed[cycle.start], gamma) == cycle.proposed


def test_sampled_draft_replay_equals_the_real_cycles_in_distribution(target, draft, prompt_ids):
    differences = []
    for seed in range(160):
        ids = prompt_ids[seed % len(prompt_ids)]
        decoded = text_of(target, DraftModelProposer(draft), ids, SAMPLED, seed=seed, gamma=3)
        trace = trace_of(target, draft, ids, decoded.token_ids, SAMPLED, seed=seed)
        differences.append(len(walk_emitted_tokens(trace, 3)) - len(kept_cycles(decoded)))
    error = np.std(differences, ddof=1) / np.sqrt(len(differences))
    assert abs(np.mean(differences)) < 4 * error


def test_the_ratio_has_the_draft_distribution_as_its_mean_weight(target, draft, prompt_ids):
    """E_{v ~ p}[q(v)/p(v)] = 1 at every position: checked over many sampled texts."""
    ratios = []
    for seed in range(120):
        ids = prompt_ids[0]
        text = text_of(target, None, ids, SAMPLED, seed=seed, gamma=0).token_ids
        trace = trace_of(target, draft, ids, text, SAMPLED)
        assert trace.ratio is not None
        ratios.append(trace.ratio[0][0])
    assert abs(np.mean(ratios) - 1.0) < 4 * np.std(ratios, ddof=1) / np.sqrt(len(ratios))


def test_depth_k_of_a_start_is_depth_one_of_the_start_k_minus_one_later(target, draft, prompt_ids):
    text = text_of(target, None, prompt_ids[1], GREEDY, gamma=0).token_ids
    trace = trace_of(target, draft, prompt_ids[1], text, GREEDY)
    for start in range(trace.output_tokens - GAMMA):
        assert trace.rank[start] == [trace.rank[start + k][0] for k in range(GAMMA)]
    assert trace.ratio is None


def test_accepted_is_the_leading_run_of_rank_zero_under_greedy(target, draft, prompt_ids):
    text = text_of(target, None, prompt_ids[0], GREEDY, gamma=0).token_ids
    for trace in (
        trace_of(target, draft, prompt_ids[0], text, GREEDY),
        trace_of(target, None, prompt_ids[0], text, GREEDY),
    ):
        for accepted, rank in zip(trace.accepted, trace.rank, strict=True):
            run = next((k for k, value in enumerate(rank) if value), len(rank))
            assert accepted == run


def test_every_kept_start_before_a_cut_text_has_its_full_depth(target, draft, prompt_ids):
    text = list(range(1, LIMIT + GAMMA + 1))  # no EOS: the limit ends it
    trace = trace_of(target, draft, prompt_ids[0], text, GREEDY)
    assert trace.output_tokens == LIMIT
    assert all(len(rank) == GAMMA for rank in trace.rank)


def test_ngram_confidence_is_the_share_of_occurrences_that_continue_alike():
    prompt = [5, 1, 5, 2, 5, 1, 5]
    trace = ngram_trace(NgramProposer(1, 1), prompt, [1, 5, 9], 1, 2)
    assert trace.proposed == [2]
    assert trace.accepted == [2]
    assert trace.confidence == [[round_significant(2 / 3), 1.0]]
    assert trace.rank == [[0, 0]]
    missed = ngram_trace(NgramProposer(1, 1), prompt, [2, 5, 9], 1, 2)
    assert missed.rank == [[RANK_ABSENT, 0]]
    assert missed.accepted == [0]
