"""specplan's core: profiles, simulation and planning for speculative decoding.

Read three files first: `scenario.py` (what is asked), `serving/engine.py` (one step), and
`planner/plan.py` (the decision). A profile (cost law + acceptance traces) and a workload meet a
deployment in a scenario; `simulate` gives request and step records; metrics summarise them; the
planner compares scenarios; a report or a page shows it.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from simcore.errors import (
        InfeasibleError,
        PlanError,
        ProfileError,
        ScenarioError,
        SpecplanError,
    )
    from simcore.metrics.replicated import ReplicatedSummary, simulate_seeds
    from simcore.metrics.summary import Summary, summarise
    from simcore.planner.best_tree import best_tree
    from simcore.planner.capacity import find_capacity
    from simcore.planner.capacity_document import Capacity
    from simcore.planner.case import Case, case_of
    from simcore.planner.compare import compare, draft_lengths
    from simcore.planner.comparison import Comparison
    from simcore.planner.crossover import crossover_map
    from simcore.planner.crossover_document import CrossoverMap
    from simcore.planner.estimate import estimate, estimate_survival
    from simcore.planner.load_estimate import (
        LoadBasis,
        LoadEstimate,
        estimate_load,
        load_basis,
    )
    from simcore.planner.plan import make_plan
    from simcore.planner.plan_diff import PlanDiff, diff_plans
    from simcore.planner.plan_file import read_plan
    from simcore.planner.replicas import find_replicas
    from simcore.planner.run_store import RunStore
    from simcore.planner.sensitivity import sensitivity
    from simcore.planner.sensitivity_document import Sensitivity
    from simcore.planner.sweep import sweep
    from simcore.planner.sweep_result import SweepResult
    from simcore.planner.sweep_space import SweepSpace, load_sweep
    from simcore.planner.tree_choice import BestTree
    from simcore.planner.uncertainty import Uncertainty, explain_uncertainty
    from simcore.profile.import_profile import import_profile
    from simcore.profile.store import StoredProfile, bundled_profiles, load_profile, write_profile
    from simcore.report import figures
    from simcore.report.alerts import alerts_yaml
    from simcore.report.flags import engine_settings
    from simcore.report.load_test import load_test
    from simcore.report.write import write_report
    from simcore.scenario import Scenario, dump_scenario, load_scenario
    from simcore.scenario_files import open_scenario
    from simcore.serving.caller_policy import CallerPolicy, PolicyView
    from simcore.serving.simulation import SimulationResult, simulate

__all__ = [
    "BestTree",
    "CallerPolicy",
    "Capacity",
    "Case",
    "Comparison",
    "CrossoverMap",
    "InfeasibleError",
    "LoadBasis",
    "LoadEstimate",
    "PlanDiff",
    "PlanError",
    "PolicyView",
    "ProfileError",
    "ReplicatedSummary",
    "RunStore",
    "Scenario",
    "ScenarioError",
    "Sensitivity",
    "SimulationResult",
    "SpecplanError",
    "StoredProfile",
    "Summary",
    "SweepResult",
    "SweepSpace",
    "Uncertainty",
    "alerts_yaml",
    "best_tree",
    "bundled_profiles",
    "case_of",
    "compare",
    "crossover_map",
    "diff_plans",
    "draft_lengths",
    "dump_scenario",
    "engine_settings",
    "estimate",
    "estimate_load",
    "estimate_survival",
    "explain_uncertainty",
    "figures",
    "find_capacity",
    "find_replicas",
    "import_profile",
    "load_basis",
    "load_profile",
    "load_scenario",
    "load_sweep",
    "load_test",
    "make_plan",
    "open_scenario",
    "read_plan",
    "sensitivity",
    "simulate",
    "simulate_seeds",
    "summarise",
    "sweep",
    "write_profile",
    "write_report",
]

# Each name is loaded when it is first used: a run without a plan need not wait for scipy.
_MODULES = {
    "BestTree": "simcore.planner.tree_choice",
    "CallerPolicy": "simcore.serving.caller_policy",
    "Capacity": "simcore.planner.capacity_document",
    "Case": "simcore.planner.case",
    "Comparison": "simcore.planner.comparison",
    "CrossoverMap": "simcore.planner.crossover_document",
    "InfeasibleError": "simcore.errors",
    "LoadBasis": "simcore.planner.load_estimate",
    "LoadEstimate": "simcore.planner.load_estimate",
    "PlanDiff": "simcore.planner.plan_diff",
    "PlanError": "simcore.errors",
    "PolicyView": "simcore.serving.caller_policy",
    "ProfileError": "simcore.errors",
    "ReplicatedSummary": "simcore.metrics.replicated",
    "RunStore": "simcore.planner.run_store",
    "Scenario": "simcore.scenario",
    "ScenarioError": "simcore.errors",
    "Sensitivity": "simcore.planner.sensitivity_document",
    "SimulationResult": "simcore.serving.simulation",
    "SpecplanError": "simcore.errors",
    "StoredProfile": "simcore.profile.store",
    "Summary": "simcore.metrics.summary",
    "SweepResult": "simcore.planner.sweep_result",
    "SweepSpace": "simcore.planner.sweep_space",
    "Uncertainty": "simcore.planner.uncertainty",
    "alerts_yaml": "simcore.report.alerts",
    "best_tree": "simcore.planner.best_tree",
    "bundled_profiles": "simcore.profile.store",
    "case_of": "simcore.planner.case",
    "compare": "simcore.planner.compare",
    "crossover_map": "simcore.planner.crossover",
    "diff_plans": "simcore.planner.plan_diff",
    "draft_lengths": "simcore.planner.compare",
    "dump_scenario": "simcore.scenario",
    "engine_settings": "simcore.report.flags",
    "estimate": "simcore.planner.estimate",
    "estimate_load": "simcore.planner.load_estimate",
    "explain_uncertainty": "simcore.planner.uncertainty",
    "estimate_survival": "simcore.planner.estimate",
    "find_capacity": "simcore.planner.capacity",
    "find_replicas": "simcore.planner.replicas",
    "import_profile": "simcore.profile.import_profile",
    "load_basis": "simcore.planner.load_estimate",
    "load_profile": "simcore.profile.store",
    "load_scenario": "simcore.scenario",
    "load_sweep": "simcore.planner.sweep_space",
    "load_test": "simcore.report.load_test",
    "make_plan": "simcore.planner.plan",
    "open_scenario": "simcore.scenario_files",
    "read_plan": "simcore.planner.plan_file",
    "sensitivity": "simcore.planner.sensitivity",
    "simulate": "simcore.serving.simulation",
    "simulate_seeds": "simcore.metrics.replicated",
    "summarise": "simcore.metrics.summary",
    "sweep": "simcore.planner.sweep",
    "write_profile": "simcore.profile.store",
    "write_report": "simcore.report.write",
}


def __getattr__(name: str) -> object:
    if name == "figures":  # a namespace: every figure of the dashboard
        return import_module("simcore.report.figures")
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


if "IPython" in sys.modules:  # a notebook, perhaps: results are shown as tables
    import_module("simcore.report.notebook").show_in_notebook()
