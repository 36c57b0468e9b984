"""Closed-form estimates for the configurations of a sweep; what they share is made once."""

import json

import numpy as np

from simcore.planner.load_estimate import LoadBasis, LoadEstimate, estimate_load, load_basis
from simcore.planner.sweep_profiles import Profiles
from simcore.scenario import Scenario

# What an estimate says of an objective; the others are not estimated.
ESTIMATED = {
    "e2e_mean_s": "e2e_s",
    "ttft_mean_s": "ttft_s",
    "tpot_mean_s": "tpot_s",
    "queue_mean_s": "queue_s",
}


class LoadEstimates:
    """Estimates of scenarios that differ in load, deployment or speculation mostly."""

    def __init__(self, profiles: Profiles) -> None:
        self.profiles = profiles
        self._bases: dict[str, LoadBasis] = {}

    def __call__(self, scenario: Scenario) -> LoadEstimate:
        """The scenario's estimate. Raises what `estimate_load` raises."""
        return estimate_load(self.profiles[scenario.profile], scenario, basis=self._basis(scenario))

    def mean_context_tokens(self, scenario: Scenario) -> int:
        """Prompt and half of the output of one of its requests, on average."""
        requests = self._basis(scenario).requests
        return int(np.mean(requests.prompt_tokens + requests.output_tokens / 2))

    def _basis(self, scenario: Scenario) -> LoadBasis:
        asked = scenario.model_dump(
            mode="json",
            include={
                "profile": True,
                "target": True,
                "contract": True,
                "sampling": True,
                "allow_mismatch": True,
                "workload": True,
                "speculation": {"proposer", "acceptance"},
            },
        )
        workload = asked["workload"]
        if workload["arrivals"]["kind"] != "recorded":
            del workload["arrivals"]
        else:
            del workload["arrivals"]["rate_scale"]
        key = json.dumps(asked, sort_keys=True)
        if key not in self._bases:
            self._bases[key] = load_basis(self.profiles[scenario.profile], scenario)
        return self._bases[key]


def objective_estimate(found: LoadEstimate, objective: str) -> float | None:
    """The objective in closed form; infinite where it grows for ever, None where nobody knows."""
    name = ESTIMATED.get(objective)
    if name is None:
        return None
    value: float | None = getattr(found, name)
    return np.inf if value is None else value
