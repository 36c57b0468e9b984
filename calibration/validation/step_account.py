"""Where a cell's cost error lies: its own steps, each priced by the law that predicted it."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from calibration.serve.run import RecordedTimes, told
from calibration.validation.kept_run import PHASES, KeptRun
from calibration.validation.plan import CellName
from calibration.validation.runs import Bed
from simcore.cost.law import CostLaw
from simcore.profile.schema import Frozen
from simcore.records import Records


class StepAccount(Frozen):
    """Steps of one kind in one phase: what they took, and what the law says of the same steps."""

    kind: str
    phase: str
    num_steps: int
    measured_s: float
    priced_s: float


def step_accounts(bed: Bed, name: CellName, run: KeptRun, law: CostLaw) -> list[StepAccount]:
    """Every kind of step and phase that took any time. The steps are the run's own, one by one."""
    service = replace(bed.service(name), law=law)
    traces = service.new_traces()
    run.fill(traces)
    executor = RecordedTimes(run.step_times)
    steps = told(service, traces, executor).steps
    priced = np.array([[getattr(took, phase) for phase in PHASES] for took in executor.priced])
    return list(_accounts(steps, priced))


def _accounts(steps: Records, priced: NDArray[np.float64]) -> Iterator[StepAccount]:
    reads, decodes = steps["prefill_tokens"] > 0, steps["num_decoding"] > 0
    kinds = {"prefill": reads & ~decodes, "mixed": reads & decodes, "decode": ~reads}
    for kind, chosen in kinds.items():
        for place, phase in enumerate(PHASES):
            measured_s = float(steps[phase][chosen].sum())
            if measured_s > 0.0:
                yield StepAccount(
                    kind=kind,
                    phase=phase.removesuffix("_s"),
                    num_steps=int(chosen.sum()),
                    measured_s=measured_s,
                    priced_s=float(priced[chosen, place].sum()),
                )
