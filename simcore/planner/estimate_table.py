"""The closed form for off and every measured draft length of a scenario, side by side."""

import math
from typing import Any

from pydantic import Field

from simcore.errors import ScenarioError
from simcore.matching import usable_gammas
from simcore.planner.break_even import at_rate
from simcore.planner.load.accuracy import Accuracy, Regime, load_accuracy, regime_of
from simcore.planner.load_estimate import LoadBasis, LoadEstimate, estimate_load, load_basis
from simcore.planner.replication import Progress, at_fixed_length
from simcore.profile.schema import Frozen
from simcore.profile.store import StoredProfile, load_profile
from simcore.scenario import Scenario
from simcore.serving.simulation import origin


class Row(Frozen):
    """One candidate."""

    label: str
    estimate: LoadEstimate
    regime: Regime = Field(description="whose measured error holds here")


class EstimateTable(Frozen):
    """Every candidate under one load, and how far estimates lie from simulation."""

    origin: dict[str, Any]
    rows: tuple[Row, ...]
    accuracy: Accuracy


def estimate_table(
    scenario: Scenario,
    proposers: tuple[str, ...] = (),
    rate_per_s: float | None = None,
    *,
    stored: StoredProfile | None = None,
    progress: Progress | None = None,
) -> EstimateTable:
    """Off, then every draft length that the profile answers for, of each proposer.

    Policies and trees of the scenario take part as it states them, in a row of their own. Raises
    ScenarioError where it does not fit its profile or the rate is none.
    """
    if rate_per_s is not None:
        if not (math.isfinite(rate_per_s) and rate_per_s > 0.0):
            raise ScenarioError(f"--rate {rate_per_s}; expected requests a second above 0")
        scenario = at_rate(scenario, rate_per_s)
    stored = stored or load_profile(scenario.profile)
    candidates = _candidates(scenario, stored, proposers)
    bases: dict[str | None, LoadBasis] = {}
    rows = []
    for done, (label, each) in enumerate(candidates.items(), start=1):
        name = each.speculation.proposer
        if name not in bases:
            bases[name] = load_basis(stored, each)
        found = estimate_load(stored, each, bases[name])
        rows.append(Row(label=label, estimate=found, regime=regime_of(found)))
        if progress is not None:
            progress(done, len(candidates))
    return EstimateTable(
        origin=origin(scenario, stored), rows=tuple(rows), accuracy=load_accuracy()
    )


def _candidates(
    scenario: Scenario, stored: StoredProfile, proposers: tuple[str, ...]
) -> dict[str, Scenario]:
    """Label -> scenario; off first."""
    own = scenario.speculation
    names = proposers or _fitting(scenario, stored)
    found = {"off": at_fixed_length(scenario, scenario.seed, names[0], 0)}
    if own.policy.kind != "fixed" or own.num_draft_tokens != own.num_speculative_tokens:
        found["as stated"] = scenario
    for name in names:
        for gamma in usable_gammas(stored, scenario, name):
            label = f"{name} γ={gamma}"
            found[label] = at_fixed_length(scenario, scenario.seed, name, gamma)
    return found


def _fitting(scenario: Scenario, stored: StoredProfile) -> tuple[str, ...]:
    """Proposers measured under the scenario's contract and sampling on its domains; or an error."""
    found = []
    problem: ScenarioError | None = None
    for name in stored.profile.proposers:
        try:
            usable_gammas(stored, scenario, name)
        except ScenarioError as error:
            problem = problem or error
        else:
            found.append(name)
    if not found:
        raise problem or ScenarioError(f"profile {stored.profile.name!r} has no proposer")
    return tuple(found)
