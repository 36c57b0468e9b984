"""The prediction: every cell simulated from the profile, before anything of it has run."""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

from calibration import provenance
from calibration.errors import CalibrationError
from calibration.validation.figures import Figures, deviation_of, figures_of, mean_of
from calibration.validation.plan import OFF, CellName, Plan
from calibration.validation.rows import Row, read_rows
from simcore.profile.schema import Frozen
from simcore.profile.store import StoredProfile
from simcore.serving.simulation import simulate


class PredictedCell(Frozen):
    """One cell: the mean over the seeds, and how far their draws of acceptance are apart."""

    load: str
    proposer: str
    rate_per_s: float
    figures: Figures
    deviation: Figures


class Prediction(Frozen):
    """What is committed before the run; `read_prediction` reads it."""

    date: str
    command: str
    versions: dict[str, str]
    profile_sha256: str
    requests_sha256: str
    plan: Plan
    saturation_per_s: float
    cells: tuple[PredictedCell, ...]

    def cell(self, name: CellName) -> PredictedCell:
        """The prediction of one cell."""
        (found,) = (c for c in self.cells if (c.load, c.proposer) == tuple(name))
        return found


def read_prediction(path: Path, command: str = "predict") -> Prediction:
    """A committed prediction; raises CalibrationError where it is missing or not whole."""
    try:
        return Prediction.model_validate_json(path.read_text(encoding="utf-8"))
    except OSError:
        said = "there is none"
    except ValueError as error:  # pydantic's, or bytes that are no text
        said = f"it cannot be read ({str(error).splitlines()[0]})"
    raise CalibrationError(
        f"'{path}': {said}; expected a prediction: run `{command}`, and commit it"
    )


def predict(
    plan: Plan,
    stored: StoredProfile,
    requests_csv: Path,
    arguments: Sequence[str] = (),
    *,
    by_source: bool = False,
) -> Prediction:
    """Simulate every cell with the rows' lengths and arrivals, and the profile's acceptance.

    `by_source`: the profile's domains are the data sets, not the calibration's.
    """
    rows = read_rows(requests_csv)
    if by_source:
        rows = [replace(row, domain=row.source) for row in rows]
    saturation_per_s = _saturation_per_s(plan, stored, requests_csv, rows)
    cells = []
    for name in plan.cells():
        rate_per_s = round(plan.loads[name.load] * saturation_per_s, 3)
        workload = recorded_workload(requests_csv, rows, rate_per_s)
        runs = [simulated(plan, stored, workload, name, seed) for seed in plan.seeds]
        cells.append(
            PredictedCell(
                load=name.load,
                proposer=name.proposer,
                rate_per_s=rate_per_s,
                figures=mean_of(runs),
                deviation=deviation_of(runs),
            )
        )
    return Prediction(
        date=date.today().isoformat(),
        command=provenance.command_line(list(arguments), "calibration.validation"),
        versions=provenance.versions(),
        profile_sha256=stored.content_hash,
        requests_sha256=sha256_of(requests_csv),
        plan=plan,
        saturation_per_s=saturation_per_s,
        cells=tuple(cells),
    )


def simulated(
    plan: Plan, stored: StoredProfile, workload: dict[str, Any], name: CellName, seed: int
) -> Figures:
    """One run of one cell."""
    result = simulate(plan.scenario(name.proposer, workload, seed), stored=stored)
    return figures_of(result.request_records, result.step_records)


def sha256_of(path: Path) -> str:
    """Of a file's bytes; raises CalibrationError where there is none."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise CalibrationError(
            f"cannot read '{path}' ({error.strerror}); expected it beside the prediction that "
            "was made from it"
        ) from error


def recorded_workload(
    requests_csv: Path, rows: Sequence[Row], rate_per_s: float | None
) -> dict[str, Any]:
    """The rows at a rate; None: all at once."""
    recording = {"path": str(requests_csv), "format": "csv"}
    domains: dict[str, float] = {}
    for row in rows:
        domains[row.domain] = domains.get(row.domain, 0.0) + 1.0
    at_rate = {
        "arrivals": {"kind": "recorded", "rate_scale": rate_per_s, **recording},
        "lengths": {"kind": "file_rows"},
    }
    at_once = {
        "arrivals": {"kind": "batch"},
        "lengths": {"kind": "file_rows", "file": recording},
    }
    chosen = at_once if rate_per_s is None else at_rate
    return {**chosen, "domains": domains, "num_requests": None}


def _saturation_per_s(
    plan: Plan, stored: StoredProfile, requests_csv: Path, rows: Sequence[Row]
) -> float:
    """Requests a second that are served with speculation off when all wait from the start."""
    workload = recorded_workload(requests_csv, rows, None)
    result = simulate(plan.scenario(OFF, workload), stored=stored)
    return len(rows) / float(result.request_records["finish_s"].max())
