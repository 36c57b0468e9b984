"""Prediction against measurement: errors, the noise beside them, and the decision on or off."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from calibration.errors import CalibrationError
from calibration.serve.run import RecordedTimes, told
from calibration.validation.figures import NAMES, Figures, figures_of
from calibration.validation.kept_run import KeptRun
from calibration.validation.plan import OFF, CellName
from calibration.validation.predict import Prediction
from calibration.validation.runs import REPEATS, Bed, run_path
from calibration.validation.step_account import StepAccount
from simcore.cost.law import CostLaw
from simcore.profile.schema import Frozen
from simcore.truth import Verdict, verdict_of

DECIDED_BY = "e2e_p50_s"


class Comparison(Frozen):
    """One number of one cell."""

    predicted: float
    measured: tuple[float, ...]  # by repeat
    error: float  # predicted / mean measured - 1
    noise: float | None  # difference of the repeats / their mean; null: measured once
    own_prompts_error: float  # of the second prediction
    explained_error: float  # with the run's own acceptance and padding: no prediction


class ComparedCell(Frozen):
    """One cell."""

    load: str
    proposer: str
    rate_per_s: float
    core_shares: tuple[float, ...]  # by repeat
    numbers: dict[str, Comparison]
    steps: tuple[StepAccount, ...]  # of the first repeat


class Decision(Frozen):
    """Whether to switch a proposer on at a load: by the median E2E, on / off - 1."""

    load: str
    proposer: str
    predicted_change: float
    own_prompts_change: float
    measured_change: float
    noise: float | None  # of both cells, for their ratio has both; null: one was measured once
    verdict: Verdict
    own_prompts_verdict: Verdict


def compare_cell(
    predictions: tuple[Prediction, Prediction],
    name: CellName,
    runs: Sequence[KeptRun],
    explained: Figures,
    steps: Sequence[StepAccount] = (),
) -> ComparedCell:
    """`predictions`: the first, and that with acceptance on own prompts."""
    first, second = (prediction.cell(name) for prediction in predictions)
    measured = [figures_of(run.requests, run.steps) for run in runs]

    def comparison(number: str) -> Comparison:
        values = [getattr(run, number) for run in measured]
        mean = sum(values) / len(values)
        spread = max(values) - min(values)
        return Comparison(
            predicted=getattr(first.figures, number),
            measured=tuple(values),
            error=_error(getattr(first.figures, number), mean),
            noise=None if len(values) < REPEATS else _share(spread, mean),
            own_prompts_error=_error(getattr(second.figures, number), mean),
            explained_error=_error(getattr(explained, number), mean),
        )

    return ComparedCell(
        load=name.load,
        proposer=name.proposer,
        rate_per_s=first.rate_per_s,
        core_shares=tuple(round(run.core_share, 4) for run in runs),
        numbers={number: comparison(number) for number in NAMES},
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
    """The repeats of a cell that have run; raises CalibrationError where there is none."""
    paths = [run_path(work, name, repeat) for repeat in range(REPEATS)]
    runs = [KeptRun.load(path) for path in paths if path.is_file()]
    if not runs:
        raise CalibrationError(f"cell {name} has not run; expected one run at least: run it first")
    return runs


def with_own_acceptance(bed: Bed, name: CellName, run: KeptRun, law: CostLaw) -> Figures:
    """The cell simulated with the acceptance that it really had, priced by the law.

    What still differs from the run is cost; made after the run, to explain and not to predict.
    """
    service = replace(bed.service(name), law=law)
    traces = service.new_traces()
    run.fill(traces)
    ran = told(service, traces, RecordedTimes([]))
    return figures_of(ran.requests, ran.steps)


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _error(predicted: float, measured: float) -> float:
    """Relative; 0 where neither is anything."""
    return predicted / measured - 1.0 if measured else float(predicted != 0.0)


def _decision(load: str, proposer: str, on: Comparison, off: Comparison) -> Decision:
    noise = None if on.noise is None or off.noise is None else on.noise + off.noise
    measured = _mean(on) / _mean(off) - 1.0
    first = on.predicted / off.predicted - 1.0
    second = (
        (1.0 + on.own_prompts_error) * _mean(on) / ((1.0 + off.own_prompts_error) * _mean(off))
    ) - 1.0
    return Decision(
        load=load,
        proposer=proposer,
        predicted_change=first,
        own_prompts_change=second,
        measured_change=measured,
        noise=noise,
        verdict=verdict_of(first, measured, noise),
        own_prompts_verdict=verdict_of(second, measured, noise),
    )


def _mean(number: Comparison) -> float:
    return sum(number.measured) / len(number.measured)
