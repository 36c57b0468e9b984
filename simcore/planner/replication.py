"""Replications: the same candidates under many seeds, resampled recordings and cost errors.

One replication is one possible truth: its own arrivals and lengths, a bootstrap sample of the
recorded requests, and a cost of speculative steps off by the law's held-out error. All
candidates of a replication share it (common random numbers), so their ratio has little noise.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy import special

from simcore.acceptance.trace import TraceSet
from simcore.matching import load_traces, matching_records
from simcore.metrics.estimate import t_quantile
from simcore.profile.store import StoredProfile
from simcore.scenario import Scenario
from simcore.serving.setup import Variation
from simcore.serving.simulation import SimulationResult, simulate
from simcore.workload.sampling import bootstrap_pools

Source = Literal["requests", "cost", "seeds"]

SOURCES: tuple[Source, ...] = ("requests", "cost", "seeds")

Progress = Callable[[int, int], None]  # (simulations done, simulations in all, roughly)


@dataclass(frozen=True)
class Replication:
    """One draw of everything uncertain, or of the sources named; the others stay as they are."""

    seed: int
    index: int
    count: int = 1  # replications in all
    sources: tuple[Source, ...] = SOURCES

    def variation(self, stored: StoredProfile, traces: TraceSet | None, gamma: int) -> Variation:
        """The recorded requests of this replication, the same for every γ, and its cost error.

        Half of the error's variance is common to all draft lengths (the law as a whole), half is
        each one's own (its shapes): neither cancels when draft lengths are compared.
        """
        rng = np.random.default_rng([self.seed, self.index])
        resamples = traces is not None and "requests" in self.sources
        pools = bootstrap_pools(traces, rng) if resamples and traces is not None else None
        spread = cost_spread(stored) if "cost" in self.sources else 0.0
        both = (self._normal(0) + self._normal(1 + gamma)) / np.sqrt(2.0)
        return Variation(pools, float(np.exp(spread * both)))

    def _normal(self, stream: int) -> float:
        """This replication's share of a normal spread evenly over all of them, in random order.

        The draws of all replications average to zero, so the middle estimate carries no noise of
        the error that it is there to show.
        """
        order = np.random.default_rng([self.seed, stream]).permutation(self.count)
        return float(special.ndtri((order[self.index] + 0.5) / self.count))

    def scenario(self, base: Scenario, proposer: str | None, gamma: int) -> Scenario:
        """The candidate's scenario under this replication's seed."""
        seed = base.seed
        if "seeds" in self.sources:
            seed = int(np.random.SeedSequence([self.seed, self.index]).generate_state(1)[0])
        return at_fixed_length(base, seed, proposer, gamma)


def at_fixed_length(base: Scenario, seed: int, proposer: str | None, gamma: int) -> Scenario:
    """The scenario with one draft length; a plan's caveats say what policy or tree it left out."""
    return base.with_(
        **{
            "seed": seed,
            "speculation.proposer": proposer,
            "speculation.num_speculative_tokens": gamma,
            "speculation.policy": {"kind": "fixed"},
            "speculation.tree": None,
            "speculation.dynamic_tree": None,
            "speculation.num_proposed_tokens": None,
        }
    )


def cost_spread(stored: StoredProfile, phase: str = "target") -> float:
    """Standard deviation of the cost law's relative error, from its held-out samples; 0: unstated.

    A normal error has its median at 0.6745 and its 90th percentile at 1.645 of it; the wider of
    the two readings counts.
    """
    error = stored.profile.cost.held_out_error.get(phase)
    if error is None:
        return 0.0
    median, tail = (float(special.ndtri(0.5 + share / 2)) for share in (0.5, 0.9))
    return max(error.median_rel / median, error.p90_rel / tail)


def replications(
    seed: int, count: int, sources: tuple[Source, ...] = SOURCES
) -> tuple[Replication, ...]:
    """As many draws as asked for, of everything uncertain or of some sources alone."""
    return tuple(Replication(seed, index, count, sources) for index in range(count))


class Runner:
    """Runs candidates of one scenario, reading profile and traces once."""

    def __init__(
        self, scenario: Scenario, stored: StoredProfile, on_run: Callable[[], None] | None = None
    ) -> None:
        self.scenario = scenario
        self.stored = stored
        self._on_run = on_run
        self._traces: dict[str, TraceSet | None] = {}

    def traces(self, proposer: str) -> TraceSet | None:
        """The recorded requests of one proposer under the scenario's sampling."""
        if proposer not in self._traces:
            records = matching_records(self.stored, self.scenario, proposer)
            self._traces[proposer] = load_traces(self.stored, records)
        return self._traces[proposer]

    def run_as_measured(self, proposer: str, gamma: int) -> SimulationResult:
        """One candidate under the scenario's own seed, with the profile taken at its word."""
        asked = at_fixed_length(self.scenario, self.scenario.seed, proposer, gamma)
        return self._simulate(asked, proposer, None)

    def run(
        self, replication: Replication, proposer: str, gamma: int, scenario: Scenario | None = None
    ) -> SimulationResult:
        """One candidate under one replication; γ = 0 is off, on this proposer's recordings."""
        variation = replication.variation(self.stored, self.traces(proposer), gamma)
        asked = replication.scenario(scenario or self.scenario, proposer, gamma)
        return self._simulate(asked, proposer, variation)

    def _simulate(
        self, scenario: Scenario, proposer: str, variation: Variation | None
    ) -> SimulationResult:
        traces = self.traces(proposer)
        result = simulate(scenario, stored=self.stored, traces=traces, variation=variation)
        if self._on_run is not None:
            self._on_run()
        return result


@dataclass(frozen=True)
class Interval:
    """A ratio with its interval."""

    value: float
    lower: float
    upper: float


def ratio_interval(ratios: NDArray[np.float64]) -> Interval:
    """Geometric mean of replicated ratios with a 95 % interval for one more such truth.

    Each ratio carries its own draw of the uncertain inputs, so their spread, not the standard
    error of their mean, is the uncertainty; Student's t on the logarithms.
    """
    logs = np.log(ratios)
    middle = float(logs.mean())
    if len(logs) == 1:
        return Interval(float(np.exp(middle)), float(np.exp(middle)), float(np.exp(middle)))
    spread = logs.std(ddof=1) * np.sqrt(1.0 + 1.0 / len(logs))
    reach = float(t_quantile(len(logs)) * spread)
    low, high = middle - reach, middle + reach
    return Interval(float(np.exp(middle)), float(np.exp(low)), float(np.exp(high)))


def value_interval(
    values: NDArray[np.float64], *, within: tuple[float, float] = (0.0, np.inf)
) -> Interval | None:
    """Mean of replicated values with a 95 % interval for one more such truth; None without two.

    Student's t as in `ratio_interval`; on logarithms where nothing but 0 bounds the values and
    all lie above it, else on the values, cut to `within`.
    """
    seen = values[np.isfinite(values)]
    if len(seen) <= 1:
        return None
    if within == (0.0, np.inf) and (seen > 0.0).all():
        found = ratio_interval(seen)
        return Interval(float(seen.mean()), found.lower, found.upper)
    middle = float(seen.mean())
    spread = float(seen.std(ddof=1)) * np.sqrt(1.0 + 1.0 / len(seen))
    reach = float(t_quantile(len(seen)) * spread)
    low, high = np.clip([middle - reach, middle + reach], *within)
    return Interval(middle, float(low), float(high))


def run_counter(progress: Progress | None, total: int) -> Callable[[], None] | None:
    """Counts simulations for a progress bar whose end is not exactly known: short of the end."""
    if progress is None:
        return None
    done = 0

    def count() -> None:
        nonlocal done
        done += 1
        progress(min(done, total - 1), total)

    return count
