"""Where speculation pays: speed-up over off on a grid of two inputs, instant, for sliders.

Values are those of the closed form (planner/load_estimate.py), or of simulation when asked: off
and on meet the same requests. A draft length that nobody measured is refused, not guessed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np

from simcore.errors import ScenarioError, SpecplanError
from simcore.planner.case import Case, case_of, mean_seconds
from simcore.planner.crossover_document import (
    Cell,
    Crossing,
    CrossoverMap,
    MapKind,
    Metric,
    State,
)
from simcore.planner.crossover_grids import GRIDS, Grid
from simcore.planner.load_estimate import LoadEstimate
from simcore.planner.replication import Progress
from simcore.profile.store import StoredProfile
from simcore.scenario import Scenario
from simcore.serving.simulation import origin

Grows = Literal["off", "on", "both"] | None

GROWS: dict[tuple[bool, bool], Grows] = {  # by (off, on) is stable
    (True, True): None,
    (False, True): "off",
    (True, False): "on",
    (False, False): "both",
}
UNSTABLE = {
    "off": "without speculation the queue grows for ever",
    "on": "with speculation the queue grows for ever",
    "both": "the queue grows for ever with and without speculation",
}


def crossover_map(
    stored: StoredProfile,
    scenario: Scenario,
    kind: MapKind = "load_gamma",
    *,
    metric: Metric = "e2e",
    proposer: str | None = None,
    x_values: Sequence[float] = (),
    y_values: Sequence[float] = (),
    num_columns: int = 20,
    simulated: bool = False,
    case: Case | None = None,
    progress: Progress | None = None,
) -> CrossoverMap:
    """The map of one kind around the scenario.

    `x_values`, `y_values`: the axes, else those that fit the profile. `case` from `case_of`, of
    the same profile and scenario, saves reading them again. Raises ScenarioError where the
    scenario does not fit its profile, has no such axis, or a value lies beyond sense.
    """
    for values in (x_values, y_values):
        _check(values)
    case = case or case_of(stored, scenario, proposer)
    grid = GRIDS[kind](case, tuple(x_values), tuple(y_values), num_columns)
    rows = _rows(grid, metric, simulated, progress)
    return CrossoverMap(
        kind=kind,
        metric=metric,
        is_simulated=simulated,
        origin=origin(case.scenario, case.stored),
        proposer=case.proposer,
        x=grid.x,
        y=grid.y,
        cells=rows,
        crossed_along=grid.crossed_along,
        break_even=_break_even(grid, rows),
        notes=_notes(grid, case, simulated),
    )


def _check(values: Sequence[float]) -> None:
    if any(b <= a for a, b in pairwise(values)) or not np.isfinite(values).all():
        raise ScenarioError(
            f"values of an axis: got {list(values)}; expected finite ones that rise"
        )


def _rows(
    grid: Grid, metric: Metric, simulated: bool, progress: Progress | None
) -> tuple[tuple[Cell, ...], ...]:
    """Off once a column, on in every cell."""
    columns = []
    total = len(grid.x.values)
    for done, x in enumerate(grid.x.values, start=1):
        off = _attempt(grid, (x, None), metric, simulated)
        column = []
        for y in grid.y.values:
            column.append(_cell(off, _attempt(grid, (x, y), metric, simulated)))
        columns.append(column)
        if progress is not None:
            progress(done, total)
    return tuple(zip(*columns, strict=True))


@dataclass(frozen=True)
class _Answer:
    """One service at one point, or why there is none."""

    case: Case
    estimate: LoadEstimate
    seconds: float | None


def _attempt(
    grid: Grid, point: tuple[float, float | None], metric: Metric, simulated: bool
) -> _Answer | str:
    """The answer at (x, y), or at x without speculation; or the reason why there is none."""
    x, y = point
    try:
        case = grid.off(x) if y is None else grid.on(x, y)
        found = case.estimate()
        seconds = found.e2e_s if metric == "e2e" else found.tpot_s
        if simulated and found.is_stable:
            seconds = mean_seconds(case.simulate(), metric)
        if seconds == 0.0:
            return "the closed form leaves no time between tokens here; simulate this point"
    except SpecplanError as error:
        return str(error)
    return _Answer(case, found, seconds)


def _cell(off: _Answer | str, on: _Answer | str) -> Cell:
    if isinstance(off, str) or isinstance(on, str):
        reason = on if isinstance(on, str) else off
        return Cell(speedup=None, state="refused", reason=str(reason))
    outside = _outside(off) or _outside(on)
    state: State = "extrapolated" if outside else "measured"
    speedup, reason = None, outside
    grows = GROWS[off.estimate.is_stable, on.estimate.is_stable]
    if grows is not None:
        state, reason = "unstable", UNSTABLE[grows]
    elif off.seconds is not None and on.seconds is not None:
        speedup = off.seconds / on.seconds
    return Cell(
        speedup=speedup,
        state=state,
        reason=reason,
        grows=grows,
        off_s=off.seconds,
        on_s=on.seconds,
        emitted_tokens_per_cycle=on.estimate.emitted_tokens_per_cycle,
        off_batch_size=_busy_batch(off.estimate),
        on_batch_size=_busy_batch(on.estimate),
    )


def _busy_batch(estimate: LoadEstimate) -> float:
    """Running requests of a replica while it runs steps."""
    return estimate.batch_size / max(estimate.busy_fraction, 1e-9)


def _outside(answer: _Answer) -> str:
    """Which bound of the measured box the mean decode step passes; empty: none."""
    box, requests = answer.case.stored.profile.cost.domain, answer.case.basis.requests
    batch = _busy_batch(answer.estimate)
    drafts = answer.case.scenario.speculation.num_draft_tokens
    context = float(requests.prompt_tokens.mean() + requests.output_tokens.mean())
    for value, most, words in (
        (batch, box.max_batch_size, "requests running"),
        (context, box.max_context_tokens, "tokens of context at a request's end"),
        (1 + drafts, box.max_query_tokens_per_request, "query tokens a request"),
        (batch * (1 + drafts), box.max_step_tokens, "query tokens a step"),
    ):
        if value > most + 1e-6:
            return f"{value:.4g} {words}; the cost law was fitted up to {most:,}"
    return ""


def _break_even(grid: Grid, rows: tuple[tuple[Cell, ...], ...]) -> tuple[Crossing, ...]:
    logs = np.array([[_log_speedup(cell) for cell in row] for row in rows])
    found = []
    if grid.crossed_along == "x":
        for y, line in zip(grid.y.values, logs, strict=True):
            found += [Crossing(x=x, y=y) for x in crossings(line, grid.x.values)]
    else:
        for x, line in zip(grid.x.values, logs.T, strict=True):
            found += [Crossing(x=x, y=y) for y in crossings(line, grid.y.values)]
    return tuple(found)


def _log_speedup(cell: Cell) -> float:
    """Infinite where only one of the two can carry the load; NaN where nothing can be said."""
    if cell.speedup is not None:
        return float(np.log(cell.speedup))
    return {"off": np.inf, "on": -np.inf}.get(cell.grows or "", np.nan)


def crossings(logs: np.ndarray, values: Sequence[float]) -> list[float]:
    """Where `logs` [n] pass 0 at `values` [n]; linear in the place on the grid.

    A grid that rises by factors is read in logarithms. NaN has no neighbours; next to an infinite
    value the crossing is somewhere between the two: the middle is taken.
    """
    found = []
    for (before, after), (low, high) in zip(pairwise(logs), pairwise(values), strict=True):
        if np.isnan(before) or np.isnan(after) or (before > 0.0) == (after > 0.0):
            continue
        both_finite = np.isfinite(before) and np.isfinite(after)
        share = before / (before - after) if both_finite else 0.5
        found.append(between(low, high, float(share), values))
    return found


def between(low: float, high: float, share: float, values: Sequence[float]) -> float:
    """The value at `share` of the way from `low` to `high` on the grid of `values`."""
    if is_geometric(values):
        return float(low * (high / low) ** share)
    return low + (high - low) * share


def is_geometric(values: Sequence[float]) -> bool:
    """Whether values rise by factors rather than by steps."""
    if len(values) < 3 or values[0] <= 0.0:  # noqa: PLR2004 - two values rise either way
        return False
    steps, factors = np.diff(values), np.diff(np.log(values))
    return bool(np.std(factors) / np.mean(factors) < np.std(steps) / np.mean(steps))


def _notes(grid: Grid, case: Case, simulated: bool) -> tuple[str, ...]:
    how = (
        f"simulation: one run of {case.scenario.workload.num_requests} requests a point under "
        "seed {seed}, the same requests off and on".format(seed=case.scenario.seed)
        if simulated
        else "closed form: means over requests, long after the start"
    )
    return (
        how,
        "inside the measured domain: the mean decode step of off and of on lies in the box of the "
        "cost fit; prefill chunks are not counted",
        *grid.notes,
    )
