"""The laws of docs/background/invariants.md; the only place where each is asserted."""

import math

import numpy as np

from simcore import Scenario, StoredProfile, simulate
from simcore.serving.engine import run_until
from simcore.serving.ledger import draft_covered_tokens as inner_draft_covered_tokens
from simcore.serving.one_step import has_work, next_times_s
from simcore.serving.reservation import covered_tokens as inner_covered_tokens
from simcore.serving.setup import can_fail, new_state
from simcore.serving.simulation import SimulationResult
from simcore.serving.state import (
    CANCELLED,
    DECODING,
    FAILED,
    FINISHED,
    PENDING,
    PREFILLING,
    REJECTED,
    WAITING,
    State,
)
from tests.from_python import from_python

covered_tokens = from_python(inner_covered_tokens)
draft_covered_tokens = from_python(inner_draft_covered_tokens)

LEGAL = {
    PENDING: {PENDING, WAITING, PREFILLING, DECODING, FINISHED, REJECTED, FAILED, CANCELLED},
    WAITING: {WAITING, PREFILLING, DECODING, FINISHED, FAILED, CANCELLED},
    PREFILLING: {PREFILLING, WAITING, DECODING, FINISHED, FAILED, CANCELLED},
    DECODING: {DECODING, WAITING, PREFILLING, FINISHED, FAILED, CANCELLED},
    FINISHED: {FINISHED},
    REJECTED: {REJECTED},
    FAILED: {FAILED},
    CANCELLED: {CANCELLED},
}


def blocks_for(tokens: int, block_size: int) -> int:
    """Blocks that hold this many tokens."""
    return -(-tokens // block_size)


def check_result(result: SimulationResult) -> None:
    """Every law that the records of a finished run can show."""
    requests, steps = result.request_records, result.step_records
    _every_request_ends_in_one_bucket(requests)
    _clock_never_goes_back(steps)
    _steps_last_as_long_as_their_phases(steps)
    _all_blocks_return(result)
    _times_are_ordered(requests)
    _tokens_balance(requests, steps)
    _drafts_are_nested(requests, steps)
    if not can_fail(result.scenario.deployment):  # with failures: check_while_running
        _no_replica_idles_with_work(requests, steps)


def check_every_mode(scenario: Scenario, stored: StoredProfile) -> None:
    """The laws after a run and after every event; both modes of execution give one result."""
    bulk = simulate(scenario, stored=stored)
    check_result(bulk)
    stepwise = simulate(scenario, stored=stored, stepwise=True)
    for name in (
        "request_records",
        "step_records",
        "change_records",
        "gap_counts",
        "accepted_histogram",
    ):
        assert np.array_equal(getattr(bulk, name), getattr(stepwise, name)), name
    check_while_running(new_state(scenario, stored).state)


def _every_request_ends_in_one_bucket(requests):  # law 1
    assert set(np.unique(requests["state"])) <= {FINISHED, REJECTED, FAILED, CANCELLED}


def _clock_never_goes_back(steps):  # law 3
    assert (steps["end_s"] > steps["begin_s"]).all()
    for index in np.unique(steps["replica"]):
        own = steps[steps["replica"] == index]
        assert (own["begin_s"][1:] >= own["end_s"][:-1]).all()


def _steps_last_as_long_as_their_phases(steps):  # law 3, also of steps that a failure cut short
    phases_s = sum(steps[name] for name in ("propose_s", "target_s", "reconcile_s", "overhead_s"))
    assert np.allclose(steps["end_s"] - steps["begin_s"], phases_s, rtol=1e-9, atol=1e-12)
    broken = steps[steps["is_aborted"] == 1]
    assert not broken["emitted_tokens"].any()
    assert not broken["accepted_tokens"].any()


def _all_blocks_return(result):  # law 4, at the end
    replicas = result.replica_records
    for name in ("num_running", "num_decoding", "num_waiting", "outstanding_tokens"):
        assert (replicas[name] == 0).all(), name
    for name in ("promised_blocks", "promised_draft_blocks"):
        assert (replicas[name] == 0).all(), name
    assert (replicas["free_blocks"] == replicas["total_blocks"]).all()
    assert (replicas["draft_free_blocks"] == replicas["draft_total_blocks"]).all()
    assert (replicas["peak_used_blocks"] <= replicas["total_blocks"]).all()
    assert (result.step_records["used_blocks"] <= replicas["total_blocks"].max()).all()
    assert (result.request_records["held_blocks"] == 0).all()
    assert (result.request_records["draft_held_blocks"] == 0).all()


def _times_are_ordered(requests):  # law 6
    done = requests[requests["state"] == FINISHED]
    assert (done["arrival_s"] <= done["scheduled_s"]).all()
    assert (done["scheduled_s"] <= done["first_token_s"]).all()
    assert (done["first_token_s"] <= done["finish_s"]).all()


def _tokens_balance(requests, steps):  # law 7
    done = requests[requests["state"] == FINISHED]
    assert (done["emitted_tokens"] == done["output_tokens"]).all()
    parts = done["accepted_tokens"] + done["corrected_tokens"] + done["bonus_tokens"]
    assert (parts == done["output_tokens"] - 1).all()
    assert steps["emitted_tokens"].sum() == requests["emitted_tokens"].sum()


def _drafts_are_nested(requests, steps):  # law 8
    for records in (requests, steps):
        assert (records["accepted_tokens"] >= 0).all()
        assert (records["accepted_tokens"] <= records["verified_tokens"]).all()
        assert (records["verified_tokens"] <= records["proposed_tokens"]).all()
        assert (records["proposed_tokens"] <= records["planned_tokens"]).all()


def _no_replica_idles_with_work(requests, steps):  # law 9
    for index in np.unique(steps["replica"]):
        own = steps[steps["replica"] == index]
        # Whoever was admitted ran until its end; a queued client may give up while others run.
        mine = requests[(requests["replica"] == index) & (requests["scheduled_s"] >= 0.0)]
        ends = np.concatenate([[-math.inf], own["end_s"][:-1]])
        for begin_s, end_s in zip(own["begin_s"], ends, strict=True):
            if begin_s > end_s:  # idle between the two: nobody may be there
                inside = (mine["arrival_s"] < begin_s) & (mine["finish_s"] > end_s)
                assert not inside.any()


def check_while_running(state: State) -> None:
    """Run event by event; laws 2, 4, 5 and 9 hold after every one."""
    before = state.requests["state"].copy()
    now_s = 0.0
    while state.cursor[0].num_ended < len(state.requests):
        moment_s = min(*next_times_s(state), *state.replicas["step_end_s"].tolist())
        assert now_s <= moment_s < math.inf
        now_s = moment_s
        state.cursor[0].num_steps = _keep_open_rows(state)
        run_until(state, now_s)
        after = state.requests["state"].copy()
        for old, new in zip(before, after, strict=True):
            assert int(new) in LEGAL[int(old)]
        before = after
        _ledger_balances(state)
        for index in range(len(state.replicas)):  # law 9
            assert state.replicas["is_busy"][index] or not has_work(state, index)


def _keep_open_rows(state: State) -> int:
    busy = np.flatnonzero(state.replicas["is_busy"])
    state.steps[: len(busy)] = state.steps[state.replicas["step_row"][busy]]
    state.replicas["step_row"][busy] = np.arange(len(busy))
    return len(busy)


def _ledger_balances(state: State) -> None:
    for index, replica in enumerate(state.replicas):
        own = state.requests[state.requests["replica"] == index]
        cached = state.prefixes[index, 1:]
        shared = int((cached["num_holders"] > 0).sum())  # a shared block is counted once
        alone = own["held_blocks"].sum() - own["shared_blocks"].sum()
        assert alone + shared + replica["free_blocks"] == replica["total_blocks"]
        assert 0 <= replica["free_blocks"] <= replica["total_blocks"]
        assert cached["num_holders"].sum() == own["shared_blocks"].sum()
        running = np.isin(own["state"], [PREFILLING, DECODING])
        for name in ("held_blocks", "shared_blocks", "draft_held_blocks"):
            assert (own[name][~running] == 0).all()
        assert running.sum() == replica["num_running"] <= state.limits.max_num_seqs
        if state.limits.caches_prefixes:
            _free_queue_holds_every_free_block(state, index)
            _cached_blocks_know_their_holders(state, index)
        _draft_pool_balances(state, index)
        for request in np.flatnonzero(state.requests["replica"] == index):
            _holds_what_it_may(state, int(request), bool(replica["is_busy"]))


def _free_queue_holds_every_free_block(state: State, index: int) -> None:  # law 4
    entries = state.prefixes[index]
    number, idle = int(entries[0]["after"]), 0
    while number != 0:
        assert entries[number]["is_cached"]
        assert entries[number]["num_holders"] == 0
        assert entries[entries[number]["after"]]["before"] == number
        number, idle = int(entries[number]["after"]), idle + 1
    unheld = (entries[1:]["num_holders"] == 0) & (entries[1:]["is_cached"] == 1)
    assert idle == unheld.sum()
    assert idle + entries["gap"].sum() == state.replicas[index]["free_blocks"]


def _cached_blocks_know_their_holders(state: State, index: int) -> None:  # law 4
    holders = np.zeros(state.prefixes.shape[1] - 1, dtype=np.int64)
    for row in state.requests[state.requests["replica"] == index]:
        shared = int(row["shared_blocks"])
        if shared == 0:
            continue
        runs = state.prefix_runs[row["prefix_begin"] : row["prefix_end"]]
        contents = np.concatenate([first + np.arange(count) for first, count in runs])[:shared]
        assert len(contents) == shared
        np.add.at(holders, contents, 1)
        # Only what was computed in full, in every pool, is another's to find.
        tokens = int(row["committed_tokens"])
        if state.limits.draft_block_size > 0:
            tokens = min(tokens, int(row["draft_committed_tokens"]))
        assert shared * state.limits.block_size <= tokens
    cached = state.prefixes[index, 1:]
    assert np.array_equal(cached["num_holders"], holders)
    assert (cached["is_cached"][holders > 0] == 1).all()


def _draft_pool_balances(state: State, index: int) -> None:  # law 4, its own namespace
    replica, size = state.replicas[index], int(state.limits.draft_block_size)
    own = state.requests[state.requests["replica"] == index]
    if size == 0:
        assert (own["draft_held_blocks"] == 0).all()
        return
    shared = int((state.prefixes[index, 1:]["num_holders"] > 0).sum())
    alone = own["draft_held_blocks"].sum() - own["shared_blocks"].sum()
    assert alone + shared + replica["draft_free_blocks"] == replica["draft_total_blocks"]
    assert replica["draft_free_blocks"] >= 0
    for request in np.flatnonzero(state.requests["replica"] == index):
        row = state.requests[request]
        if row["state"] not in (PREFILLING, DECODING):
            continue
        assert row["draft_committed_tokens"] <= row["committed_tokens"]
        needed = int(row["draft_committed_tokens"])
        if replica["is_busy"]:
            needed = draft_covered_tokens(state, int(request))
        kept = max(blocks_for(needed, size), int(row["shared_blocks"]))
        assert row["draft_held_blocks"] == kept  # law 5, its own namespace


def _holds_what_it_may(state: State, request: int, in_step: bool) -> None:  # law 5
    row, limits = state.requests[request], state.limits
    if row["state"] not in (PREFILLING, DECODING):
        return
    least = covered_tokens(state, request) if in_step else int(row["committed_tokens"])
    held = int(row["held_blocks"])
    if in_step and row["state"] == DECODING and row["step_tokens"] > 0:  # root and candidates
        written = 1 + int(state.modes[row["step_mode"]]["verified_tokens"])
        assert held * limits.block_size >= int(row["committed_tokens"]) + written
    if limits.slot_blocks > 0:
        assert held == limits.slot_blocks >= blocks_for(least, limits.block_size)
    elif limits.kept_tokens == 0:
        assert held == blocks_for(least, limits.block_size)
    else:  # what the engine retains comes on top, and no more than it ever reserved
        step = 1 + limits.most_verified_tokens + limits.lookahead_tokens
        most = int(row["committed_tokens"]) + max(step, limits.headroom_tokens)
        if row["state"] == PREFILLING:
            most = max(least, int(row["committed_tokens"]))
        assert blocks_for(least, limits.block_size) <= held
        assert held <= blocks_for(most, limits.block_size)
