"""Predicted beside measured: the checks against engines that ran, as data."""

from functools import cache
from importlib import resources
from typing import Literal

import numpy as np
from pydantic import Field

from simcore.profile.schema import Frozen

FILE = "records.json"
Verdict = Literal["right", "wrong", "too close"]


def verdict_of(predicted: float, measured: float, noise: float | None) -> Verdict:
    """Whether the sign of a relative change was predicted, where measuring can tell it.

    `noise`: of the measured change, a share; None where nothing was measured twice.
    """
    if noise is not None and abs(measured) <= noise:
        return "too close"
    return "right" if (predicted > 0.0) == (measured > 0.0) else "wrong"


class Figure(Frozen):
    """One number of one cell: predicted before the run, and measured, once or twice."""

    metric: str
    unit: str
    predicted: float
    measured: tuple[float, ...] = Field(min_length=1)

    @property
    def mean(self) -> float:
        """Of the measurements."""
        return float(np.mean(self.measured))

    @property
    def error(self) -> float | None:
        """Predicted over measured, less 1; None where nothing was measured above 0."""
        return self.predicted / self.mean - 1.0 if self.mean > 0.0 else None

    @property
    def noise(self) -> float | None:
        """How far apart the measurements lie, by their mean; None where there is one."""
        if len(self.measured) < 2 or self.mean <= 0.0:  # noqa: PLR2004  a distance needs two
            return None
        return (max(self.measured) - min(self.measured)) / self.mean


class Cell(Frozen):
    """One service at one load."""

    name: str
    figures: tuple[Figure, ...]


class Choice(Frozen):
    """Whether speculating pays in a cell: speed-up of E2E over off at the same load."""

    cell: str
    predicted: float
    measured: float
    noise: float | None
    verdict: Verdict


class Study(Frozen):
    """One check: what ran, when, and every cell."""

    name: str
    title: str
    engine: str
    date: str
    command: str
    cells: tuple[Cell, ...]
    choices: tuple[Choice, ...]


class Truth(Frozen):
    """All checks."""

    schema_version: Literal[1] = 1
    studies: tuple[Study, ...]


@cache
def truth() -> Truth:
    """The shipped records; made by `python -m tests.make_truth` from the committed results."""
    path = resources.files(__name__) / FILE
    return Truth.model_validate_json(path.read_bytes())
