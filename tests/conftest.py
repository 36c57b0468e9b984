"""Shared fixtures; synthetic profiles come from tests/factories.py."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from simcore.profile.store import load_profile
from simcore.scenario_files import open_scenario
from tests.factories import Recording, make_profile

settings.register_profile(
    "ci",
    derandomize=True,
    deadline=None,
    max_examples=40,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("ci")

SHARED = Path(os.environ.get("SPECPLAN_SHARED", Path(__file__).parents[2] / "shared"))


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Measurements beside the project; tests that need them skip where they are absent."""
    folder = SHARED / "data"
    if not folder.is_dir():
        pytest.skip(f"no {folder.name} folder of outside measurements beside the project")
    return folder


@pytest.fixture(scope="session")
def recorded_profile(tmp_path_factory: pytest.TempPathFactory):
    """A profile with traces: two proposers, two domains, greedy and sampled."""
    return make_profile(tmp_path_factory.mktemp("profile") / "recorded", Recording())


@pytest.fixture(scope="session")
def load_bundled():
    """A bundled scenario with its profile, by name."""

    def load(name: str):
        scenario = open_scenario(name)
        return scenario, load_profile(scenario.profile)

    return load
