"""A case: a scenario with all that its closed form and its simulation read, ready to be moved.

Maps and sensitivities ask the same two questions of many neighbours of one scenario; a case
answers both, by formula or by simulation, from one profile and one set of recordings.
"""

from dataclasses import dataclass, replace

from simcore.errors import ScenarioError
from simcore.matching import usable_gammas
from simcore.metrics.summary import mean_e2e_s, summarise
from simcore.planner.load_estimate import LoadBasis, LoadEstimate, estimate_load, load_basis
from simcore.planner.replication import at_fixed_length
from simcore.profile.store import StoredProfile
from simcore.scenario import Scenario
from simcore.serving.simulation import SimulationResult, simulate


@dataclass(frozen=True)
class Case:
    """One service under one load: profile, scenario and the basis of its closed form."""

    scenario: Scenario
    basis: LoadBasis

    @property
    def stored(self) -> StoredProfile:
        """The profile, moved or as it was stored."""
        return self.basis.stored

    @property
    def proposer(self) -> str:
        """What drafts; also where the case is off."""
        return self.basis.proposer

    def at_gamma(self, gamma: int) -> "Case":
        """The same under a chain of γ drafts; 0: off, no proposer loaded."""
        scenario = at_fixed_length(self.scenario, self.scenario.seed, self.proposer, gamma)
        return replace(self, scenario=scenario)

    def with_(self, **changes: object) -> "Case":
        """The same with other settings of the scenario that the basis does not depend on."""
        return replace(self, scenario=self.scenario.with_(**changes))

    def estimate(self) -> LoadEstimate:
        """In closed form."""
        return estimate_load(self.stored, self.scenario, self.basis)

    def simulate(self, seed: int | None = None) -> SimulationResult:
        """One run, under the scenario's own seed or another."""
        scenario = self.scenario if seed is None else self.scenario.with_(seed=seed)
        return simulate(scenario, stored=self.stored, traces=self.basis.traces)


def case_of(stored: StoredProfile, scenario: Scenario, proposer: str | None = None) -> Case:
    """The scenario as it stands; `proposer` in place of its own. Raises ScenarioError."""
    if proposer is not None:
        scenario = scenario.with_(**{"speculation.proposer": proposer})
    basis = load_basis(stored, scenario)
    named = scenario.with_(**{"speculation.proposer": basis.proposer})
    return Case(named, replace(basis, scenario=named))


def known_gammas(case: Case) -> tuple[int, ...]:
    """Draft lengths that the profile answers for."""
    return usable_gammas(case.stored, case.scenario, case.proposer)


def chosen_gamma(case: Case) -> int:
    """The scenario's own draft length, or where it is off the fastest of the measured ones."""
    own = case.scenario.speculation.num_speculative_tokens
    known = known_gammas(case)
    if own in known:
        return own
    if own > 0:
        raise ScenarioError(
            f"num_speculative_tokens {own}: profile {case.stored.profile.name!r} holds "
            f"{case.proposer!r} at {list(known)} only; choose one of these"
        )
    return min(known, key=lambda gamma: case.at_gamma(gamma).estimate().tpot_s)


def mean_seconds(result: SimulationResult, metric: str) -> float:
    """Mean "e2e" or "tpot" of the requests after the warm-up. Raises ScenarioError without any."""
    found = mean_e2e_s(result) if metric == "e2e" else summarise(result).tpot.mean_s
    if found is None or found != found:  # noqa: PLR0124 - NaN: no request was counted
        raise ScenarioError(
            "no request finished after the warm-up; simulate more requests (workload.num_requests)"
        )
    return found
