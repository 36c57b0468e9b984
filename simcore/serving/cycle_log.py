"""Single cycles, kept on demand: one row for each cycle of each request."""

import numpy as np

from simcore.records import Records
from simcore.serving.state import DECODING, State

CYCLE_DTYPE = np.dtype(
    [
        ("time_s", "f8"),
        ("replica", "i8"),
        ("request", "i8"),
        ("position", "i8"),  # output position of the first token that it emits
        ("planned_tokens", "i8"),
        ("proposed_tokens", "i8"),
        ("verified_tokens", "i8"),
        ("accepted_tokens", "i8"),  # before the cut at the output's end
    ]
)


class CycleLog:
    """Collects the cycles of steps that are about to commit."""

    def __init__(self) -> None:
        self._parts: list[Records] = []

    def add(self, state: State, index: int) -> None:
        """Every cycle of the step under way on a replica."""
        running = state.running[index, : state.replicas[index]["num_running"]]
        rows = state.requests[running]
        is_cycle = (
            (rows["state"] == DECODING) & (rows["step_tokens"] > 0) & (rows["is_cancelled"] == 0)
        )
        chosen = rows[is_cycle]
        part = np.zeros(len(chosen), dtype=CYCLE_DTYPE)
        part["time_s"] = state.replicas[index]["step_end_s"]
        part["replica"] = index
        part["request"] = running[is_cycle]
        part["position"] = chosen["emitted_tokens"]
        part["planned_tokens"] = state.modes["proposed_tokens"][chosen["step_mode"]]
        part["proposed_tokens"] = chosen["step_proposed"]
        part["verified_tokens"] = chosen["step_verified"]
        part["accepted_tokens"] = chosen["step_accepted"]
        self._parts.append(part)

    def records(self) -> Records:
        """All of them in order of time; columns of CYCLE_DTYPE."""
        return np.concatenate([np.zeros(0, dtype=CYCLE_DTYPE), *self._parts])
