"""Everything a running service knows, as plain arrays that compiled code can touch.

Structured arrays are rows of named numbers: `requests[i].emitted_tokens` reads the same in
compiled code as in Python, and a column becomes a data frame column as it is.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simcore.acceptance.model import CycleTables
from simcore.by_pointer import by_pointer
from simcore.cost.price import LawTables
from simcore.records import Record, Records, codes
from simcore.serving.policy_tables import PolicyTables

# States of a request. Legal changes: docs/background/invariants.md, law 2.
PENDING, WAITING, PREFILLING, DECODING, FINISHED, REJECTED, FAILED, CANCELLED = codes(8)
STATE_NAMES = (
    "pending",
    "waiting",
    "prefilling",
    "decoding",
    "finished",
    "rejected",
    "failed",
    "cancelled",
)

# Why a request was rejected, failed or was cancelled.
REASON_NAMES = (
    "",
    "prompt can never fit",
    "queue full",
    "outgrew the memory",
    "gave up",
    "replica failed",
    "session ended",
    "prompt and max_tokens can never fit",
)
(
    _,
    NEVER_FITS,
    QUEUE_FULL,
    OUTGREW_MEMORY,
    GAVE_UP,
    REPLICA_FAILED,
    SESSION_ENDED,
    LIFE_NEVER_FITS,
) = codes(len(REASON_NAMES))

NOTHING, ONE = codes(2)

# How an arrival finds its replica.
IN_TURN, BY_LOAD, BY_SESSION = range(3)

NONE = -1  # no request, at the ends of the waiting list

REQUEST_DTYPE = np.dtype(
    [
        ("arrival_s", "f8"),
        ("scheduled_s", "f8"),
        ("first_token_s", "f8"),
        ("finish_s", "f8"),
        ("last_emission_s", "f8"),
        ("max_gap_s", "f8"),
        ("prompt_tokens", "i4"),
        ("output_tokens", "i4"),
        ("max_tokens", "i4"),
        ("emitted_tokens", "i4"),
        ("domain", "i4"),
        ("replica", "i4"),
        ("state", "i4"),
        ("reason", "i4"),
        ("gives_up_s", "f8"),  # when its client stops waiting; inf: never
        ("is_cancelled", "i4"),  # inside a step, until it commits
        ("is_counted", "i4"),  # came after the warm-up
        ("num_cycles", "i4"),
        ("planned_tokens", "i4"),
        ("proposed_tokens", "i4"),
        ("verified_tokens", "i4"),
        ("accepted_tokens", "i4"),
        ("corrected_tokens", "i4"),
        ("bonus_tokens", "i4"),
        ("cut_tokens", "i4"),
        ("stitched_tokens", "i4"),
        ("num_preemptions", "i4"),
        ("num_restarts", "i4"),  # after a failure of its replica
        ("cached_tokens", "i4"),  # of its prefills, found in the prefix cache
        ("level", "i4"),  # priority class: lower goes first
        # the next turn of its session, or question of its client, which comes `think_s` after this
        # ends; of a closed loop both are known once the client asks
        ("session", "i4"),
        ("follower", "i4"),
        ("think_s", "f8"),
        # KV of the target: tokens computed, blocks held (the first of them shared), prefill to do
        ("committed_tokens", "i4"),
        ("held_blocks", "i4"),
        ("shared_blocks", "i4"),
        ("prefill_left_tokens", "i4"),
        # KV of a draft with a pool of its own
        ("draft_committed_tokens", "i4"),
        ("draft_held_blocks", "i4"),
        # what the prompt, and the session after it, share with others: rows of prefix_runs
        ("prefix_begin", "i4"),
        ("prefix_end", "i4"),
        # replay: the recorded request in use, where it began, how many came before
        ("trace", "i4"),
        ("segment_start", "i4"),
        ("segment", "i4"),
        ("can_speculate", "i4"),
        # emitted since the own proposer last drafted: it has no KV of them yet
        ("draft_lag_tokens", "i4"),
        # the step under way
        ("step_tokens", "i4"),
        ("step_mode", "i4"),
        ("step_most", "i4"),  # drafts that the policy has verified, of those proposed
        ("step_proposed", "i4"),
        ("step_verified", "i4"),
        ("step_accepted", "i4"),
        ("confidence_row", "i4"),  # recorded row of the last drafts; NONE before the first
        ("next_waiting", "i4"),
    ]
)

REPLICA_DTYPE = np.dtype(
    [
        ("total_blocks", "i8"),
        ("free_blocks", "i8"),
        ("peak_used_blocks", "i8"),
        ("promised_blocks", "i8"),
        ("promised_draft_blocks", "i8"),
        ("draft_total_blocks", "i8"),
        ("draft_free_blocks", "i8"),
        ("draft_peak_used_blocks", "i8"),
        ("peak_scored_tokens", "i8"),  # whose logits one step held
        ("outstanding_tokens", "i8"),  # prompts and outputs so far of all that are in the system
        ("num_running", "i8"),
        ("num_decoding", "i8"),
        ("num_waiting", "i8"),
        ("is_busy", "i8"),
        ("is_down", "i8"),
        ("fault_s", "f8"),  # when it fails, or is back; inf: never
        ("num_faults", "i8"),
        ("down_since_s", "f8"),
        ("down_s", "f8"),  # in all, up to its last return
        ("step_row", "i8"),
        ("step_end_s", "f8"),
        ("now_s", "f8"),  # when it last began to plan a step
        # the policy: draft mode in force, steps since it changed, what it has learnt
        ("mode", "i8"),
        ("last_scheduled", "i8"),
        ("policy_age", "i8"),
        ("policy_seen", "i8"),
        ("policy_decided", "i8"),  # policy_seen when it last looked
        ("policy_mean", "f8"),
        ("gate_proposed", "i8"),
        ("gate_accepted", "i8"),
    ]
)

QUEUE_DTYPE = np.dtype([("head", "i8"), ("tail", "i8")])  # of waiting requests; head NONE: empty

# Narrow numbers: a long run keeps millions of steps.
STEP_DTYPE = np.dtype(
    [
        ("replica", "i4"),
        ("begin_s", "f8"),
        ("end_s", "f8"),
        ("propose_s", "f8"),
        ("target_s", "f8"),
        ("reconcile_s", "f8"),
        ("overhead_s", "f8"),
        ("num_running", "i4"),
        ("num_waiting", "i4"),
        ("num_decoding", "i4"),
        ("gamma", "i4"),
        ("query_tokens", "i4"),
        ("prefill_tokens", "i4"),
        ("padded_tokens", "i4"),
        ("planned_tokens", "i4"),
        ("proposed_tokens", "i4"),
        ("verified_tokens", "i4"),
        ("accepted_tokens", "i4"),
        ("emitted_tokens", "i4"),
        ("context_tokens", "i8"),
        ("used_blocks", "i4"),
        ("used_draft_blocks", "i4"),  # of a draft pool of its own
        ("num_preemptions", "i4"),
        ("is_extrapolated", "i4"),
        ("is_aborted", "i4"),  # its replica failed in it
    ]
)

CHANGE_DTYPE = np.dtype(
    [
        ("time_s", "f8"),
        ("replica", "i8"),
        ("from_mode", "i8"),
        ("to_mode", "i8"),
        ("reason", "i8"),
        ("num_running", "i8"),
        ("free_blocks", "i8"),
        ("acceptance", "f8"),
    ]
)

# Gaps between emissions are counted in bins 1 % wide, from 1 µs to 10,000 s.
GAP_MIN_S = 1e-6
GAP_BIN_RATIO = 1.01
NUM_GAP_BINS = 2316


LIMITS_DTYPE = np.dtype(
    [
        ("block_size", "i8"),
        ("max_num_seqs", "i8"),
        ("max_num_batched_tokens", "i8"),
        ("max_queue", "i8"),
        ("mode", "i8"),  # the full draft
        ("initial_mode", "i8"),
        ("most_verified_tokens", "i8"),  # of any mode
        ("most_proposed_tokens", "i8"),
        # the engine's rules (simcore/engines.py): tokens reserved beyond root and drafts, or beyond
        # the committed ones in place of them; kept after a step; blocks of a seat of its own
        ("lookahead_tokens", "i8"),
        ("charged_tokens", "i8"),  # of a step's budget for each decode, beyond root and drafts
        ("headroom_tokens", "i8"),
        ("kept_tokens", "i8"),
        ("slot_blocks", "i8"),
        ("prefills_apart", "i8"),
        ("retracts_youngest", "i8"),
        ("admits_whole_life", "i8"),
        ("pads_drafts", "i8"),
        ("shortens_last_drafts", "i8"),
        ("routing", "i8"),
        ("num_uncounted", "i8"),  # first arrivals, which no latency counts
        ("num_open", "i8"),  # requests that come by themselves; those behind them follow one
        ("is_closed_loop", "i8"),  # whoever gets an answer asks the next request that is left
        ("patience_s", "f8"),
        ("is_prioritised", "i8"),
        ("watermark_blocks", "i8"),
        ("caches_prefixes", "i8"),
        ("drops_last_hit", "i8"),
        ("draft_block_size", "i8"),  # 0: draft KV lies in the target's blocks, or there is none
        # failures drawn at random: means of the time up and down; 0: only those listed
        ("mean_up_s", "f8"),
        ("mean_down_s", "f8"),
        ("most_restarts", "i8"),  # of a request; beyond, it fails
    ]
)

MODE_DTYPE = np.dtype(
    [
        ("depth", "i8"),  # serial draft passes, and the most that one cycle accepts
        ("verified_tokens", "i8"),  # m: candidates that the target scores
        ("proposed_tokens", "i8"),  # candidates that the proposer makes
        ("scheme", "i8"),  # row of the acceptance and propose-cost tables
        ("is_own", "i8"),  # drafted by the scenario's own proposer, which then keeps up
        ("writes_kv", "i8"),  # by a proposer with KV
    ]
)
FAULT_DTYPE = np.dtype([("replica", "i8"), ("at_s", "f8"), ("until_s", "f8")])

# An entry of the prefix cache: one block's content. Those that nobody holds stand in the queue of
# free blocks, oldest first, with `gap` blocks of no known content right behind each.
PREFIX_DTYPE = np.dtype(
    [
        ("num_holders", "i4"),
        ("is_cached", "i4"),
        ("before", "i4"),
        ("after", "i4"),
        ("gap", "i8"),  # as many as there are blocks
    ]
)

CURSOR_DTYPE = np.dtype(
    [
        ("num_steps", "i8"),
        ("num_changes", "i8"),
        ("next_arrival", "i8"),  # of those that come by themselves
        ("num_due", "i8"),
        ("num_arrived", "i8"),
        ("next_deadline", "i8"),  # of those that arrived
        ("num_asked", "i8"),  # of a closed loop, by clients who had an answer
        ("next_replica", "i8"),
        ("num_ended", "i8"),
    ]
)


@by_pointer
class State(NamedTuple):
    """One service: its requests, its replicas, its records."""

    requests: Records  # [num_requests] first those that come by themselves, in order of arrival
    replicas: Records  # [num_replicas]
    running: NDArray[np.int64]  # [num_replicas, max_num_seqs] in order of admission
    queues: Records  # [num_replicas, num_levels] of waiting requests
    arrived: NDArray[np.int64]  # [num_requests] in order of arrival
    due: NDArray[np.int64]  # [num_requests - num_open] heap of followers on their way
    steps: Records  # [capacity]
    changes: Records  # [capacity] draft modes put in force
    modes: Records  # [num_modes] ways to draft, 0: off
    faults: Records  # [num_faults] listed failures, in order
    prefix_runs: NDArray[np.int64]  # [num_runs, 2] first block content and how many follow it
    prefixes: Records  # [num_replicas, 1 + contents] cached blocks; entry 0: the queue's head
    gate_window: NDArray[np.int64]  # [num_replicas, window, 2] proposed, accepted drafts of steps
    survivals: NDArray[np.float64]  # [max_num_seqs · γ_max] room for adaptive verification
    gap_counts: NDArray[np.int64]  # [NUM_GAP_BINS] emissions by gap since the one before
    accepted_histogram: NDArray[np.int32]  # [num_requests, γ_max + 1] cycles by accepted drafts
    cursor: Records  # [1] where the run stands
    limits: Record  # of the deployment and its engine
    law: LawTables
    cycles: CycleTables
    policy: PolicyTables
    seed: np.uint64


def new_replicas(num_replicas: int, total_blocks: int, draft_blocks: int, mode: int) -> Records:
    """Idle replicas with every KV block free and this draft mode in force."""
    replicas = np.zeros(num_replicas, dtype=REPLICA_DTYPE)
    replicas["total_blocks"] = replicas["free_blocks"] = total_blocks
    replicas["draft_total_blocks"] = replicas["draft_free_blocks"] = draft_blocks
    replicas["step_end_s"] = np.inf
    replicas["fault_s"] = np.inf
    replicas["mode"] = mode
    return replicas


def gap_bin_edges_s() -> NDArray[np.float64]:
    """Lower edges of the gap bins [NUM_GAP_BINS + 1]."""
    return np.asarray(GAP_MIN_S * GAP_BIN_RATIO ** np.arange(NUM_GAP_BINS + 1))
