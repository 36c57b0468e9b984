"""Find a scenario: one of the bundled ones by name, or a file of the user's own."""

from importlib import resources
from pathlib import Path

from simcore.errors import ScenarioError
from simcore.scenario import Scenario, load_scenario


def bundled_scenarios() -> dict[str, Path]:
    """Name -> file of the scenarios that specplan ships; the chats, to begin with, first."""
    root = Path(str(resources.files("simcore.scenarios")))
    found = sorted(root.glob("*.yaml"), key=lambda path: (not path.stem.endswith("_chat"), path))
    return {path.stem: path for path in found}


def open_scenario(name_or_path: str) -> Scenario:
    """The bundled scenario of this name, or the one in this file. Raises ScenarioError."""
    bundled = bundled_scenarios()
    path = bundled.get(name_or_path, Path(name_or_path))
    if not path.is_file():
        raise ScenarioError(
            f"no scenario {name_or_path!r}: it is neither a file nor bundled; bundled are "
            f"{', '.join(bundled)}"
        )
    return load_scenario(path)
