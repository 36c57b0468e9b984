"""Survival, cycle time and speed-up of every measured γ at a given batch and context.

One cycle by itself; a service under load is load_estimate.py.
"""

from dataclasses import dataclass

from simcore.cost.price import law_tables
from simcore.matching import load_traces, matching_records, measured_gammas
from simcore.planner.speedup import (
    CycleSurvival,
    SpeedupPoint,
    record_survival,
    speedup_point,
    trace_survival,
)
from simcore.profile.store import StoredProfile
from simcore.scenario import Scenario


@dataclass(frozen=True)
class Estimate:
    """One proposer over its measured γ, at several batch sizes and one context."""

    proposer: str
    context_tokens: int
    survivals: dict[int, CycleSurvival]  # γ -> survival at its own cycle starts
    points: dict[int, tuple[SpeedupPoint, ...]]  # batch size -> one point a γ, ascending


def estimate_survival(
    stored: StoredProfile, scenario: Scenario, proposer: str
) -> dict[int, CycleSurvival]:
    """γ -> survival over the scenario's domains, under its contract and sampling.

    Recorded requests are pooled; published rates are averaged over the domains.
    """
    records = matching_records(stored, scenario, proposer)
    traces = load_traces(stored, records)
    gammas = measured_gammas(records)
    if traces is not None:
        return {gamma: trace_survival(traces, gamma) for gamma in gammas}
    return {gamma: record_survival(records, gamma) for gamma in gammas}


def estimate(
    stored: StoredProfile,
    scenario: Scenario,
    proposer: str,
    *,
    batch_sizes: tuple[int, ...],
    context_tokens: int,
    survivals: dict[int, CycleSurvival] | None = None,
) -> Estimate:
    """Speed-up of every measured γ by the cost law alone: no queueing, no prefill.

    `survivals` from `estimate_survival` avoids reading the traces again. Raises ScenarioError
    where the profile was not measured under the scenario's contract and sampling.
    """
    survivals = survivals or estimate_survival(stored, scenario, proposer)
    law = stored.profile.cost
    plain, speculative = law_tables(law, None), law_tables(law, proposer)
    points = {
        batch_size: tuple(
            speedup_point(plain, speculative, survival, batch_size, context_tokens)
            for survival in survivals.values()
        )
        for batch_size in batch_sizes
    }
    return Estimate(proposer, context_tokens, survivals, points)
