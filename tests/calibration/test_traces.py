"""A trace says what real cycles did: exactly where drafts are deterministic, else in law."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install .[calibration]")

from calibration.contracts.named import chain_contract
from calibration.contracts.transforms import Transforms
from calibration.proposers.ngram import NgramProposer
from calibration.serve.alone import serve_alone
from calibration.serve.request import ServedRequest
from calibration.serve.run import Served
from calibration.traces import (
    RANK_ABSENT,
    draft_trace,
    ngram_trace,
    round_significant,
    walk_emitted_tokens,
)
from simcore.acceptance.tree import chain
from simcore.profile.schema import Sampling
from tests.calibration.serving import proposing

pytestmark = pytest.mark.torch
GREEDY, SAMPLED = Sampling(), Sampling(temperature=1.0)
GAMMA, LIMIT = 6, 20


def text_of(pair, kind, ids, sampling, seed=0, gamma=GAMMA) -> Served:
    proposer = proposing(kind, *pair)
    transforms = Transforms(sampling)
    return serve_alone(
        pair[0],
        ServedRequest(tuple(ids), LIMIT + GAMMA, transforms=transforms),
        chain_contract(sampling),
        proposer,
        chain(gamma) if proposer is not None else None,
        seed=seed,
    )


def tokens_of(run: Served) -> list[int]:
    return run.texts[0].output_ids


def kept_cycles(run: Served) -> list[int]:
    kept = min(LIMIT, len(tokens_of(run)))
    cycles = [cycle for cycle in run.cycles if not cycle.is_prefill and cycle.start < kept]
    return [min(len(cycle.token_ids), kept - cycle.start) for cycle in cycles]


def trace_of(pair, kind, ids, text, sampling, seed=0):
    kept = min(LIMIT, len(text))
    if kind == "ngram":
        return ngram_trace(NgramProposer(), ids, text, kept, GAMMA)
    rng = np.random.default_rng(seed)
    return draft_trace(*pair, ids, text, kept, GAMMA, sampling, rng)


@pytest.mark.parametrize("gamma", range(1, GAMMA + 1))
def test_greedy_draft_replay_equals_the_real_cycles_at_every_gamma(loaded_pair, prompt_ids, gamma):
    for ids in prompt_ids:
        decoded = text_of(loaded_pair, "draft_model", ids, GREEDY, gamma=gamma)
        trace = trace_of(loaded_pair, "draft_model", ids, tokens_of(decoded), GREEDY)
        assert walk_emitted_tokens(trace, gamma) == kept_cycles(decoded)


@pytest.mark.parametrize("sampling", [GREEDY, SAMPLED])
@pytest.mark.parametrize("gamma", range(1, GAMMA + 1))
def test_ngram_replay_equals_the_real_cycles_at_every_gamma(
    loaded_pair, prompt_ids, gamma, sampling
):
    for ids in prompt_ids:
        decoded = text_of(loaded_pair, "ngram", ids, sampling, gamma=gamma)
        trace = trace_of(loaded_pair, "ngram", ids, tokens_of(decoded), sampling)
        assert walk_emitted_tokens(trace, gamma) == kept_cycles(decoded)
        for cycle in decoded.cycles:
            if not cycle.is_prefill and cycle.start < trace.output_tokens:
                assert min(trace.proposed[cycle.start], gamma) == cycle.draft.num_candidates


def test_sampled_draft_replay_equals_the_real_cycles_in_distribution(loaded_pair, prompt_ids):
    differences = []
    for seed in range(160):
        ids = prompt_ids[seed % len(prompt_ids)]
        decoded = text_of(loaded_pair, "draft_model", ids, SAMPLED, seed=seed, gamma=3)
        trace = trace_of(loaded_pair, "draft_model", ids, tokens_of(decoded), SAMPLED, seed=seed)
        differences.append(len(walk_emitted_tokens(trace, 3)) - len(kept_cycles(decoded)))
    error = np.std(differences, ddof=1) / np.sqrt(len(differences))
    assert abs(np.mean(differences)) < 4 * error


def test_the_ratio_has_the_draft_distribution_as_its_mean_weight(loaded_pair, prompt_ids):
    """E_{v ~ p}[q(v)/p(v)] = 1 at every position: checked over many sampled texts."""
    ratios = []
    for seed in range(120):
        ids = prompt_ids[0]
        text = tokens_of(text_of(loaded_pair, "none", ids, SAMPLED, seed=seed))
        trace = trace_of(loaded_pair, "draft_model", ids, text, SAMPLED)
        assert trace.ratio is not None
        ratios.append(trace.ratio[0][0])
    assert abs(np.mean(ratios) - 1.0) < 4 * np.std(ratios, ddof=1) / np.sqrt(len(ratios))


def test_depth_k_of_a_start_is_depth_one_of_the_start_k_minus_one_later(loaded_pair, prompt_ids):
    text = tokens_of(text_of(loaded_pair, "none", prompt_ids[1], GREEDY))
    trace = trace_of(loaded_pair, "draft_model", prompt_ids[1], text, GREEDY)
    for start in range(trace.output_tokens - GAMMA):
        assert trace.rank[start] == [trace.rank[start + k][0] for k in range(GAMMA)]
    assert trace.ratio is None


def test_accepted_is_the_leading_run_of_rank_zero_under_greedy(loaded_pair, prompt_ids):
    text = tokens_of(text_of(loaded_pair, "none", prompt_ids[0], GREEDY))
    for trace in (
        trace_of(loaded_pair, "draft_model", prompt_ids[0], text, GREEDY),
        trace_of(loaded_pair, "ngram", prompt_ids[0], text, GREEDY),
    ):
        for accepted, rank in zip(trace.accepted, trace.rank, strict=True):
            run = next((k for k, value in enumerate(rank) if value), len(rank))
            assert accepted == run


def test_every_kept_start_before_a_cut_text_has_its_full_depth(loaded_pair, prompt_ids):
    text = list(range(1, LIMIT + GAMMA + 1))  # no EOS: the limit ends it
    trace = trace_of(loaded_pair, "draft_model", prompt_ids[0], text, GREEDY)
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
