"""Prediction against measurement: errors, the noise beside them, and the decision on or off."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from calibration.serve.run import RecordedTimes, told
from calibration.validation.figures import NAMES, Figures, figures_of, mean_of
from calibration.validation.kept_run import KeptRun
from calibration.validation.plan import OFF, CellName
from calibration.validation.predict import Prediction
from calibration.validation.runs import REPEATS, Bed, run_path
from calibration.validation.step_account import StepAccount
from simcore.cost.law import CostLaw
from simcore.profile.schema import Frozen

DECIDED_BY = "e2e_p50_s"


class Comparison(Frozen):
    """One number of one cell."""

    predicted: float
    measured: tuple[float, ...]  # by repeat
    error: float  # predicted / mean measured - 1
    noise: float  # difference of the repeats / their mean


class ComparedCell(Frozen):
    """One cell; `own_acceptance` is a diagnosis made after the run, no prediction."""

    load: str
    proposer: str
    rate_per_s: float
    numbers: dict[str, Comparison]
    own_acceptance: dict[str, float]  # error with the run's own acceptance: what cost explains
    steps: tuple[StepAccount, ...]  # of the first repeat


class Decision(Frozen):
    """Whether to switch a proposer on at a load: by the median E2E."""

    load: str
    proposer: str
    predicted_change: float  # on / off - 1; below 0: on is better
    measured_change: float
    noise: float  # of either cell, the larger
    is_right: bool
    is_within_noise: bool  # the measured change itself is smaller than the noise


def compare_cell(
    prediction: Prediction,
    name: CellName,
    runs: Sequence[KeptRun],
    own: Figures,
    steps: Sequence[StepAccount] = (),
) -> ComparedCell:
    """`own`: the run's figures as simulated with its own acceptance."""
    predicted = prediction.cell(name)
    measured = [figures_of(run.requests, run.steps) for run in runs]
    mean = mean_of(measured)
    return ComparedCell(
        load=name.load,
        proposer=name.proposer,
        rate_per_s=predicted.rate_per_s,
        numbers={
            n: _comparison(getattr(predicted.figures, n), [getattr(run, n) for run in measured])
            for n in NAMES
        },
        own_acceptance={n: _error(getattr(own, n), getattr(mean, n)) for n in NAMES},
        steps=tuple(steps),
    )


def decide(cells: Sequence[ComparedCell]) -> list[Decision]:
    """On or off, for every load and proposer."""
    numbers = {(cell.load, cell.proposer): cell.numbers[DECIDED_BY] for cell in cells}
    return [
        _decision(load, proposer, number, numbers[load, OFF])
        for (load, proposer), number in numbers.items()
        if proposer != OFF
    ]


def load_runs(work: Path, name: CellName) -> list[KeptRun]:
    """Every repeat of a cell."""
    return [KeptRun.load(run_path(work, name, repeat)) for repeat in range(REPEATS)]


def with_own_acceptance(bed: Bed, name: CellName, run: KeptRun, law: CostLaw) -> Figures:
    """The cell simulated with the acceptance that it really had, priced by the law.

    What still differs from the run is cost; made after the run, to explain and not to predict.
    """
    service = replace(bed.service(name), law=law)
    traces = service.new_traces()
    run.fill(traces)
    ran = told(service, traces, RecordedTimes([]))
    return figures_of(ran.requests, ran.steps)


def _comparison(predicted: float, measured: Sequence[float]) -> Comparison:
    mean = sum(measured) / len(measured)
    spread = max(measured) - min(measured)
    return Comparison(
        predicted=predicted,
        measured=tuple(measured),
        error=_error(predicted, mean),
        noise=spread / mean if mean else 0.0,
    )


def _error(predicted: float, measured: float) -> float:
    """Relative; 0 where neither is anything."""
    return predicted / measured - 1.0 if measured else float(predicted != 0.0)


def _decision(load: str, proposer: str, on: Comparison, off: Comparison) -> Decision:
    predicted = on.predicted / off.predicted - 1.0
    measured = sum(on.measured) / sum(off.measured) - 1.0
    noise = max(on.noise, off.noise)
    return Decision(
        load=load,
        proposer=proposer,
        predicted_change=predicted,
        measured_change=measured,
        noise=noise,
        is_right=(predicted < 0.0) == (measured < 0.0),
        is_within_noise=abs(measured) < noise,
    )
