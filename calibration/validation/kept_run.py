"""What is kept of one measured cell, so that a killed validation repeats nothing."""

from dataclasses import dataclass
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from calibration.errors import CalibrationError
from calibration.serve.run import Served
from simcore.acceptance.trace import TraceSet
from simcore.records import Records
from simcore.serving.executor import Executed

PHASES = ("propose_s", "target_s", "reconcile_s", "overhead_s")


@dataclass(frozen=True)
class KeptRun:
    """Records of a run, the acceptance of its own cycles, and how much of a core it had."""

    requests: Records
    steps: Records
    accepted: np.ndarray  # int8, a row for each output position
    proposed: np.ndarray
    core_share: float  # processor time / wall time

    @classmethod
    def of(cls, served: Served, core_share: float) -> "KeptRun":
        """From a finished run."""
        return cls(
            served.records.requests,
            served.records.steps,
            served.traces.accepted,
            served.traces.proposed,
            core_share,
        )

    @property
    def step_times(self) -> list[Executed]:
        """How long every step took."""
        return [Executed(*map(float, row)) for row in self.steps[list(PHASES)]]

    def fill(self, traces: TraceSet) -> None:
        """Put the run's own acceptance into the empty `traces` of its service."""
        traces.accepted[:], traces.proposed[:] = self.accepted, self.proposed

    def save(self, path: Path) -> None:
        """Whole or not at all."""
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(".part")
        with unfinished.open("wb") as file:
            np.savez_compressed(file, **vars(self))
        unfinished.replace(path)

    @classmethod
    def load(cls, path: Path) -> "KeptRun":
        """What `save` wrote; raises CalibrationError where it is not whole."""
        try:
            with np.load(path) as found:
                return cls(**{**found, "core_share": float(found["core_share"])})
        except (OSError, ValueError, KeyError, TypeError, EOFError, BadZipFile) as error:
            raise CalibrationError(
                f"'{path}' is no finished run ({str(error).splitlines()[0]}); expected one: remove "
                "it and `run` again"
            ) from error
