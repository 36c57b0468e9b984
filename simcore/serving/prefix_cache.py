"""The prefix cache of a replica: blocks whose content is known, shared by those who begin alike.

A request's prompt, and its session after it, is a list of block contents (`prefix_runs`). A block
of known content is held by any number of requests; held by none, it waits in the queue of free
blocks until it is the oldest there and its place is taken, as in vLLM. Only committed full blocks
enter. With a draft pool of its own each entry stands for one block there too, full in both.
"""

from simcore.compiled import compiled, compiled_apart
from simcore.serving.state import NOTHING, ONE, State

HEAD = 0  # of the queue; content c is entry c + 1


@compiled_apart
def claim(state: State, index: int, count: int) -> None:
    """The oldest `count` free blocks are taken; what the cache knew of them is forgotten."""
    entries = state.prefixes
    while count > 0:
        head = entries[index, HEAD]
        blank = min(count, int(head.gap))
        head.gap -= blank
        count -= blank
        if count > 0:
            oldest = int(head.after)
            _leave_queue(state, index, oldest)
            entries[index, oldest].is_cached = 0
            count -= 1


@compiled_apart
def append_blank(state: State, index: int, count: int) -> None:
    """`count` blocks of no known content are free, as the youngest."""
    last = state.prefixes[index, HEAD].before
    state.prefixes[index, last].gap += count


@compiled_apart
def find_prefix(state: State, index: int, request: int, tokens: int) -> tuple[int, int]:
    """(blocks of a prompt of `tokens` that are cached, those of them that nobody holds).

    At least one token is left to compute. An EAGLE draft needs the last block's hidden states:
    vLLM drops that hit.
    """
    row = state.requests[request]
    most = (tokens - 1) // state.limits.block_size
    hits, idle, is_last_idle = NOTHING, NOTHING, NOTHING
    for run in range(row.prefix_begin, row.prefix_end):
        first, count = state.prefix_runs[run, 0], state.prefix_runs[run, 1]
        for content in range(first, first + count):
            entry = state.prefixes[index, content + 1]
            if hits == most or entry.is_cached == 0:
                return _usable(state, hits, idle, is_last_idle)
            hits += 1
            is_last_idle = int(entry.num_holders == 0)
            idle += is_last_idle
    return _usable(state, hits, idle, is_last_idle)


@compiled
def _usable(state: State, hits: int, idle: int, is_last_idle: int) -> tuple[int, int]:
    if state.limits.drops_last_hit and hits > 0:
        return hits - 1, idle - is_last_idle
    return hits, idle


@compiled_apart
def hold_prefix(state: State, index: int, request: int, blocks: int) -> None:
    """The request shares the first `blocks` of its prompt from now on."""
    row = state.requests[request]
    left = blocks
    for run in range(row.prefix_begin, row.prefix_end):
        first, count = state.prefix_runs[run, 0], state.prefix_runs[run, 1]
        for content in range(first, first + min(count, left)):
            _hold(state, index, content + 1)
        left -= min(count, left)
    row.shared_blocks = blocks
    row.held_blocks = blocks
    if state.limits.draft_block_size > 0:
        row.draft_held_blocks = blocks


@compiled_apart
def share_prefix(state: State, index: int, request: int) -> None:
    """Full committed blocks enter the cache; where one like it is there, ours returns for it.

    With a draft pool of its own a block must be full in both: the draft may lag behind.
    """
    row, replica = state.requests[request], state.replicas[index]
    full = _full_blocks(state, request)
    position = 0
    for run in range(row.prefix_begin, row.prefix_end):
        first, count = state.prefix_runs[run, 0], state.prefix_runs[run, 1]
        if position + count <= row.shared_blocks:
            position += count
            continue
        for content in range(first, first + count):
            if position >= full:
                return
            if position >= row.shared_blocks:
                entry = state.prefixes[index, content + 1]
                if entry.is_cached:
                    replica.free_blocks += 1
                    replica.draft_free_blocks += int(state.limits.draft_block_size > 0)
                    append_blank(state, index, ONE)
                    _hold(state, index, content + 1)
                else:
                    entry.is_cached = 1
                    entry.num_holders = 1
                row.shared_blocks += 1
            position += 1


@compiled
def _full_blocks(state: State, request: int) -> int:
    """Blocks that are full in every pool: a draft that lags has the last ones only in part."""
    row = state.requests[request]
    tokens = row.committed_tokens
    if state.limits.draft_block_size > 0:
        tokens = min(tokens, row.draft_committed_tokens)
    return int(tokens // state.limits.block_size)


@compiled_apart
def leave_prefix(state: State, index: int, request: int) -> None:
    """The request shares nothing any more; the end of its prefix is forgotten first."""
    row = state.requests[request]
    begin = 0  # of the run, in blocks
    for run in range(row.prefix_begin, row.prefix_end):
        begin += state.prefix_runs[run, 1]
    for run in range(row.prefix_end - 1, row.prefix_begin - 1, -1):
        first, count = state.prefix_runs[run, 0], state.prefix_runs[run, 1]
        begin -= count
        held = min(count, max(row.shared_blocks - begin, 0))
        for content in range(first + held - 1, first - 1, -1):
            _let_go(state, index, content + 1)
    row.held_blocks -= row.shared_blocks
    if state.limits.draft_block_size > 0:
        row.draft_held_blocks -= row.shared_blocks
    row.shared_blocks = 0


@compiled_apart
def forget_all(state: State, index: int) -> None:
    """An empty cache, every block free: the replica's memory is lost."""
    entries = state.prefixes
    for content in range(entries.shape[1]):
        entry = entries[index, content]
        entry.num_holders = 0
        entry.is_cached = 0
        entry.before = HEAD
        entry.after = HEAD
        entry.gap = 0
    entries[index, HEAD].gap = state.replicas[index].total_blocks


@compiled
def _hold(state: State, index: int, number: int) -> None:
    entry = state.prefixes[index, number]
    if entry.num_holders == 0:
        _leave_queue(state, index, number)
        _count_free(state, index, -ONE)
    entry.num_holders += 1


@compiled
def _let_go(state: State, index: int, number: int) -> None:
    entry = state.prefixes[index, number]
    entry.num_holders -= 1
    if entry.num_holders == 0:
        head = state.prefixes[index, HEAD]
        entry.before = head.before
        entry.after = HEAD
        state.prefixes[index, head.before].after = number
        head.before = number
        _count_free(state, index, ONE)


@compiled
def _leave_queue(state: State, index: int, number: int) -> None:
    entries = state.prefixes
    entry = entries[index, number]
    entries[index, entry.before].after = entry.after
    entries[index, entry.before].gap += entry.gap
    entries[index, entry.after].before = entry.before
    entry.gap = 0


@compiled
def _count_free(state: State, index: int, count: int) -> None:
    replica = state.replicas[index]
    replica.free_blocks += count
    if state.limits.draft_block_size > 0:
        replica.draft_free_blocks += count
    used = replica.total_blocks - replica.free_blocks
    replica.peak_used_blocks = max(replica.peak_used_blocks, used)
