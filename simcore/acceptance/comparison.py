"""Every acceptance model, fitted at one γ on some requests, against other requests at many γ."""

from collections.abc import Callable, Sequence

from pydantic import BaseModel, ConfigDict

from simcore.acceptance.evidence import evidence_from_cycles
from simcore.acceptance.heterogeneous_fit import FitReport, fit_heterogeneous, fit_report
from simcore.acceptance.lists import RUNAWAY_TOKENS, AcceptanceLists
from simcore.acceptance.prediction import (
    AcceptanceWalker,
    Outputs,
    Replay,
    fit_iid,
    fit_positional,
)
from simcore.acceptance.statistics import Figures, figures
from simcore.errors import AcceptanceError

COMPARED_GAMMAS = (1, 3, 5, 7)


class FigureError(BaseModel):
    """One figure: predicted from the training requests, observed on the test requests."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    predicted: float
    observed: float
    absolute: float
    relative: float | None  # None where the observed figure is 0


# γ -> model -> figure
Errors = dict[int, dict[str, dict[str, FigureError]]]


def fit_models(
    train: AcceptanceLists, gamma: int, *, start: int = 0, runaway_tokens: int = RUNAWAY_TOKENS
) -> list[AcceptanceWalker]:
    """heterogeneous and the simpler models, fitted at γ."""
    where = {"start": start, "runaway_tokens": runaway_tokens}
    evidence = evidence_from_cycles(train.cycles(gamma, **where))
    return [fit_heterogeneous(evidence), *simpler_models(train, gamma, **where)]


def simpler_models(
    train: AcceptanceLists, gamma: int, *, start: int = 0, runaway_tokens: int = RUNAWAY_TOKENS
) -> list[AcceptanceWalker]:
    """iid and positional, fitted at γ; and trace where every position is known."""
    sample = train.cycles(gamma, start=start, runaway_tokens=runaway_tokens)
    models: list[AcceptanceWalker] = [fit_iid(sample), fit_positional(sample)]
    if train.per == "position":
        models.append(Replay(train, start))
    return models


def prediction_errors(
    models: Sequence[AcceptanceWalker],
    test: AcceptanceLists,
    gammas: Sequence[int] = COMPARED_GAMMAS,
    *,
    start: int = 0,
    runaway_tokens: int = RUNAWAY_TOKENS,
    seed: int = 1,
) -> Errors:
    """What each model gets wrong about the test requests, whose lengths it is told."""
    errors: Errors = {}
    for gamma in gammas:
        sample = test.cycles(gamma, start=start, runaway_tokens=runaway_tokens)
        observed = figures(sample.output_tokens, sample.cycles)
        errors[gamma] = {
            model.name: _errors(
                figures(*model.walks(gamma, Outputs.of(sample), seed=seed)), observed
            )
            for model in models
        }
    return errors


def _errors(predicted: Figures, observed: Figures) -> dict[str, FigureError]:
    return {
        name: FigureError(
            predicted=mine,
            observed=theirs,
            absolute=mine - theirs,
            relative=mine / theirs - 1.0 if theirs else None,
        )
        for name, mine, theirs in zip(Figures._fields, predicted, observed, strict=True)
    }


class ModelComparison(BaseModel):
    """The fit report, and every model's errors on the test requests; None without any."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    gamma: int
    num_test_requests: int | None
    num_test_runaways: int | None
    heterogeneous: FitReport
    errors: Errors | None
    errors_without_runaways: Errors | None


def compare_models(
    train: AcceptanceLists,
    test: AcceptanceLists | None,
    gamma: int,
    gammas: Sequence[int] = COMPARED_GAMMAS,
    *,
    start: int = 0,
    runaway_tokens: int = RUNAWAY_TOKENS,
    num_resamples: int = 20,
    progress: Callable[[int, int], None] | None = None,
) -> ModelComparison:
    """Fit every model on `train` at γ and predict `test` at each of `gammas`.

    Without runaways means in both. Per-cycle test requests answer at the γ that they ran at.
    `progress` is told how many of the refits behind the intervals are done.
    """
    where = {"start": start, "runaway_tokens": runaway_tokens}
    evidence = evidence_from_cycles(train.cycles(gamma, **where))
    model = fit_heterogeneous(evidence)
    report = fit_report(evidence, model, num_resamples=num_resamples, progress=progress)
    errors = without = None
    if test is not None:
        own = test.gammas()
        asked = [each for each in gammas if own is None or each in own]
        if not asked:
            raise AcceptanceError(
                f"γ {list(gammas)}: the test file's cycles were recorded at γ {list(own or ())} "
                "and say nothing about another; ask for one of those"
            )
        models = [model, *simpler_models(train, gamma, **where)]
        errors = prediction_errors(models, test, asked, **where)
        lengthy, seen = test.runaway(runaway_tokens), train.runaway(runaway_tokens)
        if not lengthy.any() and not seen.any():
            without = errors
        elif not lengthy.all() and not seen.all():
            # Its runaways are a stratum of their own: the fitted model serves without them as well.
            models = [model, *simpler_models(train.chosen(~seen), gamma, **where)]
            without = prediction_errors(models, test.chosen(~lengthy), asked, **where)
    return ModelComparison(
        gamma=gamma,
        num_test_requests=None if test is None else test.num_requests,
        num_test_runaways=None if test is None else int(test.runaway(runaway_tokens).sum()),
        heterogeneous=report,
        errors=errors,
        errors_without_runaways=without,
    )
