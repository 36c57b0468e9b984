"""Write a run's request and step records as tables."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from simcore.errors import SpecplanError
from simcore.folders import whole_folder
from simcore.report.plain import spreadsheet_text
from simcore.scenario import dump_scenario
from simcore.serving.simulation import SimulationResult

if TYPE_CHECKING:
    import pandas as pd

FILES = ("requests.csv", "steps.csv", "policy_changes.csv", "scenario.yaml")
CYCLES_FILE = "cycles.csv"  # where single cycles were kept
SEED_FOLDER = re.compile(r"seed_\d+")


def write_records(result: SimulationResult, folder: Path) -> list[Path]:
    """Requests, steps, policy changes, cycles if kept, and the scenario that reproduces them.

    Replaces an earlier run's records, of one seed or several. Raises SpecplanError where the
    folder holds anything else; after any error it is as it was.
    """
    check_records_folder(folder)
    with whole_folder(folder) as work:
        _write(result, work)
    names = FILES if result.cycle_records is None else (*FILES, CYCLES_FILE)
    return [folder / name for name in names]


@contextmanager
def seed_folders(folder: Path) -> Iterator[Callable[[SimulationResult], None]]:
    """A function that writes a run's records to `folder`/seed_N, N the seed it ran under.

    The folder appears whole when the block ends well; otherwise as `write_records`.
    """
    check_records_folder(folder)
    with whole_folder(folder) as work:

        def keep(result: SimulationResult) -> None:
            own = work / f"seed_{result.scenario.seed}"
            own.mkdir()
            _write(result, own)

        yield keep


def check_records_folder(folder: Path) -> None:
    """Refuse a folder that holds anything but records. Raises SpecplanError."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise SpecplanError(f"{folder} is a file; expected a new or empty folder")
    found = [path for path in folder.rglob("*") if not path.is_dir()]
    foreign = sorted(str(path.relative_to(folder)) for path in found if not _is_own(path, folder))
    if foreign:
        raise SpecplanError(
            f"{folder} holds {foreign[0]!r}, which writing records there would delete; choose an "
            "empty or new folder"
        )
    if found and not any(path.name == FILES[0] for path in found):
        raise SpecplanError(f"{folder} exists and holds no records; choose an empty or new folder")


def _is_own(path: Path, folder: Path) -> bool:
    *above, name = path.relative_to(folder).parts
    in_place = not above or (len(above) == 1 and SEED_FOLDER.fullmatch(above[0]) is not None)
    return in_place and name in (*FILES, CYCLES_FILE)


def _write(result: SimulationResult, folder: Path) -> None:
    counts = result.accepted_histogram
    names = [f"cycles_accepting_{length}" for length in range(counts.shape[1])]
    requests = result.requests.assign(**dict(zip(names, counts.T, strict=True)))
    _write_csv(requests, folder / "requests.csv")
    _write_csv(result.steps, folder / "steps.csv")
    _write_csv(result.policy_changes, folder / "policy_changes.csv")
    if result.cycle_records is not None:
        _write_csv(result.cycles, folder / CYCLES_FILE)
    (folder / "scenario.yaml").write_text(dump_scenario(result.scenario), encoding="utf-8")


def _write_csv(frame: "pd.DataFrame", path: Path) -> None:
    """Names of domains and proposers are free text; numbers are written as they are."""
    texts = frame.select_dtypes(include=["object", "string"])
    safe = {str(name): column.map(spreadsheet_text) for name, column in texts.items()}
    frame.assign(**safe).to_csv(path, index=False)
