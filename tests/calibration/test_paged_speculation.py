"""Speculation over paged KV: plain decoding's text, one target forward a step, clean blocks."""

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install .[calibration]")

import numpy as np

from calibration.errors import CalibrationError
from calibration.model.target import load_decoder
from calibration.proposers.host import HostProposer
from calibration.proposers.layer_skip import LayerSkipProposer
from calibration.proposers.lookahead import LookaheadProposer, LookaheadShape
from calibration.proposers.ngram import NgramProposer
from calibration.proposers.paged_draft_model import PagedDraftModel
from simcore.acceptance.topology.dynamic_tree import DynamicShape
from simcore.acceptance.tree import chain, wide_chains
from tests.calibration.paging import (
    FIXTURE,
    Loop,
    fresh_kv,
    greedy,
    kv_at,
    plain_greedy,
    tiny_decoder,
)

pytestmark = pytest.mark.torch
LOOKAHEAD = LookaheadShape(window=4, ngram=3, guesses=3)
TOPOLOGIES = {
    "chain 1": chain(1),
    "chain 4": chain(4),
    "fixture": FIXTURE,
    "3 chains": wide_chains(3, 2),
    "dynamic": DynamicShape(topk=2, depth=3, num_nodes=6),
}
PROPOSERS = ("ngram", "draft_model", "draft_model, shared blocks", "layer_skip", "lookahead")


@pytest.fixture(scope="module")
def models(tiny_pair):
    """(target, draft) that have learnt the same text, in float64, so that no tie flips."""
    return tuple(
        load_decoder(path, "float64", "cpu").decoder for path in (tiny_pair.target, tiny_pair.draft)
    )


@pytest.fixture(scope="module")
def eos(target):
    return target.eos_token_ids


@pytest.fixture(scope="module")
def plain(models, prompt_ids, eos):
    return [plain_greedy(models[0], ids, 20, eos) for ids in prompt_ids]


def loop_with(models, kind, topology, **options) -> Loop:
    target, draft = models
    if kind == "ngram":
        return Loop(target, lambda cache: HostProposer(NgramProposer()), topology, **options)
    if kind == "layer_skip":
        return Loop(target, lambda cache: LayerSkipProposer(target, cache, 1), topology, **options)
    if kind == "lookahead":
        options |= {"lookahead_tokens": LOOKAHEAD.num_window_tokens}
        return Loop(target, lambda cache: LookaheadProposer(LOOKAHEAD), topology, **options)
    options |= {"draft": draft.shape, "own_pool": kind == "draft_model"}
    return Loop(target, lambda cache: PagedDraftModel(draft, cache), topology, **options)


@pytest.mark.parametrize("topology", TOPOLOGIES)
@pytest.mark.parametrize("kind", PROPOSERS)
def test_a_batch_of_unequal_requests_gives_the_plain_text_token_for_token(
    models, prompt_ids, plain, eos, kind, topology
):
    loop = loop_with(models, kind, TOPOLOGIES[topology], eos=eos, num_blocks=200)
    for ids in prompt_ids:
        loop.add(ids, 20)
    assert loop.run() == plain
    assert loop.ledger.free_blocks == 200


@pytest.mark.parametrize("kind", PROPOSERS)
def test_every_proposer_has_drafts_accepted_on_text_that_repeats(models, prompt_ids, kind):
    # Greedy decoding without an end soon repeats itself, so that every proposer finds something.
    loop = loop_with(models, kind, chain(2) if kind != "lookahead" else LOOKAHEAD.topology)
    loop.add(prompt_ids[0], 60)
    loop.run()
    accepted = loop.texts[0].accepted
    assert sum(accepted) > 0
    assert len(accepted) < 59


@pytest.mark.parametrize("kind", PROPOSERS)
def test_one_target_forward_a_step_serves_the_whole_batch(models, prompt_ids, monkeypatch, kind):
    loop = loop_with(models, kind, chain(3), num_blocks=200)
    for ids in prompt_ids:
        loop.add(ids, 12)
    target, calls = loop.engine.target, []
    forward = type(target).forward

    def counting(decoder, plan, kv, num_layers=None):
        if decoder is target and num_layers is None:
            calls.append(len(plan.token_ids))
        return forward(decoder, plan, kv, num_layers)

    monkeypatch.setattr(type(target), "forward", counting)
    loop.run()
    assert len(calls) == loop.num_steps
    assert max(calls) > 4 * 4  # roots and drafts of four requests at once


@pytest.mark.parametrize("topology", TOPOLOGIES)
@pytest.mark.parametrize("kind", PROPOSERS)
@pytest.mark.parametrize("block_size", [1, 3, 16])
def test_committed_kv_equals_a_fresh_prefill_of_the_committed_tokens(
    models, prompt_ids, kind, topology, block_size
):
    loop = loop_with(
        models, kind, TOPOLOGIES[topology], block_size=block_size, num_blocks=600 // block_size
    )
    for ids in prompt_ids[:2]:
        loop.add(ids, 40)
    for _ in range(12):
        loop.step()
    for request in loop.ledger.running:
        ids = loop.texts[request].token_ids
        committed = loop.ledger.committed_tokens(request)
        assert committed == len(ids) - 1
        expected = fresh_kv(models[0], ids[:-1])
        for found, fresh in zip(loop.committed_kv(request), expected, strict=True):
            torch.testing.assert_close(found, fresh, rtol=0.0, atol=1e-10)


@pytest.mark.parametrize("own_pool", [True, False])
@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_the_draft_holds_what_it_read_of_the_committed_text_and_lags_as_counted(
    models, prompt_ids, topology, own_pool
):
    kind = "draft_model" if own_pool else "draft_model, shared blocks"
    loop = loop_with(models, kind, TOPOLOGIES[topology], num_blocks=200)
    for ids in prompt_ids[:3]:
        loop.add(ids, 40)
    lags = []
    for _ in range(14):
        loop.step()
        for request in loop.ledger.running:
            held = loop.engine.proposer.held_tokens(request)
            counted = loop.ledger.draft_committed_tokens(request)
            assert held <= counted
            if topology.startswith("chain"):
                assert held == counted
            ids = loop.texts[request].token_ids[:held]
            expected = fresh_kv(models[1], ids)
            found = kv_at(loop.cache.draft, request, np.arange(held))
            for own, fresh in zip(found, expected, strict=True):
                torch.testing.assert_close(own, fresh, rtol=0.0, atol=1e-10)
            lags.append(loop.ledger.committed_tokens(request) - counted)
    assert set(lags) == {0, 1}  # 1 after full acceptance, and only then


class _FailedError(Exception):
    pass


@pytest.mark.parametrize("kind", PROPOSERS)
def test_a_failure_during_verification_leaves_no_trace(models, prompt_ids, plain, eos, kind):
    def verify(request, logits, draft):
        if fails[0] and request == 1:
            raise _FailedError
        return greedy(request, logits, draft)

    fails = [False]
    loop = loop_with(models, kind, FIXTURE, eos=eos, num_blocks=200, verify=verify)
    for ids in prompt_ids:
        loop.add(ids, 20)
    for _ in range(8):
        loop.step()
    before = {
        request: [part.clone() for part in loop.committed_kv(request)]
        for request in loop.ledger.running
    }
    free = loop.ledger.free_blocks, loop.ledger.draft_free_blocks
    fails[0] = True
    with pytest.raises(_FailedError):
        loop.step()
    for request in loop.ledger.running:
        loop.ledger.abandon(request)
    loop.follow()
    assert (loop.ledger.free_blocks, loop.ledger.draft_free_blocks) == free
    for request, parts in before.items():
        for part, found in zip(parts, loop.committed_kv(request), strict=True):
            assert torch.equal(part, found)
    fails[0] = False
    assert loop.run() == plain


@pytest.mark.parametrize("kind", PROPOSERS)
def test_a_request_cancelled_inside_a_step_returns_every_block(
    models, prompt_ids, plain, eos, kind
):
    loop = loop_with(models, kind, wide_chains(3, 2), eos=eos, num_blocks=200)
    for ids in prompt_ids:
        loop.add(ids, 20)
    for _ in range(7):
        loop.step()
    loop._reserve()
    loop.follow()
    assert len(loop.ledger.running) == 4
    loop.leave(2)  # its reservation is under way
    for request in loop.ledger.running:
        loop.ledger.abandon(request)
    loop.follow()
    texts = loop.run()
    assert [texts[n] for n in (0, 1, 3)] == [plain[n] for n in (0, 1, 3)]
    assert loop.ledger.free_blocks == 200


@pytest.mark.parametrize("kind", PROPOSERS)
def test_a_preempted_request_reads_its_text_again_and_goes_on(models, prompt_ids, plain, eos, kind):
    loop = loop_with(models, kind, chain(3), eos=eos, num_blocks=200)
    for ids in prompt_ids[:2]:
        loop.add(ids, 20)
    for _ in range(8):
        loop.step()
    loop.ledger.preempt(0)
    loop.engine.proposer.forget(0)
    loop.follow()
    assert len(loop.cache.target.tables.blocks(0)) == 0
    loop.step()
    loop.ledger.enter(0, len(prompt_ids[0]), max_tokens=20)
    assert loop.run() == plain[:2]


def test_a_request_that_finds_no_blocks_reserves_none(models, prompt_ids):
    loop = loop_with(models, "draft_model", wide_chains(4, 3), num_blocks=8, block_size=4)
    loop.add((prompt_ids[0] * 2)[:28], 20)
    while loop.ledger.prefill_left_tokens(0):
        loop.step()
    free = loop.ledger.free_blocks, loop.ledger.draft_free_blocks
    assert not loop.ledger.reserve_cycle(0, 1)
    assert (loop.ledger.free_blocks, loop.ledger.draft_free_blocks) == free
    loop.follow()
    assert loop.ledger.reserve_cycle(0, 0)  # plain decoding still fits


def test_plain_steps_between_cycles_are_caught_up_by_the_draft(models, prompt_ids, plain, eos):
    loop = loop_with(models, "draft_model", chain(3), eos=eos)
    loop.add(prompt_ids[1], 20)
    topology, lags = loop.topology, []
    while loop.ledger.running:
        loop.topology = topology if loop.num_steps % 3 == 0 else None
        loop.step()
        if loop.ledger.running:
            held = loop.engine.proposer.held_tokens(0)
            assert held == loop.ledger.draft_committed_tokens(0)
            lags.append(loop.ledger.committed_tokens(0) - held)
    assert max(lags) >= 2
    assert loop.texts[0].emitted == plain[1]


@pytest.mark.parametrize("limit", range(1, 10))
@pytest.mark.parametrize("kind", PROPOSERS)
def test_the_limit_cuts_a_cycle_at_every_offset(models, prompt_ids, plain, kind, limit):
    loop = loop_with(models, kind, chain(4))
    loop.add(prompt_ids[1], limit)
    assert loop.run() == [plain[1][:limit]]


def test_a_target_that_drafts_for_itself_has_everything_accepted(models, prompt_ids):
    loop = loop_with((models[0], models[0]), "draft_model", chain(4))
    loop.add(prompt_ids[0], 31)
    loop.run()
    assert loop.texts[0].accepted == [4] * 6


def test_layer_skip_of_all_layers_or_none_is_refused():
    decoder = tiny_decoder()
    loop = Loop(decoder, None)
    for count in (0, 3):
        with pytest.raises(CalibrationError, match="expected at least 1 and fewer than all"):
            LayerSkipProposer(decoder, loop.cache, count)


def test_a_draft_without_a_namespace_is_refused():
    decoder = tiny_decoder()
    with pytest.raises(CalibrationError, match="no namespace for a draft"):
        PagedDraftModel(decoder, Loop(decoder, None).cache)


def test_a_draft_in_other_numbers_than_its_kv_is_refused():
    decoder = tiny_decoder()
    cache = Loop(decoder, None, draft=decoder.shape).cache
    with pytest.raises(
        CalibrationError, match=r"computes in torch.float32, its KV is torch.float64"
    ):
        PagedDraftModel(tiny_decoder(dtype="float32"), cache)
