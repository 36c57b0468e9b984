"""One service several ways, from light load to saturation: closed form, and simulated."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from simcore.errors import ScenarioError
from simcore.matching import acceptance_model, usable_gammas
from simcore.metrics.estimate import Estimate
from simcore.metrics.replicated import simulate_seeds
from simcore.planner.batch_table import best_rows, token_times
from simcore.planner.break_even import at_rate
from simcore.planner.load_estimate import LoadBasis, LoadEstimate, load_basis, load_model
from simcore.planner.replication import Progress, at_fixed_length, run_counter
from simcore.policy_defaults import DraftShape, default_policy
from simcore.profile.store import StoredProfile
from simcore.scenario import Scenario
from simcore.workload.load import mean_rate_per_s

NUM_RATES = 24
LIGHTEST = 0.04  # of the largest rate that any of the ways can carry
SIMULATED_METRICS = ("goodput_fraction", "goodput_per_s", "tpot.mean_s", "e2e.mean_s")


@dataclass(frozen=True)
class RateCurve:
    """One way to serve, over the same rates."""

    label: str
    scenario: Scenario
    points: tuple[LoadEstimate, ...]


@dataclass(frozen=True)
class RateCurves:
    """All ways; the first is the reference that the others cross."""

    rates_per_s: tuple[float, ...]
    curves: tuple[RateCurve, ...]

    def crossing_rate_per_s(self, index: int) -> float | None:
        """The lowest rate from which way `index` has no shorter TPOT than the first; or None.

        None where it is faster at every rate that both can carry, or never.
        """
        gains = [
            one.tpot_s / other.tpot_s - 1.0
            for one, other in zip(self.curves[0].points, self.curves[index].points, strict=True)
            if one.is_stable and other.is_stable
        ]
        for place in range(1, len(gains)):
            before, after = gains[place - 1], gains[place]
            if before > 0.0 >= after:
                share = before / (before - after)
                low, high = self.rates_per_s[place - 1 : place + 1]
                return low + share * (high - low)
        return None


@dataclass(frozen=True)
class SimulatedPoint:
    """One way at one rate, over several seeds."""

    label: str
    rate_per_s: float
    metrics: dict[str, Estimate]  # SIMULATED_METRICS


def ways_to_serve(
    stored: StoredProfile,
    scenario: Scenario,
    *,
    basis: LoadBasis | None = None,
) -> dict[str, Scenario]:
    """Off, the draft length in force held fixed, and an adaptive policy; label -> scenario.

    Adaptive is the scenario's own policy; where that is fixed, a table of draft lengths by batch
    from the cost law and the recorded survival. Where γ is 0, off alone. `basis` (load_basis) is
    made where it is not given.
    """
    speculation = scenario.speculation
    proposer, gamma = speculation.proposer, speculation.num_speculative_tokens
    ways = {"off": at_fixed_length(scenario, scenario.seed, proposer, 0)}
    if gamma == 0 or proposer is None:
        return ways
    name = f"{proposer}, {speculation.drafts}"
    if speculation.policy.kind != "fixed":
        fixed = scenario.with_(**{"speculation.policy": {"kind": "fixed"}})
        return ways | {f"{name} fixed": fixed, f"{proposer}, {speculation.served}": scenario}
    ways[f"{name} fixed"] = scenario
    shape = DraftShape.of(speculation)
    if not shape.is_tree:
        basis = basis or load_basis(stored, scenario)
        table = _table(scenario, basis, proposer)
        policy = default_policy("batch_size_table", shape, table=table).model_dump(mode="json")
        ways[f"up to γ = {gamma} by batch"] = scenario.with_(**{"speculation.policy": policy})
    return ways


def _table(scenario: Scenario, basis: LoadBasis, proposer: str) -> tuple[tuple[int, int, int], ...]:
    """Draft lengths up to γ by batch, as a recommendation makes them.

    Acceptance by position serves one length only: the table is then of γ and off.
    """
    gamma = scenario.speculation.num_speculative_tokens
    model = acceptance_model(basis.stored, scenario, proposer, gamma, traces=basis.traces)
    usable = usable_gammas(basis.stored, scenario, proposer)
    least = gamma if model.name == "positional" else 1
    lengths = tuple(length for length in usable if least <= length <= gamma)
    seats = scenario.deployment.max_num_seqs
    rows = best_rows(token_times(scenario, basis, lengths), seats)
    return tuple((row.first, row.last, row.num_speculative_tokens) for row in rows)


def rate_curves(
    stored: StoredProfile, ways: Mapping[str, Scenario], basis: LoadBasis | None = None
) -> RateCurves:
    """Every way in closed form from LIGHTEST to the most that any can carry.

    All ways have one workload. Raises ScenarioError where it has no rate, or a way has no closed
    form.
    """
    first = next(iter(ways.values()))
    if mean_rate_per_s(first.workload) is None:
        raise ScenarioError(
            f"{first.workload.arrivals.kind!r} arrivals have no rate to vary; choose a workload "
            "with one"
        )
    basis = basis or load_basis(stored, first)
    models = {label: load_model(stored, each, basis) for label, each in ways.items()}
    top = max(each.max_rate_per_s for each in models.values())
    rates_per_s = tuple(float(rate) for rate in np.linspace(LIGHTEST * top, top, NUM_RATES))
    curves = tuple(
        RateCurve(label, each.scenario, tuple(each.at_rate(rate) for rate in rates_per_s))
        for label, each in models.items()
    )
    return RateCurves(rates_per_s, curves)


def simulated_curves(
    stored: StoredProfile,
    ways: Mapping[str, Scenario],
    rates_per_s: tuple[float, ...],
    *,
    num_seeds: int,
    progress: Progress | None = None,
) -> tuple[SimulatedPoint, ...]:
    """Every way at every rate under the same seeds, with intervals over them."""
    total = len(ways) * len(rates_per_s) * num_seeds
    count = run_counter(progress, total)

    def look(_result: object) -> None:
        if count is not None:
            count()

    points = []
    for label, each in ways.items():
        for rate in rates_per_s:
            found = simulate_seeds(at_rate(each, rate), num_seeds, stored=stored, on_result=look)
            metrics = {name: found.metrics[name] for name in SIMULATED_METRICS}
            points.append(SimulatedPoint(label, rate, metrics))
    if progress is not None:
        progress(total, total)
    return tuple(points)
