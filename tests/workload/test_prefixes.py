"""What prompts share, block by block, worked out by hand."""

import json

import numpy as np
import pytest

from simcore.errors import ScenarioError
from simcore.scenario import Workload
from simcore.workload.prefixes import shared_prefixes
from simcore.workload.turns import NONE
from tests.workload.conftest import FIXED

POISSON = {"kind": "poisson", "rate_per_s": 4.0}
MANY = 10_000


def _workload(**changes):
    return Workload.model_validate({"arrivals": POISSON, "lengths": FIXED} | changes)


def _contents(prefixes) -> list[list[int]]:
    """Block contents of every request."""
    return [
        [
            int(content)
            for first, count in prefixes.runs[begin:end]
            for content in first + np.arange(count)
        ]
        for begin, end in zip(prefixes.begin, prefixes.end, strict=True)
    ]


def _shared(workload, block_size=16, most_blocks=MANY, **columns):
    count = len(columns["prompt_tokens"])
    defaults = {
        "output_tokens": [1] * count,
        "session": [NONE] * count,
        "group": [NONE] * count,
        "group_tokens": [],
    }
    arrays = {name: np.array(v, dtype=np.int64) for name, v in (defaults | columns).items()}
    return shared_prefixes(workload, block_size, most_blocks=most_blocks, **arrays)


def test_requests_of_one_prefix_share_its_full_blocks_and_nothing_else():
    prefixes = _shared(
        _workload(), prompt_tokens=[100, 200, 90, 300], group=[0, 1, 0, NONE], group_tokens=[70, 33]
    )
    assert _contents(prefixes) == [[0, 1, 2, 3], [4, 5], [0, 1, 2, 3], []]
    assert prefixes.num_contents == 6


def test_a_prompt_shorter_than_its_prefix_has_the_beginning_of_it():
    prefixes = _shared(_workload(), prompt_tokens=[100, 40, 15], group=[0] * 3, group_tokens=[70])
    assert _contents(prefixes) == [[0, 1, 2, 3], [0, 1], []]


def test_turns_of_a_session_share_all_that_was_said_behind_their_prefix():
    # Turns of 40 + 10, then 80 + 20 with the history: 100 tokens in all, six full blocks.
    prefixes = _shared(
        _workload(sessions={"mean_turns": 2.0}),
        prompt_tokens=[40, 50, 80],
        output_tokens=[10, 30, 20],
        session=[0, 1, 0],
        group=[0, 0, 0],
        group_tokens=[35],
    )
    first, other, second = _contents(prefixes)
    assert first == second == [0, 1, 2, 3, 4, 5]
    assert other == [0, 1, 6, 7, 8]


def test_a_session_whose_first_prompt_ends_inside_its_prefix_shares_no_more_of_it_later():
    prefixes = _shared(
        _workload(sessions={"mean_turns": 2.0}),
        prompt_tokens=[20, 90],
        output_tokens=[10, 10],
        session=[0, 0],
        group=[0, 0],
        group_tokens=[64],
    )
    # One block of the prefix of four, then five of the session's own.
    assert _contents(prefixes) == [[0, 4, 5, 6, 7, 8]] * 2


def test_sessions_without_history_share_a_prefix_alone():
    sessions = {"mean_turns": 2.0, "keeps_history": False}
    columns = {"prompt_tokens": [40, 50], "session": [0, 0]}
    assert _shared(_workload(sessions=sessions), **columns).is_empty
    with_group = _shared(_workload(sessions=sessions), **columns, group=[0, 0], group_tokens=[32])
    assert _contents(with_group) == [[0, 1], [0, 1]]


def test_whatever_is_longer_than_the_memory_is_not_kept_track_of():
    prefixes = _shared(
        _workload(sessions={"mean_turns": 2.0}),
        most_blocks=5,
        prompt_tokens=[10**9, 40],
        output_tokens=[10**9, 10],
        session=[0, 1],
    )
    assert _contents(prefixes) == [[0, 1, 2, 3, 4], [5, 6, 7]]


@pytest.fixture
def hashed_workload(tmp_path):
    """A workload of (prompt tokens, hash ids) rows in Mooncake's format."""

    def make(rows):
        path = tmp_path / "mooncake.jsonl"
        lines = [
            {"timestamp": 1000 * n, "input_length": p, "output_length": 2, "hash_ids": ids}
            for n, (p, ids) in enumerate(rows)
        ]
        path.write_text("\n".join(json.dumps(line) for line in lines))
        return _workload(
            arrivals={"kind": "recorded", "path": str(path)},
            lengths={"kind": "file_rows"},
            num_requests=None,
        )

    return make


def test_equal_hashes_are_equal_blocks_as_far_as_they_are_full(hashed_workload):
    rows = [(1024, [70, 71]), (1300, [70, 71, 9]), (600, [70, 5])]
    workload = hashed_workload(rows)
    prompts = [prompt for prompt, _ in rows]
    one, longer, other = _contents(_shared(workload, 256, prompt_tokens=prompts))
    assert len(one) == 4
    assert longer[:4] == one
    assert len(longer) == 5  # 1300 = 5 · 256 + 20
    assert other == one[:2]  # 88 tokens of the second hash fill no block


@pytest.mark.parametrize(("block_size", "num_blocks"), [(512, 1), (64, 9), (16, 37)])
def test_the_partial_last_hash_counts_its_full_blocks(hashed_workload, block_size, num_blocks):
    prefixes = _shared(hashed_workload([(600, [3, 4])]), block_size, prompt_tokens=[600])
    assert len(_contents(prefixes)[0]) == num_blocks == 600 // block_size


def test_hashes_beyond_the_prompt_and_prompts_beyond_the_hashes_are_left_out(hashed_workload):
    workload = hashed_workload([(500, [1, 2, 3]), (2000, [1])])
    short, long = _contents(_shared(workload, 128, prompt_tokens=[500, 2000]))
    assert len(short) == 3
    assert len(long) == 4
    assert long[:3] == short


@pytest.mark.parametrize("block_size", [48, 1024, 100])
def test_a_block_size_that_hashes_do_not_divide_into_is_refused(hashed_workload, block_size):
    with pytest.raises(ScenarioError, match=f"block_size {block_size}: a hash of the recorded"):
        _shared(hashed_workload([(600, [3, 4])]), block_size, prompt_tokens=[600])


def test_a_file_without_hashes_shares_nothing(request_file):
    workload = _workload(
        arrivals={"kind": "recorded", "path": request_file([(0.0, 600, 2)])},
        lengths={"kind": "file_rows"},
        num_requests=None,
    )
    assert _shared(workload, prompt_tokens=[600]).is_empty


def test_a_public_trace_repeats_the_share_of_blocks_that_is_published(shared_data):
    # 36.6 % of the conversation's hashes and 64.0 % of the synthetic ones came before.
    for name, repeated in (("conversation", 0.366), ("synthetic", 0.640)):
        path = shared_data / f"mooncake_fast25/{name}_trace.jsonl"
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        prompts = [-(-row["input_length"] // 512) * 512 for row in rows]  # as if all were full
        workload = _workload(
            arrivals={"kind": "recorded", "path": str(path)},
            lengths={"kind": "file_rows"},
            num_requests=None,
        )
        prefixes = _shared(workload, 512, prompt_tokens=prompts)
        held = int(prefixes.runs[:, 1].sum())
        assert 1 - prefixes.num_contents / held == pytest.approx(repeated, abs=0.0005)
