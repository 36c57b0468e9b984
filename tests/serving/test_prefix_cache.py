"""The prefix cache by hand, against plain models of it, and in what users feel."""

import json
from collections import OrderedDict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcore import simulate, summarise
from simcore.errors import ScenarioError
from simcore.profile.store import StoredProfile
from simcore.serving.setup import new_state
from simcore.serving.state import FINISHED
from tests.factories import make_scenario
from tests.invariants import check_every_mode, check_result

BLOCK = 16
FAR_APART_S = 100.0
PLENTY = {
    "deployment.block_size": BLOCK,
    "deployment.kv_cache_tokens": 1_000_000,
    "deployment.max_num_batched_tokens": 100_000,
    "speculation.num_speculative_tokens": 0,
    "warmup_fraction": 0.0,
}


@pytest.fixture
def run_rows(recorded_profile, tmp_path):
    """Run requests of (arrival_s, prompt_tokens, output_tokens), all of one domain."""

    def run(rows, stored=recorded_profile, **changes):
        path = tmp_path / "rows.csv"
        lines = [",".join(map(str, row)) for row in rows]
        path.write_text("\n".join(["arrival_s,prompt_tokens,output_tokens", *lines]))
        return _run_file(stored, path, changes)

    return run


@pytest.fixture
def run_hashes(recorded_profile, tmp_path):
    """Run requests of (arrival_s, prompt_tokens, output_tokens, hash_ids) in Mooncake's format."""

    def run(rows, **changes):
        path = tmp_path / "hashes.jsonl"
        names = ("timestamp", "input_length", "output_length", "hash_ids")
        lines = [json.dumps(dict(zip(names, (1e3 * s, *rest), strict=True))) for s, *rest in rows]
        path.write_text("\n".join(lines))
        return _run_file(recorded_profile, path, {"deployment.block_size": 512, **changes})

    return run


def _run_file(stored, path, changes):
    parts = {
        "workload.arrivals": {"kind": "recorded", "path": str(path)},
        "workload.lengths": {"kind": "file_rows"},
        "workload.num_requests": None,
    }
    result = simulate(make_scenario(stored, **{**PLENTY, **parts, **changes}), stored=stored)
    check_result(result)
    return result


def _prefix(tokens, num_prefixes=1):
    return {
        "workload.domains": {"chat": {"shared_prefix_tokens": tokens, "num_prefixes": num_prefixes}}
    }


# --- by hand -----------------------------------------------------------------------------------

HITS = {  # (prompt, shared prefix) -> cached tokens of the second request
    "a prefix of four blocks": (100, 64, 64),
    "a fifth block in part": (100, 70, 64),
    "a prompt as long as its prefix computes its last block": (64, 64, 48),
    "a prompt one longer does not": (65, 64, 64),
    "a prefix longer than the prompt": (40, 64, 32),
    "less than a block": (100, 15, 0),
    "one block and nothing else": (16, 64, 0),
}


@pytest.mark.parametrize(("prompt", "prefix", "cached"), HITS.values(), ids=HITS)
def test_the_second_request_computes_what_it_does_not_share(run_rows, prompt, prefix, cached):
    result = run_rows([(0.0, prompt, 3), (FAR_APART_S, prompt, 3)], **_prefix(prefix))
    assert result.requests["cached_tokens"].tolist() == [0, cached]
    prefills = result.step_records["prefill_tokens"]
    assert prefills[prefills > 0].tolist() == [prompt, prompt - cached]
    kv = summarise(result).kv
    assert kv.cached_tokens == cached
    assert kv.prefix_hit_fraction == (cached / (2 * prompt) if prefix >= BLOCK else None)


def test_a_shared_request_has_its_first_token_sooner_by_what_it_does_not_compute(run_rows):
    result = run_rows([(0.0, 500, 3), (FAR_APART_S, 500, 3)], **_prefix(480))
    requests = result.request_records
    first, second = requests["first_token_s"] - requests["arrival_s"]
    alone = run_rows([(0.0, 20, 3)], **_prefix(0)).request_records
    law = result.stored.profile.cost.target
    kv_s = 480 * law.per_kv_token_verify_s  # its keys and values are read all the same
    assert second == pytest.approx(alone["first_token_s"][0] + kv_s)
    assert second < 0.2 * first


def test_two_that_come_together_share_nothing_and_a_third_shares_with_both(run_rows):
    result = run_rows([(0.0, 100, 3), (0.0, 100, 3), (FAR_APART_S, 100, 3)], **_prefix(64))
    assert result.requests["cached_tokens"].tolist() == [0, 0, 64]


def test_a_prefix_is_found_as_soon_as_the_prefill_that_computes_it_commits(run_rows):
    rows = [(0.0, 1000, 50), (0.0, 1000, 50)]
    chunk = {"deployment.max_num_batched_tokens": 1000, **_prefix(960)}
    result = run_rows(rows, **chunk)  # the budget has room for one prefill
    assert result.requests["cached_tokens"].tolist() == [0, 960]
    requests = result.request_records
    assert requests["scheduled_s"][1] == requests["first_token_s"][0]


def test_blocks_of_a_chunk_are_found_before_the_prefill_ends(run_rows):
    # Chunks of 256 tokens; the second comes when three are committed.
    whole = run_rows([(0.0, 1000, 5)], **{"deployment.max_num_batched_tokens": 256})
    third_end_s = float(whole.step_records["end_s"][2])
    result = run_rows(
        [(0.0, 1000, 5), (third_end_s, 1000, 5)],
        **{"deployment.max_num_batched_tokens": 256, **_prefix(1000)},
    )
    assert result.step_records["prefill_tokens"][:4].tolist() == [256, 256, 256, 256]
    assert result.requests["cached_tokens"].tolist() == [0, 768]


def test_a_shared_block_is_counted_once(run_rows):
    # 100 tokens are 7 blocks; each prefills its own, then 4 of 14 return to the pool.
    steps = run_rows([(0.0, 100, 5), (0.0, 100, 5)], **_prefix(64)).step_records
    assert steps["used_blocks"].tolist() == [14, 10, 10, 10, 10]
    later = run_rows([(0.0, 100, 50), (0.001, 100, 50)], **_prefix(64)).step_records
    assert later["used_blocks"][:2].tolist() == [7, 10]


def test_the_peak_counts_no_block_twice_on_its_way_back(run_rows):
    rows = [(0.0, 100, 5), (0.0, 100, 5)]
    assert summarise(run_rows(rows, **_prefix(64))).kv.peak_used_tokens == 14 * BLOCK


PRESETS = {  # (preset, kind of proposer) -> cached tokens of four shared blocks
    "vLLM with EAGLE computes the last hit again": ("vllm", "eagle", 48),
    "vLLM with a draft model does not": ("vllm", "draft_model", 64),
    "others with EAGLE do not": ("plain", "eagle", 64),
    "SGLang": ("sglang", "draft_model", 64),
    "TensorRT-LLM has each block in both pools": ("tensorrt_llm", "draft_model", 64),
    "a llama.cpp slot shares nothing": ("llama_cpp", "draft_model", 0),
}


@pytest.mark.parametrize(("preset", "kind", "cached"), PRESETS.values(), ids=PRESETS)
def test_what_a_preset_finds_again(recorded_profile, run_rows, preset, kind, cached):
    profile = recorded_profile.profile
    drafter = profile.proposers["draft_model"].model_copy(update={"kind": kind})
    proposers = profile.proposers | {"draft_model": drafter}
    stored = StoredProfile(
        profile.model_copy(update={"proposers": proposers}), recorded_profile.folder
    )
    result = run_rows(
        [(0.0, 100, 9), (FAR_APART_S, 100, 9)],
        stored,
        **{
            "deployment.preset": preset,
            "speculation.proposer": "draft_model",
            "speculation.num_speculative_tokens": 3,
            **_prefix(64),
        },
    )
    assert result.requests["cached_tokens"].tolist() == [0, cached]


def test_the_oldest_free_block_goes_first_and_the_tail_of_a_prefix_before_its_head(run_hashes):
    # Six blocks. A leaves blank, 3, 2, 1 behind two never used; B takes three blanks and 3.
    a, b = (1537, 1, [1, 2, 3, 4]), (1537, 1, [7, 8, 9, 10])
    rows = [(0.0, *a), (100.0, *b), (200.0, *a)]
    six = {"deployment.kv_cache_tokens": 6 * 512}
    assert run_hashes(rows, **six).requests["cached_tokens"].tolist() == [0, 0, 1024]
    # One block more, and A finds all of its three; one fewer, and only its first.
    seven, five = ({"deployment.kv_cache_tokens": n * 512} for n in (7, 5))
    assert run_hashes(rows, **seven).requests["cached_tokens"].tolist() == [0, 0, 1536]
    assert run_hashes(rows, **five).requests["cached_tokens"].tolist() == [0, 0, 512]


def test_whatever_is_found_again_is_young_again(run_hashes):
    # Eight blocks: after A, B and A again the queue is three blanks, 5, 4, a blank, 2, 1.
    a, b, c = (1025, 1, [1, 2, 3]), (1025, 1, [4, 5, 6]), (2049, 1, [7, 8, 9, 10, 11])
    rows = [(100.0 * n, *request) for n, request in enumerate([a, b, a, c, a, b])]
    result = run_hashes(rows, **{"deployment.kv_cache_tokens": 8 * 512})
    assert result.requests["cached_tokens"].tolist() == [0, 0, 1024, 0, 1024, 0]


def test_hashed_blocks_are_found_as_far_as_they_agree(run_hashes):
    rows = [
        (0.0, 2048, 5, [1, 2, 3, 4]),
        (100.0, 2048, 5, [1, 2, 3, 4]),  # all but the block of its last token
        (200.0, 2000, 5, [1, 2, 9, 8]),  # two hashes alike
        (300.0, 2048, 5, [5, 2, 3, 4]),  # another beginning
        (400.0, 700, 5, [1, 2]),  # 188 tokens of the second: eleven of its blocks
        (500.0, 2100, 5, [1, 2, 3, 4, 6]),
    ]
    expected = {
        512: [0, 1536, 1024, 0, 512, 2048],
        16: [0, 2032, 1024, 0, 688, 2048],
    }
    for block_size, cached in expected.items():
        result = run_hashes(rows, **{"deployment.block_size": block_size})
        assert result.requests["cached_tokens"].tolist() == cached


def test_a_block_size_that_hashes_do_not_divide_into_needs_the_cache_off(run_hashes):
    rows = [(0.0, 2048, 5, [1, 2, 3, 4])] * 2
    with pytest.raises(ScenarioError, match="block_size 48: a hash of the recorded trace"):
        run_hashes(rows, **{"deployment.block_size": 48})
    off = {"deployment.block_size": 48, "deployment.prefix_caching": False}
    assert run_hashes(rows, **off).requests["cached_tokens"].tolist() == [0, 0]


# --- sessions ----------------------------------------------------------------------------------

SESSIONS = {
    "workload.arrivals": {"kind": "poisson", "rate_per_s": 2.0},
    "workload.lengths": {
        "kind": "lognormal",
        "prompt": {"mean_tokens": 40, "cv": 0.7, "max_tokens": 200},
        "output": {"mean_tokens": 30, "cv": 0.7, "max_tokens": 100},
    },
    "workload.num_requests": 120,
    "workload.sessions": {"mean_turns": 6, "turns": "fixed", "think": {"mean_s": 3.0}},
}


@pytest.mark.parametrize("preset", ["plain", "vllm", "sglang"])
def test_every_turn_finds_all_full_blocks_of_the_turn_before(recorded_profile, preset):
    result = simulate(
        make_scenario(
            recorded_profile,
            **{
                **PLENTY,
                **SESSIONS,
                "deployment.preset": preset,
                "speculation.num_speculative_tokens": 4,
            },
        )
    )
    check_result(result)
    requests = result.request_records
    before = requests[requests["follower"] >= 0]
    after = requests[before["follower"]]
    # The last token of an answer has no KV yet.
    said = before["prompt_tokens"] + before["output_tokens"] - 1
    assert np.array_equal(after["cached_tokens"], said // BLOCK * BLOCK)
    assert (after["cached_tokens"] > before["cached_tokens"]).mean() > 0.9
    assert (after["cached_tokens"] >= before["cached_tokens"]).all()


def test_a_lagging_draft_hides_the_last_block_of_a_turn_from_the_next(recorded_profile):
    # Blocks of one token in both pools: after full acceptance the draft lacks the last one.
    result = simulate(
        make_scenario(
            recorded_profile,
            **{
                **PLENTY,
                **SESSIONS,
                "deployment.preset": "tensorrt_llm",
                "deployment.block_size": 1,
                "speculation.proposer": "draft_model",
                "speculation.num_speculative_tokens": 2,
            },
        )
    )
    check_result(result)
    requests = result.request_records
    before = requests[requests["follower"] >= 0]
    after = requests[before["follower"]]
    behind = before["prompt_tokens"] + before["output_tokens"] - 1 - after["cached_tokens"]
    assert set(behind.tolist()) == {0, 1}


def test_turns_that_draft_nothing_leave_the_draft_its_prompt_alone(recorded_profile):
    result = simulate(
        make_scenario(
            recorded_profile,
            **{
                **PLENTY,
                **SESSIONS,
                "deployment.preset": "tensorrt_llm",
                "speculation.proposer": "draft_model",
                "speculation.num_speculative_tokens": 2,
                "speculation.plain_fraction": 1.0,
            },
        )
    )
    check_result(result)
    requests = result.request_records
    before = requests[requests["follower"] >= 0]
    after = requests[before["follower"]]
    assert np.array_equal(after["cached_tokens"], before["prompt_tokens"] // BLOCK * BLOCK)


# --- plain models of the cache -----------------------------------------------------------------


class PlainCache:
    """One request at a time over a queue of free blocks, each with the content it last had."""

    def __init__(self, num_blocks: int, block_size: int) -> None:
        self.block_size = block_size
        self.free = OrderedDict.fromkeys(range(num_blocks))  # block -> content, the oldest first
        self.where: dict[int, int] = {}  # content -> block

    def _take(self, count: int) -> list[int]:
        taken = []
        for _ in range(count):
            block, content = self.free.popitem(last=False)
            self.where.pop(content, None)
            taken.append(block)
        return taken

    def _enter(self, held: list[int], known: int, contents: list[int], tokens: int) -> int:
        """Full blocks get their content; where it is there already, ours returns for it."""
        full = min(tokens // self.block_size, len(contents))
        for place in range(known, full):
            content = contents[place]
            if content in self.where:
                self.free[held[place]] = None
                held[place] = self.where[content]
                del self.free[held[place]]
            else:
                self.where[content] = held[place]
        return max(known, full)

    def serve(self, contents: list[int], prompt: int, output: int) -> int:
        """Serve one request of which `contents` are shared; its cached tokens."""
        held: list[int] = []
        for content in contents[: (prompt - 1) // self.block_size]:
            if content not in self.where:
                break
            held.append(self.where[content])
        for block in held:
            del self.free[block]
        hits = len(held)
        known = hits
        for tokens in (prompt, prompt + output - 1):
            held += self._take(max(0, -(-tokens // self.block_size) - len(held)))
            known = self._enter(held, known, contents, tokens)
        for place in range(len(held) - 1, -1, -1):
            self.free[held[place]] = contents[place] if place < known else None
        return hits * self.block_size


def _contents(scenario, stored):
    """Block contents of every request, as the service was told (tests/workload/test_prefixes)."""
    state = new_state(scenario, stored).state
    return [
        [
            int(first + place)
            for first, count in state.prefix_runs[row["prefix_begin"] : row["prefix_end"]]
            for place in range(count)
        ]
        for row in state.requests
    ]


DOMAINS = st.builds(
    lambda tokens, prefixes: {"chat": {"shared_prefix_tokens": tokens, "num_prefixes": prefixes}},
    st.sampled_from([0, 20, 50, 100]),
    st.integers(1, 9),
)
TURNS = st.one_of(
    st.none(),
    st.builds(
        lambda turns, think_s: {"mean_turns": turns, "think": {"mean_s": think_s}},
        st.sampled_from([2.0, 4.0]),
        st.sampled_from([0.0, 5.0, 50.0]),
    ),
)
LENGTHS = st.builds(
    lambda prompt, output, cv: {
        "kind": "lognormal",
        "prompt": {"mean_tokens": prompt, "cv": cv, "max_tokens": 120},
        "output": {"mean_tokens": output, "cv": cv, "max_tokens": 60},
    },
    st.sampled_from([16, 40, 70]),
    st.sampled_from([1, 8, 30]),
    st.sampled_from([0.0, 0.8]),
)


@given(
    domains=DOMAINS,
    sessions=TURNS,
    lengths=LENGTHS,
    block_size=st.sampled_from([1, 8, 16]),
    kv_cache_tokens=st.sampled_from([384, 640, 1500]),
    seed=st.integers(0, 2**30),
)
def test_hits_equal_those_of_a_plain_queue_of_free_blocks(
    recorded_profile, domains, sessions, lengths, block_size, kv_cache_tokens, seed
):
    scenario = make_scenario(
        recorded_profile,
        **{
            **PLENTY,
            "workload.num_requests": 80,
            "workload.domains": domains,
            "workload.sessions": sessions,
            "workload.lengths": lengths,
            "deployment.max_num_seqs": 1,
            "deployment.block_size": block_size,
            "deployment.kv_cache_tokens": kv_cache_tokens,
            "seed": seed,
        },
    )
    result = simulate(scenario, stored=recorded_profile)
    check_result(result)
    requests = result.request_records
    contents = _contents(scenario, recorded_profile)
    cache = PlainCache(kv_cache_tokens // block_size, block_size)
    served = np.flatnonzero(requests["scheduled_s"] >= 0.0)
    for index in served[np.argsort(requests["scheduled_s"][served], kind="stable")]:
        row = requests[index]
        if row["state"] != FINISHED:
            return  # one that outgrew the memory: when, its blocks tell; the model does not
        cached = cache.serve(contents[index], int(row["prompt_tokens"]), int(row["output_tokens"]))
        assert row["cached_tokens"] == cached


@given(
    domains=DOMAINS,
    sessions=TURNS,
    lengths=LENGTHS,
    preset=st.sampled_from(["plain", "vllm", "sglang"]),
    replicas=st.integers(1, 3),
    routing=st.sampled_from(["round_robin", "session_affinity"]),
    gamma=st.integers(0, 5),
    seed=st.integers(0, 2**30),
)
def test_with_memory_for_all_whatever_was_committed_in_time_is_found(
    recorded_profile, domains, sessions, lengths, seed, preset, replicas, routing, gamma
):
    scenario = make_scenario(
        recorded_profile,
        **{
            **PLENTY,
            "workload.num_requests": 60,
            "workload.domains": domains,
            "workload.sessions": sessions,
            "workload.lengths": lengths,
            "deployment.preset": preset,
            "deployment.replicas": replicas,
            "deployment.routing": routing,
            "speculation.num_speculative_tokens": gamma,
            "seed": seed,
        },
    )
    result = simulate(scenario, stored=recorded_profile)
    check_result(result)
    requests = result.request_records
    contents = _contents(scenario, recorded_profile)
    since_s: dict[tuple[int, int], float] = {}  # (replica, content) -> when it was committed
    for index, row in enumerate(requests):
        prompt, whole = (
            int(tokens) // BLOCK
            for tokens in (row["prompt_tokens"], row["prompt_tokens"] + row["output_tokens"] - 1)
        )
        for place, content in enumerate(contents[index][:whole]):
            time_s = row["first_token_s"] if place < prompt else row["finish_s"]
            key = (int(row["replica"]), content)
            since_s[key] = min(since_s.get(key, np.inf), float(time_s))
    for index, row in enumerate(requests):
        hits = 0
        for content in contents[index][: (int(row["prompt_tokens"]) - 1) // BLOCK]:
            if since_s[int(row["replica"]), content] > row["scheduled_s"]:
                break
            hits += 1
        assert row["cached_tokens"] == hits * BLOCK


def test_a_public_trace_finds_what_a_set_of_hashes_says(recorded_profile, shared_data):
    path = shared_data / "mooncake_fast25/synthetic_trace.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()[:400]]
    result = _run_file(
        recorded_profile,
        path,
        {
            "workload.num_requests": 400,
            "workload.arrivals": {"kind": "recorded", "path": str(path), "rate_scale": 1e-3},
            "deployment.max_num_seqs": 1,
            "deployment.block_size": 512,
            "deployment.kv_cache_tokens": 100_000_000,
        },
    )
    assert (result.requests["state"] == "finished").all()
    seen: set[int] = set()
    expected = []
    for row in rows:
        full = row["hash_ids"][: row["input_length"] // 512]
        most = full[: (row["input_length"] - 1) // 512]
        expected.append(512 * next((n for n, h in enumerate(most) if h not in seen), len(most)))
        seen |= set(full)
    assert sum(expected) > 0
    assert result.requests["cached_tokens"].tolist() == expected


# --- under pressure, and what it brings --------------------------------------------------------

TIGHT = {
    **SESSIONS,
    "workload.num_requests": 80,
    "workload.arrivals": {"kind": "batch"},
    "deployment.kv_cache_tokens": 1200,
    "deployment.max_num_seqs": 8,
}


def test_a_preempted_request_finds_its_own_blocks_again(recorded_profile):
    one_turn = {"workload.sessions": {"mean_turns": 1.0}, "deployment.kv_cache_tokens": 400}
    result = simulate(make_scenario(recorded_profile, **{**TIGHT, **one_turn}))
    check_result(result)
    requests = result.request_records
    # A session of one turn: nobody else has anything of it.
    preempted = requests["num_preemptions"] > 0
    assert preempted.sum() > 5
    assert (requests["cached_tokens"][~preempted] == 0).all()
    # Most of theirs was taken by those who stayed: blocks were short.
    assert (requests["cached_tokens"][preempted] > 0).sum() > 3
    summary = summarise(result)
    found = summary.kv.cached_tokens
    computed = int(result.step_records["prefill_tokens"].sum())
    assert summary.kv.prefix_hit_fraction == found / (found + computed)


@pytest.mark.parametrize("preset", ["plain", "vllm", "sglang", "tensorrt_llm"])
@pytest.mark.parametrize("proposer", ["ngram", "draft_model"])
def test_every_mode_agrees_on_a_cache_under_pressure(recorded_profile, preset, proposer):
    changes = {"deployment.preset": preset, "speculation.proposer": proposer}
    scenario = make_scenario(recorded_profile, **{**TIGHT, **_prefix(48, 2), **changes})
    check_every_mode(scenario, recorded_profile)


def test_a_draft_pool_of_its_own_counts_a_shared_block_once_when_it_admits(run_rows):
    # Fourteen blocks in either pool, ten of them shared: two requests of eleven fit together.
    result = run_rows(
        [(0.0, 170, 60), (0.2, 170, 60)],
        **{
            "deployment.draft_pool": "own",
            "deployment.kv_cache_tokens": 252,  # 224 tokens in both pools
            "deployment.max_num_batched_tokens": 512,
            "speculation.proposer": "draft_model",
            "speculation.num_speculative_tokens": 2,
            **_prefix(160),
        },
    )
    assert result.budget.pools_are_alike
    assert result.budget.total_blocks == 14
    requests = result.request_records
    assert requests["cached_tokens"][1] >= 160
    assert requests["scheduled_s"][1] < requests["finish_s"][0]


def test_pools_whose_blocks_differ_cannot_share_a_prefix(recorded_profile):
    uneven = {"deployment.draft_pool": "own", "deployment.draft_block_size": 4}
    speculating = {"speculation.proposer": "draft_model"}
    scenario = make_scenario(recorded_profile, **{**SESSIONS, **uneven, **speculating})
    with pytest.raises(ScenarioError, match="a prefix is found again only in both pools"):
        simulate(scenario, stored=recorded_profile)
    check_every_mode(scenario.with_(**{"deployment.prefix_caching": False}), recorded_profile)


def test_without_the_cache_nothing_is_found_and_the_laws_hold(recorded_profile):
    off = make_scenario(
        recorded_profile, **{**TIGHT, **_prefix(48, 2), "deployment.prefix_caching": False}
    )
    check_every_mode(off, recorded_profile)
    result = simulate(off)
    assert result.request_records["cached_tokens"].sum() == 0
    assert summarise(result).kv.prefix_hit_fraction is None


def test_a_cache_that_nobody_can_use_changes_nothing(recorded_profile):
    changes = {"workload.arrivals": {"kind": "batch"}, "deployment.kv_cache_tokens": 300}
    on = simulate(make_scenario(recorded_profile, **changes))
    off = simulate(
        make_scenario(recorded_profile, **{**changes, "deployment.prefix_caching": False})
    )
    assert np.array_equal(on.request_records, off.request_records)
    assert np.array_equal(on.step_records, off.step_records)


def test_what_is_generated_does_not_depend_on_the_cache(recorded_profile):
    scenario = make_scenario(recorded_profile, **{**TIGHT, **_prefix(48, 2)})
    on, off = (
        simulate(scenario.with_(**{"deployment.prefix_caching": caching})).request_records
        for caching in (True, False)
    )
    for name in ("emitted_tokens", "num_cycles", "accepted_tokens", "prompt_tokens"):
        assert np.array_equal(on[name], off[name])


def test_the_first_token_comes_sooner_the_more_is_found(recorded_profile):
    ttfts, hits = [], []
    for num_prefixes in (1, 20, 100_000):
        result = simulate(
            make_scenario(
                recorded_profile,
                **{
                    **PLENTY,
                    "workload.lengths": {
                        "kind": "fixed",
                        "prompt_tokens": 300,
                        "output_tokens": 20,
                    },
                    "workload.num_requests": 200,
                    "workload.arrivals": {"kind": "poisson", "rate_per_s": 1.0},
                    **_prefix(256, num_prefixes),
                },
            )
        )
        summary = summarise(result)
        ttfts.append(summary.ttft.mean_s)
        hits.append(summary.kv.prefix_hit_fraction)
    assert hits[0] > 0.8
    assert hits[0] > hits[1] > hits[2]
    assert ttfts[0] < ttfts[1] < ttfts[2]


def test_a_cache_too_large_to_keep_track_of_is_refused_in_a_sentence(recorded_profile):
    scenario = make_scenario(
        recorded_profile,
        **{
            **SESSIONS,
            **_prefix(10_000_000, 100_000),
            "deployment.block_size": 1,
            "deployment.kv_cache_tokens": 10_000_000,
        },
    )
    with pytest.raises(ScenarioError, match="the prefix cache would keep track of"):
        new_state(scenario, recorded_profile)


def test_memory_without_end_is_no_trouble_for_the_cache(recorded_profile):
    endless = {"deployment.block_size": 1, "deployment.kv_cache_tokens": 10**13}
    result = simulate(make_scenario(recorded_profile, **{**SESSIONS, **endless}))
    check_result(result)
    assert result.request_records["cached_tokens"].sum() > 0


def test_prompts_that_can_never_fit_are_rejected_and_not_kept_track_of(run_rows, recorded_profile):
    lengths = {"kind": "fixed", "prompt_tokens": 3 * 10**7, "output_tokens": 10**7}
    result = simulate(make_scenario(recorded_profile, **{**SESSIONS, "workload.lengths": lengths}))
    check_result(result)
    assert set(result.requests["reason"]) == {"prompt can never fit", "session ended"}
