"""A scenario's policy as plain numbers for the step kernel."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simcore.by_pointer import by_pointer
from simcore.records import Record, new_record
from simcore.speculation import (
    AcceptanceGate,
    AdaptiveEMA,
    AdaptiveVerification,
    BatchSizeTable,
    GoodputPolicy,
    MemoryPressure,
    Oracle,
    Policy,
    Speculation,
)

(
    FIXED,
    BATCH_TABLE,
    ADAPTIVE_EMA,
    ACCEPTANCE_GATE,
    GOODPUT,
    MEMORY_PRESSURE,
    ORACLE,
    ADAPTIVE_VERIFICATION,
) = range(8)

RULE_DTYPE = np.dtype(
    [
        ("kind", "i8"),
        ("update_interval", "i8"),
        ("warmup_steps", "i8"),
        ("probe_interval", "i8"),
        ("window_steps", "i8"),
        ("ema_alpha", "f8"),
        # hysteresis upwards (goodput: the gain that a change must exceed) and downwards
        ("up", "f8"),
        ("down", "f8"),
        ("threshold", "f8"),
    ]
)


@by_pointer
class PolicyTables(NamedTuple):
    """A policy as plain numbers; fields that a kind does not use are empty or zero."""

    rule: Record  # RULE_DTYPE
    candidates: NDArray[np.int64]
    # [num_rows, 3] batch sizes first, last, and draft length; adaptive EMA: first batch size, and
    # which candidates hold from there on
    table: NDArray[np.int64]
    rungs: NDArray[np.float64]  # [num_rungs, 2] of the memory ladder: free share below, draft mode
    expected_tokens: NDArray[np.float64]  # [γ_max + 1] E[Y] by draft length
    expected_drafts: NDArray[np.float64]  # [γ_max + 1] proposed drafts a cycle


def policy_tables(
    speculation: Speculation,
    expected_tokens: NDArray[np.float64],
    expected_drafts: NDArray[np.float64],
) -> PolicyTables:
    """The numbers of a scenario's policy; `expected_*` by draft length, from the profile."""
    policy = speculation.policy
    rows: list[tuple[int, int, int]] = []
    candidates: list[int] = list(speculation.draft_lengths())
    if isinstance(policy, BatchSizeTable):
        rows = list(policy.table)
    elif isinstance(policy, AdaptiveEMA):
        candidates = []
        for batch_size, tier in policy.by_batch_size().items():
            rows.append((batch_size, len(candidates), len(candidates) + len(tier)))
            candidates += tier
    rungs = speculation.rungs() if isinstance(policy, MemoryPressure) else ()
    return PolicyTables(
        rule=new_record(RULE_DTYPE, **_rule(policy)),
        candidates=np.array(candidates, dtype=np.int64),
        table=np.array(rows, dtype=np.int64).reshape(-1, 3),
        rungs=np.array(rungs, dtype=np.float64).reshape(-1, 2),
        expected_tokens=expected_tokens,
        expected_drafts=expected_drafts,
    )


def _rule(policy: Policy) -> dict[str, float]:
    """The fields that this kind of policy uses."""
    settings: dict[str, float] = {}
    match policy:
        case BatchSizeTable():
            settings = {"kind": BATCH_TABLE}
        case AdaptiveEMA():
            settings = {
                "kind": ADAPTIVE_EMA,
                "ema_alpha": policy.ema_alpha,
                "update_interval": policy.update_interval,
                "warmup_steps": policy.warmup_steps,
                "probe_interval": policy.probe_interval,
                "up": policy.up_hysteresis,
                "down": policy.down_hysteresis,
            }
        case AcceptanceGate():
            settings = {
                "kind": ACCEPTANCE_GATE,
                "window_steps": policy.window_steps,
                "threshold": policy.threshold,
            }
        case GoodputPolicy():
            settings = {"kind": GOODPUT, "ema_alpha": policy.ema_alpha, "up": policy.hysteresis}
        case MemoryPressure():
            settings = {"kind": MEMORY_PRESSURE, "up": policy.hysteresis}
        case AdaptiveVerification():
            settings = {"kind": ADAPTIVE_VERIFICATION}
        case Oracle():
            settings = {"kind": ORACLE}
    return settings
