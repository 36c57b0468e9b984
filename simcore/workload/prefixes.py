"""What prompts share, as contents of KV blocks: equal numbers are equal blocks.

A request's contents are runs of consecutive numbers: a prefix of its domain, its own session, or
the hashed blocks of a recorded trace. Only full blocks count.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from simcore.errors import ScenarioError
from simcore.workload.files.mooncake import HASHED_TOKENS
from simcore.workload.recorded import recorded_requests
from simcore.workload.turns import NONE
from simcore.workload_kinds import FileRowsLengths, Workload

IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class Prefixes:
    """Rows `begin[i]` to `end[i]` of `runs` are the contents of request i, in order."""

    runs: IntArray  # [num_runs, 2] first content, how many
    begin: IntArray  # [num_requests]
    end: IntArray  # [num_requests]
    num_contents: int

    @property
    def is_empty(self) -> bool:
        """Whether nobody shares anything."""
        return len(self.runs) == 0


def no_prefixes(count: int) -> Prefixes:
    """Nobody shares anything."""
    none = np.zeros(count, dtype=np.int64)
    return Prefixes(np.zeros((0, 2), dtype=np.int64), none, none, 0)


def shared_prefixes(
    workload: Workload,
    block_size: int,
    *,
    prompt_tokens: IntArray,
    output_tokens: IntArray,
    session: IntArray,
    group: IntArray,
    group_tokens: IntArray,
    most_blocks: int,
) -> Prefixes:
    """What these requests share.

    `group[i]`: the prefix that request i begins with, NONE for none; `group_tokens[g]` its length.
    `most_blocks`: of one replica; whatever is longer never comes in, and is not kept track of.
    Sessions share only where they keep their history. Raises ScenarioError for hashed blocks that
    KV blocks do not divide.
    """
    hashed = _hashed_blocks(workload, len(prompt_tokens))
    if hashed is not None:
        return _from_hashes(hashed, prompt_tokens, block_size)
    keeps_history = workload.sessions is not None and workload.sessions.keeps_history
    if len(group_tokens) == 0 and not keeps_history:
        return no_prefixes(len(prompt_tokens))
    blocks = np.zeros((len(prompt_tokens), 2), dtype=np.int64)  # of the group, of the session
    first = np.zeros_like(blocks)
    has_group = group != NONE
    sizes = np.minimum(group_tokens // block_size, most_blocks)
    starts = np.cumsum(sizes) - sizes
    first[has_group, 0] = starts[group[has_group]]
    first_prompt = _of_first_turn(prompt_tokens, session) if keeps_history else prompt_tokens
    blocks[has_group, 0] = np.minimum(
        sizes[group[has_group]], first_prompt[has_group] // block_size
    )
    num_contents = int(sizes.sum())
    if keeps_history:
        whole = np.minimum((prompt_tokens + output_tokens) // block_size, most_blocks)
        longest = np.zeros(int(session.max()) + 1, dtype=np.int64)
        np.maximum.at(longest, session, whole - blocks[:, 0])
        starts = num_contents + np.cumsum(longest) - longest
        first[:, 1], blocks[:, 1] = starts[session], longest[session]
        num_contents += int(longest.sum())
    return _from_blocks(first, blocks, num_contents)


def _of_first_turn(prompt_tokens: IntArray, session: IntArray) -> IntArray:
    """Each request's value of the first turn of its session, whose prompt is the shortest."""
    shortest = np.full(int(session.max()) + 1, np.iinfo(np.int64).max)
    np.minimum.at(shortest, session, prompt_tokens)
    return np.asarray(shortest[session])


def _from_blocks(first: IntArray, blocks: IntArray, num_contents: int) -> Prefixes:
    """One or two runs a request; requests that share all of it share the rows."""
    pairs = np.column_stack([first[:, 0], blocks[:, 0], first[:, 1], blocks[:, 1]])
    unique, which = np.unique(pairs, axis=0, return_inverse=True)
    kept = unique.reshape(-1, 2)[:, 1] > 0
    runs = unique.reshape(-1, 2)[kept]
    ends = np.cumsum(kept, dtype=np.int64).reshape(-1, 2)[:, 1]
    begins = ends - kept.reshape(-1, 2).sum(axis=1, dtype=np.int64)
    which = which.reshape(-1)
    return Prefixes(np.ascontiguousarray(runs), begins[which], ends[which], num_contents)


def _hashed_blocks(workload: Workload, count: int) -> pa.ListArray | None:
    if not isinstance(workload.lengths, FileRowsLengths) or workload.recording is None:
        return None
    table = recorded_requests(workload.recording).slice(0, count)
    if "hash_ids" not in table.column_names:
        return None
    return table.column("hash_ids").combine_chunks()


def _from_hashes(hashed: pa.ListArray, prompt_tokens: IntArray, block_size: int) -> Prefixes:
    if HASHED_TOKENS % block_size != 0:
        raise ScenarioError(
            f"block_size {block_size}: a hash of the recorded trace stands for {HASHED_TOKENS} "
            f"tokens; use a block size that divides {HASHED_TOKENS}, or set prefix_caching to false"
        )
    per_hash = HASHED_TOKENS // block_size
    lengths = np.asarray(hashed.value_lengths().to_numpy(zero_copy_only=False), dtype=np.int64)
    values = np.asarray(hashed.flatten().to_numpy(zero_copy_only=False), dtype=np.int64)
    unique, number = np.unique(values, return_inverse=True)
    ends = np.cumsum(lengths)
    begins = ends - lengths
    place = np.arange(len(values)) - np.repeat(begins, lengths)
    full = np.repeat(prompt_tokens // block_size, lengths) - place * per_hash
    runs = np.column_stack([number * per_hash, np.clip(full, 0, per_hash)])
    return Prefixes(np.ascontiguousarray(runs), begins, ends, len(unique) * per_hash)
