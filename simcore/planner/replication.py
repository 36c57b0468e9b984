"""Replications: the same candidates under many seeds, resampled recordings and cost errors.

One replication is one possible truth: its own arrivals and lengths, a bootstrap sample of the
recorded requests, and a cost of speculative steps off by the law's held-out error. All
candidates of a replication share it (common random numbers), so their ratio has little noise.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from simcore.acceptance.trace import TraceSet
from simcore.matching import load_traces, matching_records
from simcore.profile.store import StoredProfile
from simcore.scenario import Scenario
from simcore.serving.simulation import SimulationResult, Variation, simulate
from simcore.workload.sampling import bootstrap_pools

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Replication:
    """One draw of everything uncertain."""

    seed: int
    index: int

    def variation(self, stored: StoredProfile, traces: TraceSet | None) -> Variation:
        """The recorded requests and the cost error of this replication; the same for every γ."""
        rng = np.random.default_rng([self.seed, self.index])
        pools = bootstrap_pools(traces, rng) if traces is not None else None
        error = stored.profile.cost.held_out_error.get("target")
        # The median absolute error of a normal is 0.6745 of its standard deviation.
        spread = error.median_rel / float(special.ndtri(0.75)) if error else 0.0
        return Variation(pools, float(np.exp(spread * rng.standard_normal())))

    def scenario(self, base: Scenario, proposer: str | None, gamma: int) -> Scenario:
        """The candidate's scenario under this replication's seed."""
        seed = int(np.random.SeedSequence([self.seed, self.index]).generate_state(1)[0])
        return base.with_(
            **{
                "seed": seed,
                "speculation.proposer": proposer,
                "speculation.num_speculative_tokens": gamma,
            }
        )


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

    def run(
        self, replication: Replication, proposer: str, gamma: int, scenario: Scenario | None = None
    ) -> SimulationResult:
        """One candidate under one replication; γ = 0 is off, on this proposer's recordings."""
        traces = self.traces(proposer)
        result = simulate(
            replication.scenario(scenario or self.scenario, proposer, gamma),
            stored=self.stored,
            traces=traces,
            variation=replication.variation(self.stored, traces),
        )
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
    reach = float(special.stdtrit(len(logs) - 1, 0.5 + CONFIDENCE / 2) * logs.std(ddof=1))
    low, high = middle - reach, middle + reach
    return Interval(float(np.exp(middle)), float(np.exp(low)), float(np.exp(high)))
