"""One half of the study's requests predicts the other: every model, fitted at γ = 3.

Random halvings, seeded by their number. A figure is met where the median of the heterogeneous
model's error is at most 2 %, or at most 1.5 times that of replaying the first half as it is.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from simcore.acceptance.comparison import COMPARED_GAMMAS, fit_models, prediction_errors
from simcore.acceptance.lists import AcceptanceLists
from simcore.acceptance.reading import read_lists
from simcore.acceptance.statistics import Figures

NUM_HALVINGS = 20
GAMMA = 3
ALWAYS_ALLOWED = 0.02
ALLOWED_OF_TRACE = 1.5
MODELS = ("iid", "positional", "heterogeneous", "trace")
# (data set, proposer, runaways kept); GSM8K has no runaways.
CASES = (
    ("gsm8k", "eagle", False),
    ("gsm8k", "ngram", False),
    ("instructcoder", "eagle", False),
    ("instructcoder", "ngram", False),
    ("instructcoder", "eagle", True),
    ("instructcoder", "ngram", True),
)
FIGURE_WORDS = {
    "mean_by_request": "mean by request",
    "mean_by_token": "mean by token",
    "request_sd": "spread",
    "slowest": "slowest 5 %",
}


class Case(NamedTuple):
    """Errors of one data set and proposer."""

    title: str
    relative: np.ndarray  # [halving, γ, model, figure]

    @property
    def median(self) -> np.ndarray:
        """Median absolute relative error [γ, model, figure]."""
        return np.median(np.abs(self.relative), axis=0)

    @property
    def allowed(self) -> np.ndarray:
        """The heterogeneous model's bound [γ, figure]."""
        return np.maximum(ALWAYS_ALLOWED, ALLOWED_OF_TRACE * self.median[:, MODELS.index("trace")])

    @property
    def met(self) -> np.ndarray:
        """Where it keeps the bound [γ, figure]."""
        return self.median[:, MODELS.index("heterogeneous")] <= self.allowed


def halve_all(folder: Path, num_halvings: int = NUM_HALVINGS) -> list[Case]:
    """Every case of CASES."""
    return [halve(folder, *case, num_halvings) for case in CASES]


def halve(folder: Path, name: str, proposer: str, runaways: bool, num_halvings: int) -> Case:
    """Fit on one random half and predict the other, `num_halvings` times."""
    path = folder / f"llama31_8b_h100_{name}.parquet"
    lists = read_lists(path, column=f"emitted_{proposer}")
    if not runaways:
        lists = lists.chosen(~lists.runaway())
    errors = [_errors_of_halving(lists, seed) for seed in range(num_halvings)]
    kept = ", runaways too" if runaways else ""
    return Case(f"{name}, {proposer}{kept}", np.array(errors))


def _errors_of_halving(lists: AcceptanceLists, seed: int) -> list[list[list[float]]]:
    order = np.random.default_rng(seed).permutation(lists.num_requests)
    half = lists.num_requests // 2
    models = fit_models(lists.chosen(order[:half]), GAMMA)
    found = prediction_errors(models, lists.chosen(order[half:]), seed=seed)
    return [
        [[found[gamma][model][name].relative for name in Figures._fields] for model in MODELS]
        for gamma in COMPARED_GAMMAS
    ]


def halving_lines(cases: list[Case]) -> Iterator[str]:
    """The table in Markdown, one row a figure."""
    yield "| requests | γ | figure | iid | positional | heterogeneous | trace | allowed | met |"
    yield "|---|---:|---|---:|---:|---:|---:|---:|---|"
    for case in cases:
        for i, gamma in enumerate(COMPARED_GAMMAS):
            for j, figure in enumerate(Figures._fields):
                errors = " | ".join(f"{value:.1%}" for value in case.median[i, :, j])
                met = "yes" if case.met[i, j] else "**no**"
                yield (
                    f"| {case.title} | {gamma} | {FIGURE_WORDS[figure]} | {errors} "
                    f"| {case.allowed[i, j]:.1%} | {met} |"
                )
    met = sum(int(case.met.sum()) for case in cases)
    yield ""
    yield f"{met} of {sum(case.met.size for case in cases)} figures are met."
