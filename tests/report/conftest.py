"""One small plan, and the same plan with every free text turned hostile."""

from pathlib import Path

import pytest

from simcore.planner.document import Plan
from simcore.planner.plan import make_plan
from simcore.profile.store import StoredProfile, load_profile
from simcore.scenario import Scenario, load_scenario
from tests.report.hostile import TEXTS, planted

SCENARIO = Path(__file__).parents[2] / "simcore" / "scenarios" / "h100_chat.yaml"


@pytest.fixture(scope="session")
def scenario() -> Scenario:
    return load_scenario(SCENARIO).with_(**{"workload.num_requests": 200})


@pytest.fixture(scope="session")
def stored(scenario: Scenario) -> StoredProfile:
    return load_profile(scenario.profile)


@pytest.fixture(scope="session")
def plan(scenario: Scenario, stored: StoredProfile) -> Plan:
    return make_plan(scenario, stored=stored, num_replications=2)


@pytest.fixture(params=TEXTS, ids=range(len(TEXTS)))
def hostile_text(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def hostile_plan(plan: Plan, hostile_text: str) -> Plan:
    return planted(plan, hostile_text)
