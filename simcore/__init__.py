"""specplan's core: profiles, simulation and planning for speculative decoding.

Read three files first: `scenario.py` (what is asked), `serving/engine.py` (one step), and
`planner/plan.py` (the decision). A profile (cost law + acceptance traces) and a workload meet a
deployment in a scenario; `simulate` gives request and step records; metrics summarise them; the
planner compares scenarios; a report or a page shows it.
"""

from simcore.errors import InfeasibleError, ProfileError, ScenarioError, SpecplanError
from simcore.metrics.replicated import ReplicatedSummary, simulate_seeds
from simcore.metrics.summary import Summary, summarise
from simcore.planner.compare import compare, draft_lengths
from simcore.planner.comparison import Comparison
from simcore.planner.plan import make_plan
from simcore.profile.store import StoredProfile, bundled_profiles, load_profile, write_profile
from simcore.scenario import Scenario, dump_scenario, load_scenario
from simcore.scenario_files import open_scenario
from simcore.serving.caller_policy import PolicyView
from simcore.serving.simulation import SimulationResult, simulate

__all__ = [
    "Comparison",
    "InfeasibleError",
    "PolicyView",
    "ProfileError",
    "ReplicatedSummary",
    "Scenario",
    "ScenarioError",
    "SimulationResult",
    "SpecplanError",
    "StoredProfile",
    "Summary",
    "bundled_profiles",
    "compare",
    "draft_lengths",
    "dump_scenario",
    "load_profile",
    "load_scenario",
    "make_plan",
    "open_scenario",
    "simulate",
    "simulate_seeds",
    "summarise",
    "write_profile",
]
