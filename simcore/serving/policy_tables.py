"""A scenario's policy as plain numbers for the step kernel."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simcore.speculation import (
    AcceptanceGate,
    AdaptiveEMA,
    BatchSizeTable,
    GoodputPolicy,
    MemoryPressure,
    Oracle,
    Policy,
    Speculation,
)

FIXED, BATCH_TABLE, ADAPTIVE_EMA, ACCEPTANCE_GATE, GOODPUT, MEMORY_PRESSURE, ORACLE = range(7)


class PolicyTables(NamedTuple):
    """A policy as plain numbers; fields that a kind does not use are empty or zero."""

    kind: int
    candidates: NDArray[np.int64]
    table: NDArray[np.int64]  # [num_rows, 3] first, last, draft length
    ema_alpha: float
    update_interval: int
    warmup_steps: int
    probe_interval: int
    up: float  # hysteresis upwards, or the goodput gain that a change must exceed
    down: float
    window_steps: int
    threshold: float
    off_below: float
    expected_tokens: NDArray[np.float64]  # [γ_max + 1] E[Y] by draft length
    expected_drafts: NDArray[np.float64]  # [γ_max + 1] proposed drafts a cycle


def policy_tables(
    speculation: Speculation,
    expected_tokens: NDArray[np.float64],
    expected_drafts: NDArray[np.float64],
) -> PolicyTables:
    """The numbers of a scenario's policy; `expected_*` by draft length, from the profile."""
    empty = PolicyTables(
        kind=FIXED,
        candidates=np.array(speculation.draft_lengths(), dtype=np.int64),
        table=np.zeros((0, 3), dtype=np.int64),
        ema_alpha=0.0,
        update_interval=0,
        warmup_steps=0,
        probe_interval=0,
        up=0.0,
        down=0.0,
        window_steps=0,
        threshold=0.0,
        off_below=0.0,
        expected_tokens=expected_tokens,
        expected_drafts=expected_drafts,
    )
    return empty._replace(**_settings(speculation.policy))


def _settings(policy: Policy) -> dict[str, Any]:
    """The fields that this kind of policy uses."""
    settings: dict[str, Any] = {}
    match policy:
        case BatchSizeTable():
            settings = {"kind": BATCH_TABLE, "table": np.array(policy.table, dtype=np.int64)}
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
            settings = {
                "kind": MEMORY_PRESSURE,
                "threshold": policy.shorten_below,
                "off_below": policy.off_below,
                "up": policy.hysteresis,
            }
        case Oracle():
            settings = {"kind": ORACLE}
    return settings
