"""sweep: simulate a space of services, and say which is best under each load.

Runs are kept by content in a store: a sweep that was killed goes on where it was, and sweeps share
what they have in common. An adaptive sweep estimates first, simulates the contenders, and spends
seeds where the ranking is undecided (race.py).
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from simcore.errors import ScenarioError, SpecplanError, StoreError
from simcore.planner.race import Values, race_level, seed_counts
from simcore.planner.run_key import run_key, simulator_sha256
from simcore.planner.run_store import RunStore
from simcore.planner.run_table import LARGEST
from simcore.planner.sweep_estimates import ESTIMATED, LoadEstimates, objective_estimate
from simcore.planner.sweep_grid import Configuration, Grid, Omission, expand
from simcore.planner.sweep_profiles import Profiles
from simcore.planner.sweep_result import (
    SweepResult,
    Verdict,
    best_table,
    configuration_table,
    objective_values,
    rank,
    verdicts_of,
    with_labels,
)
from simcore.planner.sweep_run import Run
from simcore.planner.sweep_space import SweepSpace
from simcore.planner.sweep_workers import outcomes
from simcore.profile.store import StoredProfile
from simcore.version import specplan_version

if TYPE_CHECKING:
    import pandas as pd

Progress = Callable[[int, int], None]  # (runs there, runs asked for so far)


def sweep(
    space: SweepSpace,
    *,
    store: RunStore | Path | str | None = None,
    jobs: int | None = None,
    dask: str | None = None,
    profiles: Mapping[str, StoredProfile] | None = None,
    progress: Progress | None = None,
) -> SweepResult:
    """Simulate the space's configurations and rank those that meet the same load.

    `store`: where runs are kept and found again; None: in memory. `jobs`: processes, by default
    one a core; `dask`: the address of a running scheduler, in their place. The result is the same
    whichever does the work. Raises ScenarioError where no combination can be simulated or the
    objective has no value, StoreError where the store cannot be used.
    """
    estimates = LoadEstimates(Profiles(profiles))
    grid = expand(space, estimates)
    _check_objective(space, grid)
    with ExitStack() as stack:
        if not isinstance(store, RunStore):
            store = stack.enter_context(RunStore(None if store is None else Path(store)))
        runner = _Runner(space, grid, store, _Workers(jobs, dask), progress)
        pruned = _prune(space, grid, estimates) if space.method == "adaptive" else {}
        contenders = [index for index in range(len(grid.configurations)) if index not in pruned]
        if space.method == "adaptive":
            counts = _race(space, runner, contenders)
        else:
            counts = dict.fromkeys(contenders, space.seeds)
            runner.do(counts)
        return _result(space, grid, runner, counts, pruned)


class _Workers:
    """Who does the runs."""

    def __init__(self, jobs: int | None, dask: str | None) -> None:
        self.jobs, self.dask = jobs, dask


class _Runner:
    """Does the runs that the store does not hold yet."""

    def __init__(
        self,
        space: SweepSpace,
        grid: Grid,
        store: RunStore,
        workers: _Workers,
        progress: Progress | None,
    ) -> None:
        self.grid, self._store, self._workers = grid, store, workers
        self._progress = progress
        self._first_seed = space.scenario.seed
        self._runs: dict[tuple[int, int], Run] = {}  # (configuration, seed counted from 0)
        self._asked: set[str] = set()
        self.refused: dict[int, str] = {}  # configuration -> reason
        self._refused_keys: set[str] = set()
        self.num_simulated = 0

    def do(self, counts: Mapping[int, int]) -> None:
        """See that so many seeds of each configuration are in the store; commits as they come."""
        wanted = {self._run(i, seed).key: (i, seed) for i, n in counts.items() for seed in range(n)}
        known = self._store.known(wanted)
        missing = [self._run(*place) for key, place in wanted.items() if key not in known]
        self._asked |= set(wanted)
        done = len(known)
        self._tell(done, len(wanted))
        for outcome in outcomes(missing, jobs=self._workers.jobs, dask=self._workers.dask):
            self._check_rows(outcome.rows, wanted)
            self._store.add(outcome.rows)
            for refusal in outcome.refusals:
                self.refused[wanted[refusal.key][0]] = refusal.reason
                self._refused_keys.add(refusal.key)
            done += len(outcome.rows) + len(outcome.refusals)
            self.num_simulated += len(outcome.rows)
            self._tell(done, len(wanted))

    def rows(self, counts: Mapping[int, int]) -> "pd.DataFrame":
        """The rows of these configurations by seed, `configuration` first; none of refused ones."""
        left = {index: count for index, count in counts.items() if index not in self.refused}
        places = [(index, seed) for index, count in left.items() for seed in range(count)]
        frame = self._store.rows([self._run(*place).key for place in places])
        frame.insert(0, "configuration", [index for index, _ in places])
        return frame

    @property
    def num_reused(self) -> int:
        """Runs that somebody had done before."""
        return len(self._asked - self._refused_keys) - self.num_simulated

    def _run(self, index: int, seed: int) -> Run:
        if (index, seed) not in self._runs:
            made: Configuration = self.grid.configurations[index]
            changed = {"seed": self._first_seed + seed}
            scenario = made.scenario.model_copy(update=changed)
            key = run_key(scenario, made.profile_sha256)
            self._runs[index, seed] = Run(key, scenario, made.profile_sha256)
        return self._runs[index, seed]

    def _tell(self, done: int, total: int) -> None:
        if self._progress is not None:
            self._progress(done, total)

    @staticmethod
    def _check_rows(rows: Iterable[dict[str, object]], wanted: Mapping[str, object]) -> None:
        """What is kept under a key must be the run of that key."""
        if any(row["simulator_sha256"] != simulator_sha256() for row in rows):
            raise StoreError(
                "a worker runs another version of the simulator than this process, so its numbers "
                "are not kept; install the same specplan on every worker"
            )
        if any(row["key"] not in wanted for row in rows):
            raise StoreError(
                "a worker has read other recorded requests than this process under the same path, "
                "so its numbers are not kept; give every worker the same files, and leave them as "
                "they are while the sweep runs"
            )


def _check_objective(space: SweepSpace, grid: Grid) -> None:
    limits = grid.configurations[0].scenario.slo.model_dump().values()
    if space.objective.startswith("goodput") and not any(each is not None for each in limits):
        raise ScenarioError(
            f"objective {space.objective!r} needs an SLO, and the scenario states none; add slo, "
            "or choose another objective"
        )


def _prune(space: SweepSpace, grid: Grid, estimates: LoadEstimates) -> dict[int, str]:
    """Configurations that the estimate leaves no chance, and why.

    One is left out where its estimate is `estimate_margin` times worse than the best one's under
    the same load, or where it falls behind its load by that margin while another keeps up. What
    cannot be estimated stays.
    """
    found: dict[int, str] = {}
    for indices in _by_question(grid, range(len(grid.configurations))).values():
        known = {}
        for index in indices:
            try:
                known[index] = estimates(grid.configurations[index].scenario)
            except SpecplanError:
                continue  # the simulation will say what is wrong, where anything is
        if space.objective in ESTIMATED:
            values = {i: objective_estimate(each, space.objective) for i, each in known.items()}
            costs = {i: value for i, value in values.items() if value is not None}
            what = f"the estimated {space.objective}"
        elif space.objective in LARGEST:
            costs = {i: max(1.0, each.utilization) for i, each in known.items()}
            what = "the estimated offered load over what it can carry"
        else:
            continue
        least = min(costs.values(), default=np.inf)
        for index, cost in costs.items():
            if cost > space.estimate_margin * least:
                found[index] = (
                    f"{what} is {cost:.3g}, more than {space.estimate_margin:g} times the best's "
                    f"{least:.3g}"
                )
    return found


def _by_question(grid: Grid, indices: Iterable[int]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for index in indices:
        found.setdefault(grid.configurations[index].question, []).append(index)
    return found


def _race(space: SweepSpace, runner: _Runner, contenders: list[int]) -> dict[int, int]:
    """Seeds that each contender was given."""
    rounds = seed_counts(space.first_seeds, space.seeds)
    counts: dict[int, int] = {}
    racing = _by_question(runner.grid, contenders)
    entered = {question: len(indices) for question, indices in racing.items()}
    for count in rounds:
        round_counts = {index: count for indices in racing.values() for index in indices}
        counts |= round_counts
        runner.do(round_counts)
        values = objective_values(space, runner.rows(round_counts))
        racing = {
            question: left
            for question, indices in racing.items()
            if len(left := _undecided(space, values, indices, entered[question], len(rounds))) > 1
        }
        if not racing:
            break
    return counts


def _undecided(
    space: SweepSpace,
    values: Mapping[int, Values],
    indices: list[int],
    num_entered: int,
    num_rounds: int,
) -> list[int]:
    """The leader and those that may yet be better; one alone has won."""
    known = {index: values[index] for index in indices if index in values}
    standing = rank(space, known, race_level(num_entered, num_rounds))
    return [] if standing is None else [standing.best, *standing.indistinguishable]


def _result(
    space: SweepSpace,
    grid: Grid,
    runner: _Runner,
    counts: dict[int, int],
    pruned: dict[int, str],
) -> SweepResult:
    rows = runner.rows(dict(sorted(counts.items())))
    made = grid.configurations
    if rows.empty:
        index, reason = next(iter(runner.refused.items()))
        raise ScenarioError(
            f"none of the {len(counts)} configurations can be simulated; the first, "
            f"{made[index].labels}: {reason}"
        )
    values = objective_values(space, rows)
    verdicts: dict[int, Verdict] = {}
    for indices in _by_question(grid, values).values():
        level = race_level(len(indices), num_rounds=1)
        verdicts |= verdicts_of(rank(space, {i: values[i] for i in indices}, level), indices)
    table = configuration_table(space, grid, rows, verdicts)
    refused = [Omission(made[i].labels, reason) for i, reason in sorted(runner.refused.items())]
    return SweepResult(
        space=space,
        origin={
            "specplan_version": specplan_version(),
            "simulator_sha256": simulator_sha256(),
            "profile_sha256": sorted({each.profile_sha256 for each in made}),
            "seeds": [space.scenario.seed + seed for seed in range(max(counts.values()))],
        },
        runs=with_labels(rows, grid),
        configurations=table,
        best=best_table(table, [made[index].question for index in table["configuration"]]),
        invalid=(*grid.invalid, *refused),
        merged=tuple(grid.merged),
        pruned=tuple(Omission(made[i].labels, reason) for i, reason in sorted(pruned.items())),
        caveats=_caveats(grid, rows, verdicts),
        num_simulated=runner.num_simulated,
        num_reused=runner.num_reused,
    )


def _caveats(grid: Grid, rows: "pd.DataFrame", verdicts: dict[int, Verdict]) -> tuple[str, ...]:
    """What a reader must know first; each only where it applies."""
    sources = sorted(set(zip(rows["profile"], rows["profile_source"], strict=True)))
    found = [
        f"The numbers of profile {name} are {source}, not measured on your machine."
        for name, source in sources
        if source != "measured"
    ]
    best = [index for index, verdict in verdicts.items() if verdict == "best"]
    of_best = rows[rows["configuration"].isin(best)]
    saturated = of_best[of_best["is_saturated"] > 0.0]["configuration"].nunique()
    if saturated:
        found.append(
            f"Under {saturated} of {len(best)} loads even the best service is saturated: its "
            "latencies grow with the length of the run."
        )
    met = rows.groupby("configuration", sort=False)["requests_sha256"].first()
    questions = _by_question(grid, verdicts).values()
    if any(met[met.index.isin(indices)].nunique() > 1 for indices in questions):
        found.append(
            "Under some loads the services meet different requests, because each proposer's "
            "recordings bring their own lengths or domains: differences are not the services' only."
        )
    if rows.groupby("configuration").size().min() == 1:
        found.append("One seed: no interval, and nothing can be told from the best.")
    if unknown := sum(verdict == "unknown" for verdict in verdicts.values()):
        found.append(f"{unknown} configurations have no value of the objective and no rank.")
    found.append(
        "The intervals hold what differs between seeds, not the profiles' own errors; a plan's do."
    )
    return tuple(found)
