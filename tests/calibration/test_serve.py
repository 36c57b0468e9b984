"""The serving loop: plain greedy text, one target forward a step, everyone's own luck."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install .[calibration]")

from calibration.compatibility import IncompatibleError
from calibration.contracts.cut import Ending
from calibration.contracts.transforms import Constraint, Transforms
from calibration.errors import CalibrationError
from calibration.model.decoder import Decoder
from calibration.model.target import load_decoder
from calibration.proposers.suffix import SuffixProposer, SuffixSettings
from calibration.serve.proposing import by_lookup
from calibration.serve.request import ServedRequest
from simcore.profile.schema import Sampling
from simcore.serving.state import FINISHED
from tests.calibration.paging import plain_greedy
from tests.calibration.serving import (
    CHAIN,
    PAIRS,
    PROPOSERS,
    TOPOLOGIES,
    Pair,
    all_returned,
    asked,
    outputs,
    served,
)
from tests.invariants import check_result

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def pair(tiny_pair):
    return Pair(*(load_decoder(p, "float64", "cpu") for p in (tiny_pair.target, tiny_pair.draft)))


@pytest.fixture(scope="module")
def plain(pair, prompt_ids):
    eos = pair.target.eos_token_ids
    return [plain_greedy(pair.target.decoder, ids, 20, eos) for ids in prompt_ids]


def test_plain_service_gives_the_plain_text(pair, prompt_ids, plain):
    run, cache = served(pair.service("none", asked(prompt_ids)))
    assert outputs(run) == plain
    all_returned(run, cache)


@pytest.mark.parametrize(("kind", "topology"), PAIRS)
def test_every_proposer_and_topology_gives_the_plain_text_token_for_token(
    pair, prompt_ids, plain, kind, topology
):
    run, cache = served(pair.service(kind, asked(prompt_ids), TOPOLOGIES[topology]))
    assert outputs(run) == plain
    assert any(cycle.path for cycle in run.cycles)
    all_returned(run, cache)


@pytest.mark.parametrize("draft_pool", ["shared", "own"])
@pytest.mark.parametrize("preset", ["plain", "vllm", "sglang", "tensorrt_llm", "llama_cpp"])
def test_the_rules_of_every_engine_serve_the_plain_text(
    pair, prompt_ids, plain, preset, draft_pool
):
    if (preset, draft_pool) == ("llama_cpp", "own"):
        pytest.skip("a seat of its own holds the draft's KV too")
    changes = {"deployment.preset": preset, "deployment.draft_pool": draft_pool}
    requests = asked(prompt_ids, gap_s=0.03)
    run, cache = served(pair.service("draft_model", requests, **changes))
    assert outputs(run) == plain
    all_returned(run, cache)


@pytest.mark.parametrize("kind", PROPOSERS)
def test_one_target_forward_a_step_serves_the_whole_batch(pair, prompt_ids, monkeypatch, kind):
    passes = []
    forward = Decoder.forward

    def counting(decoder, plan, kv, num_layers=None):
        if decoder is pair.target.decoder and num_layers is None:
            passes.append(len(plan.token_ids))
        return forward(decoder, plan, kv, num_layers)

    monkeypatch.setattr(Decoder, "forward", counting)
    run, _ = served(pair.service(kind, asked(prompt_ids)))
    steps = run.records.steps
    assert len(passes) == len(steps)
    assert passes == (steps["query_tokens"] + steps["prefill_tokens"]).tolist()
    assert steps["num_decoding"].max() == len(prompt_ids)


def test_records_and_cycles_tell_one_story(pair, prompt_ids):
    limits = [3, 20, 9, 1]
    run, _ = served(pair.service("draft_model", asked(prompt_ids, limits, gap_s=0.05)))
    rows = run.records.requests
    for request, text in enumerate(run.texts):
        own = [cycle for cycle in run.cycles if cycle.request == request]
        assert own[0].is_prefill
        assert [token for cycle in own for token in cycle.token_ids] == text.output_ids
        begins = [sum(len(earlier.token_ids) for earlier in own[:n]) for n in range(len(own))]
        assert [cycle.start for cycle in own] == begins
        assert rows["emitted_tokens"][request] == len(text.output_ids) <= limits[request]
        assert rows["num_cycles"][request] == len(own) - 1
        assert rows["accepted_tokens"][request] == sum(cycle.accepted for cycle in own)
        assert text.ending is own[-1].ending is not None
    mixed = {c.begin_s: set() for c in run.cycles}
    for cycle in run.cycles:
        mixed[cycle.begin_s].add(len(cycle.path))
    assert max(map(len, mixed.values())) > 1  # one step accepted unequal lengths
    for name in ("first_token_s", "finish_s", "scheduled_s"):
        assert (rows[name] >= rows["arrival_s"]).all()


SAMPLED = [
    ("draft_model", "chain 4", "token_wise"),
    ("draft_model", "fixture", "sequoia"),
    ("ngram", "chain 4", "block"),
    ("layer_skip", "3 chains", "sequoia"),
    ("none", "chain 1", "exact"),
]


@pytest.mark.parametrize(("kind", "topology", "contract"), SAMPLED)
def test_sampled_text_depends_neither_on_company_nor_on_place_nor_on_preemption(
    pair, prompt_ids, kind, topology, contract
):
    prompts = [*prompt_ids, *prompt_ids]
    requests = asked(prompts, [8, 24, 16, 20, 30, 6, 12, 28], 1.0, gap_s=0.01)
    roomy, _ = served(pair.service(kind, requests, TOPOLOGIES[topology], 1.0), contract)
    room = 200 if kind == "draft_model" else 110  # a draft's KV lies in the same room
    scarce = {"deployment.kv_cache_tokens": room, "deployment.max_num_seqs": 5}
    tight, cache = served(
        pair.service(kind, requests, TOPOLOGIES[topology], 1.0, **scarce), contract
    )
    assert tight.records.requests["num_preemptions"].sum() > 0
    assert outputs(tight) == outputs(roomy)
    assert len({tuple(text) for text in outputs(roomy)}) == len(prompts)
    all_returned(tight, cache)
    lonely = {"deployment.max_num_seqs": 1}
    alone, _ = served(pair.service(kind, requests, TOPOLOGIES[topology], 1.0, **lonely), contract)
    assert outputs(alone) == outputs(roomy)


def test_every_request_has_transforms_and_a_contract_of_its_own(pair, prompt_ids, plain):
    greedy, sampled = Transforms(), Transforms(Sampling(temperature=1.0))
    from calibration.contracts.named import contract_named

    exact = contract_named("exact")
    requests = [
        ServedRequest(
            tuple(ids),
            20,
            transforms=sampled if n % 2 else greedy,
            contract=exact if n % 2 else None,
        )
        for n, ids in enumerate(prompt_ids)
    ]
    run, _ = served(pair.service("draft_model", requests))
    assert outputs(run)[::2] == plain[::2]
    drawn = [c for c in run.cycles if c.request % 2 and c.draft.num_candidates]
    assert all(cycle.draft.q is not None for cycle in drawn)
    assert all(c.draft.q is None for c in run.cycles if c.request % 2 == 0)


@pytest.mark.parametrize("kind", ["none", *PROPOSERS])
@pytest.mark.parametrize("offset", [1, 4, 7])
def test_a_stop_string_ends_the_text_wherever_a_cycle_stands(pair, prompt_ids, plain, kind, offset):
    decode = pair.target.tokenizer.decode
    stop = decode(plain[1][: offset + 1])[-3:]
    ends = next(n for n in range(len(plain[1])) if stop in decode(plain[1][: n + 1]))
    run, cache = served(pair.service(kind, asked([prompt_ids[1]], stop_strings=(stop,))))
    assert outputs(run) == [plain[1][: ends + 1]]
    assert run.texts[0].ending is Ending.STOP_STRING
    assert run.records.requests["output_tokens"][0] == ends + 1
    all_returned(run, cache)


ENDED = ["chain 4", "fixture"]


@pytest.mark.parametrize("kind", PROPOSERS)
@pytest.mark.parametrize("topology", ENDED)
def test_the_limit_ends_the_text_at_every_offset_of_a_cycle(
    pair, prompt_ids, plain, kind, topology
):
    limits = list(range(1, 13))
    requests = asked([prompt_ids[1]] * len(limits), limits)
    run, cache = served(pair.service(kind, requests, topology))
    assert outputs(run) == [plain[1][:limit] for limit in limits]
    all_returned(run, cache)


@pytest.mark.parametrize("kind", PROPOSERS)
@pytest.mark.parametrize("topology", ENDED)
def test_eos_ends_the_text_at_every_offset_of_a_cycle(pair, prompt_ids, plain, kind, topology):
    for offset in range(10):
        eos = plain[1][offset]
        ending = [
            replace(model, eos_token_ids=frozenset({eos})) for model in (pair.target, pair.draft)
        ]
        run, cache = served(Pair(*ending).service(kind, asked([prompt_ids[1]]), topology))
        assert outputs(run) == [plain[1][: plain[1].index(eos) + 1]]
        assert run.texts[0].ending is Ending.EOS
        all_returned(run, cache)


def test_a_request_that_cannot_speculate_is_refused_or_runs_plainly_in_the_batch(
    pair, prompt_ids, plain
):
    forward_only = Constraint("one way", lambda history: range(384), answers_any_prefix=False)
    requests = asked(prompt_ids)
    requests[2] = ServedRequest(
        tuple(prompt_ids[2]), 20, transforms=Transforms(constraint=forward_only)
    )
    service = pair.service("ngram", requests)
    with pytest.raises(IncompatibleError, match="only moves forward"):
        served(service)
    run, cache = served(service, falls_back=True)
    assert outputs(run) == plain
    assert list(run.plain_reasons) == [2]
    assert run.records.requests["proposed_tokens"][2] == 0
    assert run.records.requests["proposed_tokens"][1] > 0
    all_returned(run, cache)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"deployment.replicas": 2}, "expected one replica"),
        ({"deployment.kv_cache_tokens": None}, "stated room"),
        ({"speculation.policy": {"kind": "oracle"}}, "looks at recorded cycles"),
        ({"speculation.policy": {"kind": "adaptive_verification"}}, "looks at recorded cycles"),
        ({"speculation.policy": {"kind": "goodput"}}, "the profile's expectations"),
        ({"workload.arrivals": {"kind": "closed_loop", "num_clients": 2}}, "come by themselves"),
    ],
)
def test_what_the_loop_cannot_serve_is_refused_in_one_sentence(pair, prompt_ids, changes, message):
    with pytest.raises(CalibrationError, match=message):
        served(pair.service("ngram", asked(prompt_ids), **changes))


@pytest.mark.parametrize("kind", ["none", *PROPOSERS])
def test_the_laws_of_a_simulated_run_hold_for_a_real_one(pair, prompt_ids, kind):
    changes = {"workload.patience_s": 0.6, "deployment.max_num_seqs": 3}
    requests = asked([*prompt_ids, *prompt_ids], 20, gap_s=0.03)
    service = pair.service(kind, requests, "3 chains", timed=True, **changes)
    run, _ = served(service)
    check_result(
        SimpleNamespace(
            scenario=service.scenario,
            request_records=run.records.requests,
            step_records=run.records.steps,
            replica_records=run.records.replicas,
        )
    )


def test_a_prompt_beyond_the_context_of_the_target_is_refused(pair, prompt_ids):
    with pytest.raises(CalibrationError, match="the target was made for 2048"):
        served(pair.service("none", asked(prompt_ids, 2048)))


def test_bad_requests_are_refused(pair, prompt_ids):
    late_first = list(reversed(asked(prompt_ids, gap_s=1.0)))
    for requests, message in (
        ([], "at least one"),
        ([ServedRequest((), 4)], "at least one token"),
        ([ServedRequest((1, 9999), 4)], "all in 0..383"),
        (late_first, "sort the requests"),
    ):
        with pytest.raises(CalibrationError, match=message):
            served(pair.service("none", requests))


def test_measured_steps_have_every_phase_and_last_as_long_as_them(pair, prompt_ids):
    run, _ = served(pair.service("draft_model", asked(prompt_ids), CHAIN, timed=True))
    steps = run.records.steps
    assert len(run.step_times) == len(steps)
    for name in ("propose_s", "target_s", "reconcile_s", "overhead_s"):
        assert (steps[name][steps["num_decoding"] > 0] > 0.0).all()
    assert (steps["end_s"] > steps["begin_s"]).all()


def test_suffix_decoding_learns_what_finished_requests_wrote(pair, prompt_ids, plain):
    """The same prompt again: the first output is drafted nearly whole, the text stays plain."""
    requests = asked([prompt_ids[1]] * 2, gap_s=1000.0)
    learnt, _ = served(pair.service("suffix", requests))
    assert outputs(learnt) == [plain[1]] * 2
    first, second = learnt.records.requests["num_cycles"]
    forgetful = by_lookup(lambda: SuffixProposer(SuffixSettings(max_remembered_tokens=0)))
    unlearnt, _ = served(replace(pair.service("suffix", requests), proposing=forgetful))
    assert outputs(unlearnt) == outputs(learnt)
    assert unlearnt.records.requests["num_cycles"].tolist() == [first, first]
    assert second < first


def test_a_run_offers_nothing_that_an_earlier_run_learnt(pair, prompt_ids):
    service = pair.service("suffix", asked(prompt_ids, temperature=1.0), CHAIN, 1.0)
    first, second = (served(service, "exact")[0] for _ in range(2))
    assert outputs(first) == outputs(second)
    for name in ("num_cycles", "proposed_tokens", "accepted_tokens"):
        assert (first.records.requests[name] == second.records.requests[name]).all()


def test_an_output_that_was_cancelled_is_not_learnt(pair, prompt_ids, monkeypatch):
    learnt = []
    monkeypatch.setattr(SuffixProposer, "remember", lambda self, ids: learnt.append(list(ids)))
    changes = {"workload.patience_s": 0.15}
    run, _ = served(pair.service("suffix", asked(prompt_ids, gap_s=0.04), **changes))
    finished = run.records.requests["state"] == FINISHED
    assert not finished.all()
    assert sorted(learnt) == sorted(text.output_ids for text in np.array(run.texts)[finished])


@pytest.mark.parametrize("contract", ["token_wise", "block"])
def test_lookahead_asked_for_chains_offers_no_tree(pair, prompt_ids, contract):
    run, _ = served(
        pair.service("lookahead", asked(prompt_ids, temperature=1.0), "chain 4", 1.0), contract
    )
    drafts = [cycle.draft for cycle in run.cycles if cycle.draft.num_candidates]
    assert drafts
    assert all(draft.parents == tuple(range(-1, draft.num_candidates - 1)) for draft in drafts)
