"""The ledger by name: what a cycle reserves and keeps, in both pools (DESIGN section 5)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcore.serving.accounts import (
    abandon_step,
    as_state,
    commit_step,
    enter,
    give_back,
    new_accounts,
    reserve_step,
)
from simcore.serving.state import DECODING

POOL = 200
GAMMA = 4


def decoding(prompt_tokens=10, block_size=1, gamma=GAMMA, **options):
    """Accounts with request 0 just prefilled, and the same as the functions take them."""
    accounts = new_accounts(
        2,
        POOL,
        block_size,
        modes=((gamma, gamma, gamma, 0),),
        draft_blocks=POOL,
        draft_block_size=block_size,
        **options,
    )
    state = as_state(accounts)
    accounts.requests[0].output_tokens = 1000
    assert enter(state, 0, 0, prompt_tokens) == 0
    assert reserve_step(state, 0, 0, 0, prompt_tokens)
    assert commit_step(state, 0, 0, 0, 0, 0.0) == 1
    assert accounts.requests[0].state == DECODING
    return accounts, state


def used(accounts) -> tuple[int, int]:
    replica = accounts.replicas[0]
    return POOL - int(replica["free_blocks"]), POOL - int(replica["draft_free_blocks"])


@given(accepted=st.lists(st.integers(0, GAMMA), min_size=1, max_size=12))
def test_a_cycle_reserves_root_and_drafts_and_keeps_what_was_accepted(accepted):
    accounts, state = decoding()
    committed, lag = 10, 0
    assert used(accounts) == (10, 10)
    for count in accepted:
        assert reserve_step(state, 0, 0, 1, 0)
        assert used(accounts) == (committed + 1 + GAMMA, committed - lag + GAMMA + lag)
        assert commit_step(state, 0, 0, GAMMA, count, 0.0) == count + 1
        draft = committed - lag + lag + 1 + min(count, GAMMA - 1)
        committed += 1 + count
        lag = committed - draft
        assert lag == (1 if count == GAMMA else 0)
        assert used(accounts) == (committed, draft)


def test_window_slots_are_reserved_beyond_the_drafts():
    accounts, state = decoding(lookahead_tokens=6)
    assert reserve_step(state, 0, 0, 1, 0)
    assert used(accounts)[0] == 10 + 1 + GAMMA + 6


def test_all_pools_are_reserved_or_none():
    accounts, state = decoding(gamma=3)
    accounts.replicas["draft_free_blocks"] = 2  # the target's pool has room for more
    before = used(accounts)
    assert not reserve_step(state, 0, 0, 1, 0)
    assert used(accounts) == before
    assert accounts.requests[0].step_tokens == 0


@pytest.mark.parametrize("block_size", [1, 4, 16])
def test_an_abandoned_step_goes_back_to_what_was_committed(block_size):
    accounts, state = decoding(block_size=block_size)
    before = used(accounts)
    assert reserve_step(state, 0, 0, 1, 0)
    abandon_step(state, 0, 0)
    assert used(accounts) == before
    give_back(state, 0, 0)
    assert used(accounts) == (0, 0)


def test_the_end_of_the_output_cuts_a_cycle():
    accounts, state = decoding()
    accounts.requests[0].output_tokens = 3
    assert reserve_step(state, 0, 0, 1, 0)
    assert commit_step(state, 0, 0, GAMMA, 4, 0.0) == 2
    assert accounts.requests[0].committed_tokens == 12


def test_a_known_prefix_is_held_and_not_computed():
    accounts, state = decoding(block_size=4, prefix_runs=((0, 2),))
    accounts.requests[1].prefix_end = 1
    assert enter(state, 0, 1, 11) == 0  # nobody with this prefix has been here
    assert reserve_step(state, 0, 1, 0, 11)
    commit_step(state, 0, 1, 0, 0, 0.0)
    give_back(state, 0, 1)
    assert enter(state, 0, 1, 11) == 8
    assert accounts.requests[1].shared_blocks == 2
