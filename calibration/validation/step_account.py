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
    padded_s: float  # by the same law, attention padded as the engine pads it


def step_accounts(bed: Bed, name: CellName, run: KeptRun, law: CostLaw) -> list[StepAccount]:
    """Every kind of step and phase that took any time. The steps are the run's own, one by one."""
    steps, priced = _priced(bed, name, run, law)
    _, padded = _priced(bed, name, run, padding(law))
    return list(_accounts(steps, priced, padded))


def padding(law: CostLaw) -> CostLaw:
    """The same coefficients for an engine that pads attention."""
    target = law.target.model_copy(update={"pads_attention": True})
    return law.model_copy(update={"target": target})


def _priced(
    bed: Bed, name: CellName, run: KeptRun, law: CostLaw
) -> tuple[Records, NDArray[np.float64]]:
    """The run's steps, and what the law says of each by phase."""
    service = replace(bed.service(name), law=law)
    traces = service.new_traces()
    run.fill(traces)
    executor = RecordedTimes(run.step_times)
    steps = told(service, traces, executor).steps
    return steps, np.array([[getattr(t, phase) for phase in PHASES] for t in executor.priced])


def _accounts(
    steps: Records, priced: NDArray[np.float64], padded: NDArray[np.float64]
) -> Iterator[StepAccount]:
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
                    padded_s=float(padded[chosen, place].sum()),
                )
