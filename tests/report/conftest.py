"""One small plan, and the same plan with every free text turned hostile."""

import json
from pathlib import Path

import pytest

from simcore.planner.document import Plan
from simcore.planner.plan import make_plan
from simcore.profile.store import StoredProfile, load_profile
from simcore.scenario import Scenario, load_scenario

SCENARIO = Path(__file__).parents[2] / "simcore" / "scenarios" / "h100_chat.yaml"
HOSTILE = (
    "<script>alert(1)</script>",
    "$(rm -rf ~)",
    "`touch /tmp/x`",
    '\' ; echo "pwned" #',
    "line\n# heading\n```\n---",
    "a|b [x](javascript:alert(1)) <img src=x onerror=alert(1)>",
)


@pytest.fixture(scope="session")
def scenario() -> Scenario:
    return load_scenario(SCENARIO).with_(**{"workload.num_requests": 200})


@pytest.fixture(scope="session")
def stored(scenario: Scenario) -> StoredProfile:
    return load_profile(scenario.profile)


@pytest.fixture(scope="session")
def plan(scenario: Scenario, stored: StoredProfile) -> Plan:
    return make_plan(scenario, stored=stored, num_replications=2)


@pytest.fixture(params=HOSTILE, ids=range(len(HOSTILE)))
def hostile_text(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def hostile_plan(plan: Plan, hostile_text: str) -> Plan:
    """The plan with `hostile_text` wherever a profile or a scenario may put free text."""
    proposer = plan.decision.proposer
    assert proposer is not None
    raw = json.loads(plan.model_dump_json().replace(json.dumps(proposer), json.dumps(hostile_text)))
    raw["scenario"]["name"] = hostile_text
    raw["decision"]["reason"] = hostile_text
    raw["caveats"] = [hostile_text]
    card = raw["profile"]
    for each in card["proposers"].values():
        each["kind"] = "eagle"  # a kind is one of three words, never free text
    card["title"] = hostile_text
    card["provenance"] |= {"command": hostile_text, "date": hostile_text, "notes": [hostile_text]}
    card["provenance"]["versions"] = {hostile_text: hostile_text}
    for key in ("name", "revision", "tokenizer", "quantization"):
        card["identity"]["target"][key] = hostile_text
    card["identity"]["hardware"]["name"] = hostile_text
    card["identity"]["engine"]["name"] = hostile_text
    return Plan.model_validate_json(json.dumps(raw))
