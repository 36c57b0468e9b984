"""Write a run's request and step records as tables."""

from pathlib import Path

from simcore.errors import SpecplanError
from simcore.scenario import dump_scenario
from simcore.serving.simulation import SimulationResult


def write_records(result: SimulationResult, folder: Path) -> list[Path]:
    """requests.csv, steps.csv and the scenario that reproduces them; refuses other folders."""
    if folder.exists() and any(folder.iterdir()) and not (folder / "requests.csv").exists():
        raise SpecplanError(f"{folder} exists and holds no records; choose an empty or new folder")
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / name for name in ("requests.csv", "steps.csv", "scenario.yaml")]
    result.requests.to_csv(files[0], index=False)
    result.steps.to_csv(files[1], index=False)
    files[2].write_text(dump_scenario(result.scenario), encoding="utf-8")
    return files
