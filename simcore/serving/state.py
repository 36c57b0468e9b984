"""Everything a running service knows, as plain arrays that compiled code can touch.

Structured arrays are rows of named numbers: `requests[i].emitted_tokens` reads the same in
compiled code as in Python, and a column becomes a data frame column as it is.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simcore.acceptance.model import CycleTables
from simcore.cost.price import LawTables
from simcore.records import Record, Records
from simcore.serving.policy_tables import PolicyTables

# States of a request. Legal changes: docs/invariants.md, law 2.
PENDING, WAITING, PREFILLING, DECODING, FINISHED, REJECTED, FAILED, CANCELLED = range(8)
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

# Why a request was rejected or failed.
REASON_NAMES = ("", "prompt can never fit", "queue full", "outgrew the memory", "gave up")
_, NEVER_FITS, QUEUE_FULL, OUTGREW_MEMORY, GAVE_UP = range(len(REASON_NAMES))

# A zero that is a number to numba: passed as a literal it compiles the function called once more.
NOTHING: Any = np.int64(0)

NONE = -1  # no request, at the ends of the waiting list

REQUEST_DTYPE = np.dtype(
    [
        ("arrival_s", "f8"),
        ("scheduled_s", "f8"),
        ("first_token_s", "f8"),
        ("finish_s", "f8"),
        ("last_emission_s", "f8"),
        ("max_gap_s", "f8"),
        ("prompt_tokens", "i8"),
        ("output_tokens", "i8"),
        ("max_tokens", "i8"),
        ("emitted_tokens", "i8"),
        ("domain", "i8"),
        ("replica", "i8"),
        ("state", "i8"),
        ("reason", "i8"),
        ("gives_up_s", "f8"),  # when its client stops waiting; inf: never
        ("is_cancelled", "i8"),  # inside a step, until it commits
        ("num_cycles", "i8"),
        ("planned_tokens", "i8"),
        ("proposed_tokens", "i8"),
        ("accepted_tokens", "i8"),
        ("corrected_tokens", "i8"),
        ("bonus_tokens", "i8"),
        ("cut_tokens", "i8"),
        ("stitched_tokens", "i8"),
        ("num_preemptions", "i8"),
        # KV of the target: tokens computed, blocks held, prefill still to do
        ("committed_tokens", "i8"),
        ("held_blocks", "i8"),
        ("prefill_left_tokens", "i8"),
        # replay: the recorded request in use, where it began, how many came before
        ("trace", "i8"),
        ("segment_start", "i8"),
        ("segment", "i8"),
        ("can_speculate", "i8"),
        ("draft_lag_tokens", "i8"),  # emitted without drafts since the last: no draft KV yet
        # the step under way
        ("step_tokens", "i8"),
        ("step_gamma", "i8"),
        ("step_proposed", "i8"),
        ("step_accepted", "i8"),
        ("next_waiting", "i8"),
    ]
)

REPLICA_DTYPE = np.dtype(
    [
        ("total_blocks", "i8"),
        ("free_blocks", "i8"),
        ("peak_used_blocks", "i8"),
        ("promised_blocks", "i8"),
        ("outstanding_tokens", "i8"),  # prompts and outputs so far of all that are in the system
        ("num_running", "i8"),
        ("num_decoding", "i8"),
        ("num_waiting", "i8"),
        ("waiting_head", "i8"),
        ("waiting_tail", "i8"),
        ("is_busy", "i8"),
        ("step_row", "i8"),
        ("step_end_s", "f8"),
        # the policy: draft length in force, steps since it changed, what it has learnt
        ("gamma", "i8"),
        ("last_scheduled", "i8"),
        ("policy_age", "i8"),
        ("policy_seen", "i8"),
        ("policy_decided", "i8"),  # policy_seen when it last looked
        ("policy_mean", "f8"),
        ("gate_proposed", "i8"),
        ("gate_accepted", "i8"),
    ]
)

STEP_DTYPE = np.dtype(
    [
        ("replica", "i8"),
        ("begin_s", "f8"),
        ("end_s", "f8"),
        ("propose_s", "f8"),
        ("target_s", "f8"),
        ("reconcile_s", "f8"),
        ("overhead_s", "f8"),
        ("num_running", "i8"),
        ("num_waiting", "i8"),
        ("num_decoding", "i8"),
        ("gamma", "i8"),
        ("query_tokens", "i8"),
        ("prefill_tokens", "i8"),
        ("padded_tokens", "i8"),
        ("planned_tokens", "i8"),
        ("proposed_tokens", "i8"),
        ("accepted_tokens", "i8"),
        ("emitted_tokens", "i8"),
        ("context_tokens", "i8"),
        ("used_blocks", "i8"),
        ("num_preemptions", "i8"),
        ("is_extrapolated", "i8"),
    ]
)

CHANGE_DTYPE = np.dtype(
    [
        ("time_s", "f8"),
        ("replica", "i8"),
        ("from_tokens", "i8"),
        ("to_tokens", "i8"),
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
        # the longest draft that may be in force, and its candidates m: the nodes of a tree
        ("gamma", "i8"),
        ("num_draft_tokens", "i8"),
        # the engine's rules (simcore/engines.py): tokens reserved beyond root and drafts, or beyond
        # the committed ones in place of them; kept after a step; blocks of a seat of its own
        ("lookahead_tokens", "i8"),
        ("headroom_tokens", "i8"),
        ("kept_tokens", "i8"),
        ("slot_blocks", "i8"),
        ("prefills_apart", "i8"),
        ("retracts_youngest", "i8"),
        ("admits_whole_life", "i8"),
        ("pads_drafts", "i8"),
        ("routes_by_load", "i8"),
        ("first_counted", "i8"),  # the first request after the warm-up
    ]
)

CURSOR_DTYPE = np.dtype(
    [
        ("num_steps", "i8"),
        ("num_changes", "i8"),
        ("next_arrival", "i8"),
        ("next_deadline", "i8"),
        ("next_replica", "i8"),
        ("num_ended", "i8"),
    ]
)


class State(NamedTuple):
    """One service: its requests in order of arrival, its replicas, its records."""

    requests: Records  # [num_requests]
    replicas: Records  # [num_replicas]
    running: NDArray[np.int64]  # [num_replicas, max_num_seqs] in order of admission
    steps: Records  # [capacity]
    changes: Records  # [capacity] draft lengths put in force
    gate_window: NDArray[np.int64]  # [num_replicas, window, 2] proposed, accepted drafts of steps
    gap_counts: NDArray[np.int64]  # [NUM_GAP_BINS] emissions by gap since the one before
    accepted_counts: NDArray[np.int64]  # [γ_max + 1] cycles by accepted drafts, before the cut
    cursor: Record  # where the run stands
    limits: Record  # of the deployment and its engine, and the longest draft
    law: LawTables
    cycles: CycleTables
    policy: PolicyTables
    seed: np.uint64


def new_replicas(num_replicas: int, total_blocks: int, gamma: int) -> Records:
    """Idle replicas with every KV block free and this draft length in force."""
    replicas = np.zeros(num_replicas, dtype=REPLICA_DTYPE)
    replicas["total_blocks"] = total_blocks
    replicas["free_blocks"] = total_blocks
    replicas["waiting_head"] = NONE
    replicas["waiting_tail"] = NONE
    replicas["step_end_s"] = np.inf
    replicas["gamma"] = gamma
    return replicas


def gap_bin_edges_s() -> NDArray[np.float64]:
    """Lower edges of the gap bins [NUM_GAP_BINS + 1]."""
    return np.asarray(GAP_MIN_S * GAP_BIN_RATIO ** np.arange(NUM_GAP_BINS + 1))
