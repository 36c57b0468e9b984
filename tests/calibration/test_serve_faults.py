"""Rejection, cancellation, failure, scarce memory: KV, blocks and texts stay what they must be."""

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install .[calibration]")

import numpy as np

from calibration.errors import TargetFailureError
from calibration.model.decoder import Decoder
from calibration.model.target import LoadedModel, decoder_of_shape, load_decoder
from calibration.serve.executor import EngineExecutor
from simcore.serving.policy import GATE_CLOSED, LESS_MEMORY, MORE_MEMORY
from simcore.serving.state import CANCELLED, FAILED, FINISHED, OUTGREW_MEMORY
from tests.calibration.paging import fresh_kv, kv_at, plain_greedy
from tests.calibration.serving import PROPOSERS, Pair, all_returned, asked, outputs, served

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def pair(tiny_pair):
    return Pair(*(load_decoder(p, "float64", "cpu") for p in (tiny_pair.target, tiny_pair.draft)))


@pytest.fixture(scope="module")
def stranger(pair):
    """The target with a draft that has learnt nothing: hardly a draft is accepted."""
    draft = pair.draft
    random = decoder_of_shape(draft.decoder.shape, "random", "float64", "cpu", seed=1)
    untaught = LoadedModel(random.decoder, draft.tokenizer, draft.identity, draft.eos_token_ids)
    return Pair(pair.target, untaught)


@pytest.fixture(scope="module")
def plain(pair, prompt_ids):
    eos = pair.target.eos_token_ids
    return [plain_greedy(pair.target.decoder, ids, 20, eos) for ids in prompt_ids]


@pytest.fixture
def checked(monkeypatch):
    """After every step, however it ended: tables as the ledger counts, KV as a fresh prefill."""
    settle, checks = EngineExecutor.settle, []

    def settle_and_check(self, state, index, *, is_committed):
        settle(self, state, index, is_committed=is_committed)
        running = state.running[index, : state.replicas[index]["num_running"]].tolist()
        for namespace, held in (
            (self.engine.cache.target, "held_blocks"),
            (self.engine.cache.draft, "draft_held_blocks"),
        ):
            own_pool = namespace is not None and (
                held == "held_blocks" or namespace.tables is not self.engine.cache.target.tables
            )
            for request in running if own_pool else ():
                blocks = namespace.tables.blocks(request)
                assert len(blocks) == len(set(blocks.tolist())) == state.requests[held][request]
        for request in running:
            committed = int(state.requests["committed_tokens"][request])
            ids = self.texts[request].token_ids[:committed]
            if len(ids):
                found = kv_at(self.engine.cache.target, request, np.arange(committed))
                for own, fresh in zip(found, fresh_kv(self.engine.target, ids), strict=True):
                    torch.testing.assert_close(own, fresh, rtol=0.0, atol=1e-10)
        checks.append(len(running))

    monkeypatch.setattr(EngineExecutor, "settle", settle_and_check)
    return checks


@pytest.mark.parametrize("draft_pool", ["shared", "own"])
@pytest.mark.parametrize("block_size", [1, 3, 16])
def test_a_wide_tree_rejected_across_block_boundaries_leaves_no_trace(
    stranger, prompt_ids, plain, checked, block_size, draft_pool
):
    changes = {"deployment.block_size": block_size, "deployment.draft_pool": draft_pool}
    run, cache = served(stranger.service("draft_model", asked(prompt_ids), "3 chains", **changes))
    assert outputs(run) == plain
    rows = run.records.requests
    assert rows["accepted_tokens"].sum() < 0.1 * rows["verified_tokens"].sum()
    assert len(checked) == len(run.records.steps)
    all_returned(run, cache)


@pytest.mark.parametrize("kind", PROPOSERS)
def test_a_client_that_gives_up_during_verification_takes_its_blocks_along(
    pair, prompt_ids, plain, checked, kind
):
    requests = asked(prompt_ids, gap_s=0.04)
    service = pair.service(kind, requests, "3 chains", **{"workload.patience_s": 0.15})
    run, cache = served(service)
    rows = run.records.requests
    gone = rows["state"] == CANCELLED
    assert gone.any()
    begins, ends = run.records.steps["begin_s"], run.records.steps["end_s"]
    for gives_up_s in rows["gives_up_s"][gone]:
        assert ((begins < gives_up_s) & (gives_up_s < ends)).any()
    assert (rows["emitted_tokens"][gone] > 0).any()
    for request, text in enumerate(outputs(run)):
        assert text == plain[request][: rows["emitted_tokens"][request]]
        assert (rows["state"][request] == FINISHED) == (text == plain[request])
    all_returned(run, cache)


def failing_at(monkeypatch, target, passes, error):
    """The target's forward raises at these of its passes, after it has written its KV."""
    forward, seen = Decoder.forward, []

    def fails(decoder, plan, kv, num_layers=None):
        logits = forward(decoder, plan, kv, num_layers)
        is_served = kv.scratch_block > 1  # a fresh prefill that checks has one block
        if decoder is target.decoder and num_layers is None and is_served:
            seen.append(1)
            if len(seen) in passes:
                raise error
        return logits

    monkeypatch.setattr(Decoder, "forward", fails)


ERRORS = [TargetFailureError("the device is gone"), torch.OutOfMemoryError("no memory left")]
REPAIR = {"deployment.failures": {"mean_repair_s": 0.5}}


@pytest.mark.parametrize("timed", [False, True], ids=["by law", "measured"])
@pytest.mark.parametrize("error", ERRORS, ids=["device gone", "out of memory"])
@pytest.mark.parametrize("kind", PROPOSERS)
def test_a_target_that_fails_in_a_pass_loses_the_step_and_nothing_else(
    pair, prompt_ids, plain, checked, monkeypatch, kind, error, timed
):
    failing_at(monkeypatch, pair.target, (2, 6), error)
    service = pair.service(kind, asked(prompt_ids), "chain 4", timed=timed, **REPAIR)
    run, cache = served(service)
    assert outputs(run) == plain
    assert run.num_failures == run.records.steps["is_aborted"].sum() == 2
    assert (run.records.requests["num_restarts"] == 2).all()
    assert len(checked) == len(run.records.steps)
    all_returned(run, cache)


@pytest.mark.parametrize("kind", ["none", "draft_model"])
def test_a_failure_changes_nobodys_luck(pair, prompt_ids, monkeypatch, kind):
    requests = asked(prompt_ids, 24, 1.0)
    undisturbed, _ = served(pair.service(kind, requests, "chain 4", 1.0), "exact")
    failing_at(monkeypatch, pair.target, (3, 4, 9), ERRORS[0])
    disturbed, cache = served(pair.service(kind, requests, "chain 4", 1.0, **REPAIR), "exact")
    assert disturbed.num_failures == 3
    assert outputs(disturbed) == outputs(undisturbed)
    all_returned(disturbed, cache)


def test_requests_that_may_not_restart_fail_with_their_replica(pair, prompt_ids, monkeypatch):
    failing_at(monkeypatch, pair.target, (4,), ERRORS[0])
    changes = {"deployment.failures": {"mean_repair_s": 0.5, "requests": "fail"}}
    run, cache = served(pair.service("ngram", asked(prompt_ids), **changes))
    assert (run.records.requests["state"] == FAILED).all()
    assert all(0 < len(text) < 20 for text in outputs(run))
    all_returned(run, cache)


def test_an_error_of_the_program_itself_is_not_taken_for_a_failure(pair, prompt_ids, monkeypatch):
    failing_at(monkeypatch, pair.target, (3,), ZeroDivisionError("a mistake"))
    with pytest.raises(ZeroDivisionError, match="a mistake"):
        served(pair.service("ngram", asked(prompt_ids)))


def test_low_acceptance_closes_the_gate_and_decoding_goes_on_plainly(
    stranger, prompt_ids, plain, checked
):
    gate = {"kind": "acceptance_gate", "window_steps": 3, "threshold": 0.2}
    changes = {"speculation.policy": gate}
    run, cache = served(stranger.service("draft_model", asked(prompt_ids), "chain 4", **changes))
    (change,) = run.records.changes
    assert (change["to_mode"], change["reason"]) == (0, GATE_CLOSED)
    after = run.records.steps[run.records.steps["begin_s"] >= change["time_s"]]
    assert len(after) > 3
    assert not after["proposed_tokens"].any()
    assert outputs(run) == plain
    all_returned(run, cache)


@pytest.mark.parametrize("kind", ["draft_model", "ngram", "layer_skip"])
def test_scarce_memory_shortens_drafts_to_none_keeps_the_queue_bounded_and_recovers(
    stranger, prompt_ids, plain, checked, kind
):
    changes = {
        "deployment.kv_cache_tokens": 165 if kind == "draft_model" else 130,
        "deployment.max_num_seqs": 4,
        "deployment.max_queue": 5,
        "speculation.policy": {"kind": "memory_pressure"},
    }
    requests = asked(prompt_ids * 4, gap_s=0.02)
    run, cache = served(stranger.service(kind, requests, "chain 4", **changes))
    reasons = run.records.changes["reason"]
    assert (reasons == LESS_MEMORY).any()
    assert (reasons == MORE_MEMORY).any()
    assert 0 in run.records.changes["to_mode"]
    rows = run.records.requests
    assert run.records.steps["num_waiting"].max() <= 5 + 4  # whoever is preempted waits as well
    for request, text in enumerate(outputs(run)):
        if rows["state"][request] == FINISHED:
            assert text == plain[request % 4]
    assert (rows["state"] == FINISHED).sum() >= 5
    all_returned(run, cache)


def test_a_request_that_outgrows_the_memory_fails_and_returns_its_blocks(pair, prompt_ids):
    room = len(prompt_ids[0]) + 9
    changes = {"deployment.kv_cache_tokens": room // 4 * 4}
    stopping = asked([prompt_ids[0]], 200)
    service = pair.service("ngram", stopping, "chain 4", **changes)
    endless = LoadedModel(
        service.target.decoder, service.target.tokenizer, service.target.identity, frozenset()
    )
    run, cache = served(Pair(endless, pair.draft).service("ngram", stopping, **changes))
    (row,) = run.records.requests
    assert (row["state"], row["reason"]) == (FAILED, OUTGREW_MEMORY)
    assert len(outputs(run)[0]) == row["emitted_tokens"] > 1
    all_returned(run, cache)
