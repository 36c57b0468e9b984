"""Write a run's request and step records as tables."""

from pathlib import Path

from simcore.errors import SpecplanError
from simcore.folders import whole_folder
from simcore.scenario import dump_scenario
from simcore.serving.simulation import SimulationResult


def write_records(result: SimulationResult, folder: Path) -> list[Path]:
    """requests.csv, steps.csv and the scenario that reproduces them; refuses other folders."""
    if folder.exists() and any(folder.iterdir()) and not (folder / "requests.csv").exists():
        raise SpecplanError(f"{folder} exists and holds no records; choose an empty or new folder")
    with whole_folder(folder) as work:
        result.requests.to_csv(work / "requests.csv", index=False)
        result.steps.to_csv(work / "steps.csv", index=False)
        (work / "scenario.yaml").write_text(dump_scenario(result.scenario), encoding="utf-8")
    return [folder / name for name in ("requests.csv", "steps.csv", "scenario.yaml")]
