"""Predict the engine, then measure it. docs/engine-checks.md says how.

python -m tests.engines calibrate STUDY
python -m tests.engines import STUDY
python -m tests.engines predict STUDY
python -m tests.engines measure STUDY [CONDITION ..]
python -m tests.engines table
"""

import argparse
import json
import os
import sys
from pathlib import Path

from tests.engines.calibrate import calibrate, import_profiles, token_ids
from tests.engines.measure import measure
from tests.engines.predict import predict
from tests.engines.server import has_engine, serve
from tests.engines.studies import RESULTS, STUDIES, Study, missing_models
from tests.engines.table import write_page


def main() -> None:
    """One command."""
    said, study = _said()
    if said.command == "table":
        write_page(RESULTS)
        return
    folder = RESULTS / study.name
    if reason := _missing(said.command, study, folder):
        sys.stderr.write(f"error: {reason}\n")
        sys.exit(2)
    if said.command == "calibrate":
        _take_core(study)
        calibrate(study, folder)
        return
    if said.command == "import":
        import_profiles(study, folder)
        return
    ids = _ids(study)
    if said.command == "predict":
        _write(folder / "predicted.json", predict(study, ids, folder))
        return
    _take_core(study)
    predicted = json.loads((folder / "predicted.json").read_text(encoding="utf-8"))
    for condition in study.conditions:
        if not said.conditions or condition.name in said.conditions:
            found = measure(study, condition, ids, predicted["rates_per_s"])
            _write(folder / f"measured_{condition.name}.json", found)


def _said() -> tuple[argparse.Namespace, Study]:
    """The command line; argparse ends the program where it is wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.engines",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("command", choices=("calibrate", "import", "predict", "measure", "table"))
    parser.add_argument("study", nargs="?", choices=STUDIES, default="tiny", help="default: tiny")
    parser.add_argument("conditions", nargs="*", default=[], help="to measure; default: all")
    said = parser.parse_args()
    study = STUDIES[said.study]
    names = [condition.name for condition in study.conditions]
    if unknown := [name for name in said.conditions if name not in names]:
        parser.error(
            f"conditions {unknown} are not of study {study.name}; expected some of {names}"
        )
    if said.conditions and said.command != "measure":
        parser.error(f"{said.command} takes no conditions; expected them with measure")
    return said, study


def _missing(command: str, study: Study, folder: Path) -> str | None:
    """What the command lacks, and where it comes from; None: nothing."""
    needed = {
        "import": ("calibrate", [folder / "calibration.json"]),
        "predict": ("import", [folder / kind / "profile.json" for kind in study.kinds()]),
        "measure": ("predict", [folder / "predicted.json"]),
    }
    before, paths = needed.get(command, ("", []))
    for path in paths:
        if not path.is_file():
            return f"no {path.name} in '{path.parent}'; run `{before} {study.name}` first"
    if command != "import" and not has_engine():
        return "no engine; run `make engines`"
    return missing_models(study.name)


def _take_core(study: Study) -> None:
    """The client runs beside the engine's HTTP threads, and at once whatever else runs."""
    if study.cores is not None:
        os.sched_setaffinity(0, {study.cores[1]})
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))


def _ids(study: Study) -> list[list[int]]:
    with serve(study.setup(study.conditions[0])) as address:
        return token_ids(study, address)


def _write(path: Path, values: dict[str, object]) -> None:
    path.write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
