"""The study's measured speed-ups against ours, row by row: EAGLE, and the band of n-gram lookup.

Measured figures stay outside the project; a row holds our figure and its distance.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tests.published.study import STUDY_SIMULATOR, measured_speedups, open_study, replay

# Data set -> draft lengths that were measured with n-gram lookup.
NGRAM_LENGTHS = {"gsm8k": (3,), "instructcoder": (3, 5)}


class EagleRow(NamedTuple):
    """One measured cell."""

    name: str
    batch_size: int
    speedup: float
    error: float  # ours / measured - 1


class NgramRow(NamedTuple):
    """One measured cell between two suppositions about steps that accepted nothing."""

    name: str
    draft_length: int
    batch_size: int
    matched: float  # every miss had drafts
    unmatched: float  # no miss had any
    measured: float

    @property
    def inside(self) -> bool:
        """Whether the measured value lies in the band."""
        return self.matched <= self.measured <= self.unmatched

    @property
    def distance(self) -> float:
        """From the nearer end of the band, relative to the measured value; 0 inside."""
        if self.inside:
            return 0.0
        nearest = self.matched if self.measured < self.matched else self.unmatched
        return nearest / self.measured - 1.0


def eagle_rows(folder: Path, work: Path) -> list[EagleRow]:
    """Every cell of EAGLE at γ = 3, runaways left out."""
    rows = []
    for name in STUDY_SIMULATOR:
        study = open_study(folder / f"llama31_8b_h100_{name}.parquet", work / f"{name}-eagle", name)
        for size, measured in measured_speedups(folder / "measured_speedup.csv", name).items():
            ours = replay(study, size).speedup
            rows.append(EagleRow(name, size, ours, ours / measured - 1.0))
    return rows


def ngram_rows(folder: Path, work: Path) -> list[NgramRow]:
    """Every cell of n-gram lookup, runaways left out."""
    return [row for name in NGRAM_LENGTHS for row in _ngram_rows(folder, work, name)]


def _ngram_rows(folder: Path, work: Path, name: str) -> Iterator[NgramRow]:
    matched, unmatched = (
        open_study(
            folder / f"llama31_8b_h100_{name}.parquet",
            work / f"{name}-ngram-{is_matched}",
            name,
            proposer="ngram",
            miss_matched=is_matched,
        )
        for is_matched in (True, False)
    )
    for length in NGRAM_LENGTHS[name]:
        measured = measured_speedups(
            folder / "measured_speedup.csv", name, method="ngram", draft_length=length
        )
        for size, value in measured.items():
            ends = [replay(each, size, draft_length=length) for each in (matched, unmatched)]
            yield NgramRow(name, length, size, ends[0].speedup, ends[1].speedup, value)


def mean_absolute_error(rows: list[EagleRow]) -> float:
    """Pooled over the rows, relative."""
    return float(np.mean([abs(row.error) for row in rows]))


def speedup_lines(eagle: list[EagleRow], ngram: list[NgramRow]) -> Iterator[str]:
    """Both tables in Markdown."""
    yield "| data set | batch | specplan, EAGLE γ = 3 | against the engine |"
    yield "|---|---:|---:|---:|"
    for row in eagle:
        yield f"| {row.name} | {row.batch_size} | {row.speedup:.3f} | {row.error:+.1%} |"
    for name in STUDY_SIMULATOR:
        own = mean_absolute_error([row for row in eagle if row.name == name])
        yield f"| {name} | mean absolute | | {own:.1%} |"
    yield f"| both | mean absolute | | {mean_absolute_error(eagle):.1%} |"
    yield ""
    yield "| data set | γ | batch | every miss matched | every miss unmatched | engine |"
    yield "|---|---:|---:|---:|---:|---|"
    for each in ngram:
        where = "inside" if each.inside else f"outside: the nearer end is {each.distance:+.1%}"
        yield (
            f"| {each.name} | {each.draft_length} | {each.batch_size} | {each.matched:.3f} "
            f"| {each.unmatched:.3f} | {where} |"
        )
