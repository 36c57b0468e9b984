"""The KV ledger for an engine in Python: what the step kernel does to a request's rows, by name.

`begin` and `commit` of a scheduled replica call the same functions. An engine without a scheduler
(one request at a time, tests of a cache) keeps its account in `Accounts`: those arrays of State
that the ledger reads and writes. Every function here takes either.
"""

from typing import NamedTuple, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from simcore.by_pointer import by_pointer
from simcore.compiled import compiled_entry
from simcore.records import Record, Records, new_record
from simcore.serving.commit import commit_cycle, commit_prefill
from simcore.serving.ledger import release_to, reserve
from simcore.serving.preemption import yield_blocks
from simcore.serving.prefix_cache import HEAD, find_prefix, hold_prefix
from simcore.serving.reservation import covered_tokens, lacks_room
from simcore.serving.state import (
    LIMITS_DTYPE,
    MODE_DTYPE,
    PENDING,
    PREFILLING,
    PREFIX_DTYPE,
    REQUEST_DTYPE,
    State,
    new_replicas,
)

Mode = tuple[int, int, int, int]  # depth, verified, proposed, scheme: the first of MODE_DTYPE
PLAIN: Mode = (0, 0, 0, 0)


class KVState(Protocol):
    """What the ledger reads of State or Accounts."""

    @property
    def requests(self) -> Records: ...
    @property
    def replicas(self) -> Records: ...
    @property
    def limits(self) -> Record: ...
    @property
    def prefix_runs(self) -> NDArray[np.int64]: ...
    @property
    def prefixes(self) -> Records: ...


@by_pointer
class Accounts(NamedTuple):
    """The ledger's part of State, under the names it has there."""

    requests: Records  # [num_requests]
    replicas: Records  # [1]
    modes: Records  # [num_modes] ways to draft, 0: off
    prefix_runs: NDArray[np.int64]  # [num_runs, 2] first block content and how many follow it
    prefixes: Records  # [1, 1 + contents]
    limits: Record


def _mode_rows(modes: list[Mode]) -> Records:
    """Modes of one proposer, which keeps whatever KV its pool or its blocks hold."""
    rows = np.zeros(len(modes), dtype=MODE_DTYPE)
    for place, name in enumerate(("depth", "verified_tokens", "proposed_tokens", "scheme")):
        rows[name] = [mode[place] for mode in modes]
    rows["is_own"] = rows["writes_kv"] = 1
    return rows


def new_accounts(
    num_requests: int,
    total_blocks: int,
    block_size: int,
    *,
    modes: tuple[Mode, ...] = (),
    lookahead_tokens: int = 0,
    draft_blocks: int = 0,
    draft_block_size: int = 0,
    prefix_runs: tuple[tuple[int, int], ...] = (),
) -> Accounts:
    """Idle requests and one replica with every block free; `modes` follow the plain one.

    `lookahead_tokens`: slots that a cycle takes beyond root and drafts. Without `prefix_runs`,
    rows (first content, how many), nothing is cached.
    """
    requests = np.zeros(num_requests, dtype=REQUEST_DTYPE).view(np.recarray)
    requests["state"] = PENDING
    runs = np.array(prefix_runs, dtype=np.int64).reshape(-1, 2)
    contents = int((runs[:, 0] + runs[:, 1]).max()) if len(runs) else 0
    prefixes = np.zeros((1, 1 + contents), dtype=PREFIX_DTYPE)
    prefixes["gap"][:, HEAD] = total_blocks
    return Accounts(
        requests=requests,
        replicas=new_replicas(1, total_blocks, draft_blocks, 0),
        modes=_mode_rows([PLAIN, *modes]),
        prefix_runs=runs,
        prefixes=prefixes,
        limits=new_record(
            LIMITS_DTYPE,
            block_size=block_size,
            draft_block_size=draft_block_size,
            lookahead_tokens=lookahead_tokens,
            caches_prefixes=len(runs) > 0,
        ),
    )


def as_state(accounts: Accounts | State) -> State:
    """The same to a type checker: compiled functions look at names, not at classes."""
    return cast("State", accounts)


@compiled_entry
def enter(state: State, index: int, request: int, tokens: int) -> int:
    """A request that is to compute `tokens` tokens enters a replica; returns the cached ones.

    The blocks that it shares with others are held from now on.
    """
    row = state.requests[request]
    hits = 0
    if state.limits.caches_prefixes and row.prefix_end > row.prefix_begin:
        hits, _ = find_prefix(state, index, request, tokens)
    cached = hits * state.limits.block_size
    row.replica = index
    row.state = PREFILLING
    row.prefill_left_tokens = tokens - cached
    row.step_tokens = 0
    row.step_mode = 0
    if hits > 0:
        hold_prefix(state, index, request, hits)
        row.committed_tokens = cached
        row.draft_committed_tokens = cached
        row.cached_tokens += cached
    return int(cached)


@compiled_entry
def reserve_step(state: State, index: int, request: int, mode: int, tokens: int) -> bool:
    """Hold the blocks of a request's step, of every pool or of none; False where some are missing.

    A prefill takes `tokens`; a cycle takes its root and the drafts of `mode`.
    """
    row = state.requests[request]
    row.step_mode = mode
    row.step_tokens = tokens
    if row.state != PREFILLING:
        row.step_tokens = 1 + state.modes[mode].verified_tokens
    if lacks_room(state, index, request):
        row.step_mode = 0
        row.step_tokens = 0
        return False
    reserve(state, index, request, covered_tokens(state, request))
    return True


@compiled_entry
def commit_step(
    state: State, index: int, request: int, verified: int, accepted: int, end_s: float
) -> int:
    """Commit the step that was reserved, give back the rest; returns the tokens emitted.

    The output ends at the row's `output_tokens`, which cuts a cycle.
    """
    row = state.requests[request]
    emitted = 0
    if row.state == PREFILLING:
        before = row.emitted_tokens
        commit_prefill(state, index, request, end_s)
        emitted = row.emitted_tokens - before
    else:
        row.step_proposed = verified
        row.step_verified = verified
        row.step_accepted = accepted
        emitted = commit_cycle(state, request, end_s)
    row.step_tokens = 0
    release_to(state, index, request, row.committed_tokens)
    return int(emitted)


@compiled_entry
def abandon_step(state: State, index: int, request: int) -> None:
    """The step failed or was called off: back to what was committed before it."""
    state.requests[request].step_tokens = 0
    release_to(state, index, request, int(state.requests[request].committed_tokens))


@compiled_entry
def give_back(state: State, index: int, request: int) -> None:
    """The request leaves, or is preempted: all its blocks return, what it shares stays cached."""
    yield_blocks(state, index, request)
    row = state.requests[request]
    row.committed_tokens = 0
    row.step_tokens = 0
    row.step_mode = 0
