"""One scenario under several seeds: every number of its summary with an interval."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from pydantic import Field

from simcore.errors import ScenarioError
from simcore.metrics.estimate import CONFIDENCE, Estimate, estimate
from simcore.metrics.summary import Summary, summarise
from simcore.profile.schema import Frozen
from simcore.profile.store import StoredProfile, load_profile
from simcore.scenario import Scenario
from simcore.serving.simulation import SimulationResult, simulate

Progress = Callable[[int, int], None]  # (requests ended, requests in all), over all seeds


class ReplicatedSummary(Frozen):
    """Every number of a summary, over seeds."""

    origin: dict[str, Any] = Field(description="of the first seed")
    seeds: tuple[int, ...]
    confidence: float = CONFIDENCE
    metrics: dict[str, Estimate] = Field(
        description="by dotted name of the summary's field, as docs/reference/metrics.md lists "
        "them; a truth value counts as 0 or 1, so that its mean is a share of the seeds"
    )


def simulate_seeds(
    scenario: Scenario,
    num_seeds: int,
    *,
    stored: StoredProfile | None = None,
    progress: Progress | None = None,
    on_result: Callable[[SimulationResult], None] | None = None,
) -> ReplicatedSummary:
    """Run the scenario under `num_seeds` seeds, from its own upwards, and summarise them together.

    Only summaries are kept; `on_result` sees every run while it is there. The intervals hold the
    spread between seeds (arrivals, lengths, acceptance), not the profile's own error. Raises what
    `simulate` raises, and ScenarioError where no seed is asked for.
    """
    stored = stored or load_profile(scenario.profile)
    summaries = []
    for result in _results(scenario, seeds_of(scenario, num_seeds), stored, progress):
        if on_result is not None:
            on_result(result)
        summaries.append(summarise(result))
    return replicate(summaries)


def seeds_of(scenario: Scenario, num_seeds: int) -> range:
    """The scenario's own seed and the ones after it."""
    if num_seeds < 1:
        raise ScenarioError(f"{num_seeds} seeds; expected at least 1")
    return range(scenario.seed, scenario.seed + num_seeds)


def replicate(summaries: Sequence[Summary]) -> ReplicatedSummary:
    """Summaries of one scenario under several seeds as one."""
    numbers = [numbers_of(summary) for summary in summaries]
    return ReplicatedSummary(
        origin=summaries[0].origin,
        seeds=tuple(int(summary.origin["seed"]) for summary in summaries),
        metrics={
            name: estimate([each.get(name) for each in numbers], within=_range(name))
            for name in dict.fromkeys(name for each in numbers for name in each)
        },
    )


def numbers_of(summary: Summary) -> dict[str, float | None]:
    """Every number of a summary by its dotted name; a tuple's by index."""
    found = leaves(summary.model_dump(exclude={"origin"}))
    return {name: None if value is None else float(value) for name, value in found}


def leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Every value inside mappings and sequences, by its dotted name; in a sequence by index."""
    if not isinstance(value, dict | tuple | list):
        yield name, value
        return
    for key, each in value.items() if isinstance(value, dict) else enumerate(value):
        yield from leaves(each, f"{name}.{key}" if name else str(key))


def _range(name: str) -> tuple[float, float]:
    """Where a summary's number lies: nothing there is negative, and a share ends at 1."""
    is_share = name.endswith("_fraction") or name.startswith(("time.", "is_"))
    return (0.0, 1.0 if is_share else np.inf)


def _results(
    scenario: Scenario, seeds: range, stored: StoredProfile, progress: Progress | None
) -> Iterator[SimulationResult]:
    traces = None
    for index, seed in enumerate(seeds):

        def advance(ended: int, total: int, before: int = index) -> None:
            if progress is not None:
                progress(before * total + ended, len(seeds) * total)

        result = simulate(scenario.with_(seed=seed), stored=stored, traces=traces, progress=advance)
        traces = result.model.traces  # read once; the same under every seed
        yield result
