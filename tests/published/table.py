"""The table of docs/validation.md: what we predict, what the study's simulator does, how far off.

The study's measured figures stay outside the project; the page holds only the distance to them.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from tests.published.study import (
    BATCH_SIZES,
    LARGEST_FITTED_BATCH,
    STUDY_SIMULATOR,
    Times,
    measured_speedups,
    open_study,
    replay,
)

FOLDER = "specdecode-bench"
PAGE = Path(__file__).parents[2] / "docs" / "validation.md"
BEGIN, END = "<!-- study: begin -->\n", "<!-- study: end -->\n"

Replayed = dict[str, dict[int, Times]]


def replay_all(folder: Path, work: Path) -> Replayed:
    """Replay every data set at every batch size; profiles go to `work`."""
    return {name: _replay_sizes(folder, work, name) for name in STUDY_SIMULATOR}


def replay_with_runaways(folder: Path, work: Path) -> Replayed:
    """The data set that has runaways, this time with them."""
    name = "instructcoder"
    return {f"{name}, runaways too": _replay_sizes(folder, work, name, runaways=True)}


def _replay_sizes(
    folder: Path, work: Path, name: str, *, runaways: bool = False
) -> dict[int, Times]:
    parquet = folder / f"llama31_8b_h100_{name}.parquet"
    study = open_study(parquet, work / f"{name}-{runaways}", name, runaways=runaways)
    return {size: replay(study, size) for size in BATCH_SIZES}


def mean_absolute_errors(replayed: Replayed, folder: Path) -> dict[str, tuple[float, float]]:
    """Data set -> (ours, the study's simulator's) mean absolute error against measurement."""
    errors = {}
    for name, by_size in replayed.items():
        measured = measured_speedups(folder / "measured_speedup.csv", name)
        ours = [by_size[size].speedup - value for size, value in measured.items()]
        study = [STUDY_SIMULATOR[name][size] - value for size, value in measured.items()]
        errors[name] = float(np.abs(ours).mean()), float(np.abs(study).mean())
    return errors


def render(replayed: Replayed, runaways: Replayed, folder: Path) -> str:
    """The tables in Markdown."""
    return "".join(line + "\n" for line in _lines(replayed, runaways, folder))


def replace_table(page: str, table: str) -> str:
    """The page with its generated part made anew."""
    before, rest = page.split(BEGIN)
    _, after = rest.split(END)
    return before + BEGIN + table + END + after


def _lines(replayed: Replayed, runaways: Replayed, folder: Path) -> Iterator[str]:
    yield "| data set | batch | specplan | standard error | the study's simulator | marked |"
    yield "|---|---:|---:|---:|---:|---|"
    for name, by_size in (replayed | runaways).items():
        for size, times in by_size.items():
            marked = "extrapolated" if size > LARGEST_FITTED_BATCH else ""
            study = f"{STUDY_SIMULATOR[name][size]:.2f}" if name in STUDY_SIMULATOR else ""
            yield (
                f"| {name} | {size} | {times.speedup:.3f} | {times.standard_error:.3f} "
                f"| {study} | {marked} |"
            )
    yield ""
    yield "Mean absolute error of the speed-up against the engine, batch 1, 16, 64 and 128:"
    yield ""
    yield "| data set | specplan | the study's simulator |"
    yield "|---|---:|---:|"
    for name, (ours, theirs) in mean_absolute_errors(replayed, folder).items():
        yield f"| {name} | {ours:.3f} | {theirs:.3f} |"
