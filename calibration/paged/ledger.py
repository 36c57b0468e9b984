"""The KV account of an engine without a scheduler, kept by simcore's own functions.

An engine under simcore's scheduler has the replica's State in its place; the calls are the same.
"""

from collections.abc import Sequence

from simcore.serving import accounts
from simcore.serving.accounts import Accounts, Mode, as_state, new_accounts
from simcore.serving.state import DECODING, FINISHED, PENDING, PREFILLING

UNBOUNDED_TOKENS = 1 << 30


class Ledger:
    """Blocks of one replica by request: enter, reserve, commit or abandon, leave."""

    def __init__(self, state: Accounts) -> None:
        self.state = state

    @classmethod
    def new(
        cls,
        num_requests: int,
        total_blocks: int,
        block_size: int,
        *,
        modes: Sequence[Mode] = (),
        lookahead_tokens: int = 0,
        draft_blocks: int = 0,
        draft_block_size: int = 0,
        prefix_runs: Sequence[tuple[int, int]] = (),
    ) -> "Ledger":
        """An empty account; see `simcore.serving.accounts.new_accounts`."""
        return cls(
            new_accounts(
                num_requests,
                total_blocks,
                block_size,
                modes=tuple(modes),
                lookahead_tokens=lookahead_tokens,
                draft_blocks=draft_blocks,
                draft_block_size=draft_block_size,
                prefix_runs=tuple(prefix_runs),
            )
        )

    @property
    def running(self) -> list[int]:
        """Requests that are in."""
        states = self.state.requests["state"]
        return [int(n) for n in ((states == PREFILLING) | (states == DECODING)).nonzero()[0]]

    @property
    def free_blocks(self) -> int:
        """Of the target's pool."""
        return int(self.state.replicas[0]["free_blocks"])

    @property
    def draft_free_blocks(self) -> int:
        """Of the draft's own pool."""
        return int(self.state.replicas[0]["draft_free_blocks"])

    def enter(
        self,
        request: int,
        prompt_tokens: int,
        *,
        max_tokens: int = UNBOUNDED_TOKENS,
        prefix: tuple[int, int] = (0, 0),
    ) -> int:
        """A request comes in; returns the prompt tokens whose KV was found in the cache.

        `prefix`: its first and last + 1 row of the prefix runs. After a preemption it reads the
        tokens it had emitted as well.
        """
        row = self.state.requests[request]
        row.prompt_tokens = prompt_tokens
        row.output_tokens = row.max_tokens = max_tokens
        row.prefix_begin, row.prefix_end = prefix
        tokens = prompt_tokens + max(int(row.emitted_tokens) - 1, 0)
        return accounts.enter(as_state(self.state), 0, request, tokens)

    def reserve_prefill(self, request: int, chunk_tokens: int) -> bool:
        """Hold blocks for the next `chunk_tokens` of its prompt; False where some are missing."""
        return accounts.reserve_step(as_state(self.state), 0, request, 0, chunk_tokens)

    def reserve_cycle(self, request: int, mode: int) -> bool:
        """Hold blocks for a cycle of draft mode `mode`; False where some are missing."""
        return accounts.reserve_step(as_state(self.state), 0, request, mode, 0)

    def commit(self, request: int, verified: int = 0, accepted: int = 0) -> int:
        """Commit the step; returns the tokens that it emitted, cut at the output's end."""
        return accounts.commit_step(as_state(self.state), 0, request, verified, accepted, 0.0)

    def end_output(self, request: int, output_tokens: int) -> None:
        """The output is known to end here: EOS or a stop string was among the accepted tokens."""
        self.state.requests[request].output_tokens = output_tokens

    def abandon(self, request: int) -> None:
        """The step failed: only what was committed before it counts."""
        accounts.abandon_step(as_state(self.state), 0, request)

    def preempt(self, request: int) -> None:
        """All its blocks return; it may enter again and reads its text anew."""
        accounts.give_back(as_state(self.state), 0, request)
        self.state.requests[request].num_preemptions += 1
        self.state.requests[request].state = PENDING

    def leave(self, request: int) -> None:
        """The request is done; all its blocks return."""
        accounts.give_back(as_state(self.state), 0, request)
        self.state.requests[request].state = FINISHED

    def committed_tokens(self, request: int) -> int:
        """Tokens whose KV counts: prompt + emitted - 1 between cycles."""
        return int(self.state.requests[request]["committed_tokens"])

    def draft_committed_tokens(self, request: int) -> int:
        """The same of the draft; less while the draft lags."""
        return int(self.state.requests[request]["draft_committed_tokens"])

    def prefill_left_tokens(self, request: int) -> int:
        """Prompt tokens still to read."""
        return int(self.state.requests[request]["prefill_left_tokens"])
