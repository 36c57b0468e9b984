"""The command line of the validation: workload, predict, run, compare, in this order."""

import sys
from datetime import date
from pathlib import Path
from typing import Annotated

import torch
import typer

from calibration import provenance
from calibration.cli import one_line_errors
from calibration.distill import DistillSettings, distilled_draft
from calibration.errors import CalibrationError
from calibration.model.target import LoadedModel, load_decoder
from calibration.models import load_model
from calibration.proposers.ngram import NgramProposer
from calibration.records import Decoding
from calibration.serve.proposing import Proposing, by_draft_model, by_lookup
from calibration.validation.compare import (
    compare_cell,
    decide,
    load_runs,
    with_own_acceptance,
)
from calibration.validation.own_prompts import other_prompts, profile_of_own_prompts
from calibration.validation.plan import Plan
from calibration.validation.predict import Prediction, predict, read_prediction, sha256_of
from calibration.validation.results import Results
from calibration.validation.rows import read_rows, write_rows
from calibration.validation.runs import Bed, run_missing
from calibration.validation.step_account import padding, step_accounts
from calibration.validation.table import render, replace_tables
from calibration.validation.workload import make_rows, prompts_of
from simcore.profile.store import StoredProfile, load_profile

DTYPE = "bfloat16"  # the faster one on this target and one thread, by half and more

app = typer.Typer(
    help="Predict the serving loop, run it for real, compare.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
Folder = Annotated[Path, typer.Option(help="of profile, requests, prediction and results")]
Data = Annotated[Path, typer.Option(help="folder of the public data sets")]
Work = Annotated[Path, typer.Option(help="folder of the finished runs")]
OWN_PROMPTS = "own_prompts"  # folder of the second prediction
FOLDER, DATA, WORK = Path("docs/validation/loop"), Path("../shared/data"), Path("out/loop")


@app.command("workload")
def workload_command(
    folder: Folder = FOLDER,
    data: Data = DATA,
    requests: Annotated[int, typer.Option(help="of every cell")] = 240,
    seed: Annotated[int, typer.Option(help="of limits and arrivals")] = 0,
) -> None:
    """Choose prompts, record where the target ends, draw arrivals; writes requests.csv."""
    with one_line_errors():
        _check_unpredicted(folder)
        rows = make_rows(Plan(), data, _target(), requests, seed)
        folder.mkdir(parents=True, exist_ok=True)
        write_rows(folder / "requests.csv", rows)
    typer.echo(f"{len(rows)} requests, {sum(row.output_tokens for row in rows)} output tokens")


@app.command("predict")
def predict_command(
    folder: Folder = FOLDER,
    data: Data = DATA,
    own_prompts: Annotated[
        bool, typer.Option(help="a second prediction: acceptance on prompts of the same data sets")
    ] = False,
) -> None:
    """Simulate every cell from the profile; writes prediction.json, to be committed."""
    with one_line_errors():
        output = folder / OWN_PROMPTS if own_prompts else folder
        path, requests = output / "prediction.json", folder / "requests.csv"
        _check_unpredicted(output)
        stored = _profile(folder)
        if own_prompts:
            target = _target()
            prompts = other_prompts(read_rows(requests), data, target)
            decoding = Decoding(target, _proposing())
            stored = profile_of_own_prompts(Plan(), prompts, decoding, stored, output / "profile")
        found = predict(Plan(), stored, requests, sys.argv[1:], by_source=own_prompts)
        path.write_text(_json(found), encoding="utf-8")
    typer.echo(f"{len(found.cells)} cells; off saturates at {found.saturation_per_s:.2f}/s")


@app.command("run")
def run_command(
    folder: Folder = FOLDER,
    data: Data = DATA,
    work: Work = WORK,
    max_s: Annotated[float, typer.Option(help="begin no cell after so many seconds")] = 240.0,
) -> None:
    """Serve the cells that have not run yet; call it again until none is left."""
    with one_line_errors():
        left = run_missing(new_bed(folder, data), _work(folder, work), max_s, typer.echo)
    typer.echo(f"{left} runs are left")


@app.command("compare")
def compare_command(
    folder: Folder = FOLDER,
    data: Data = DATA,
    work: Work = WORK,
    page: Annotated[Path | None, typer.Option(help="rewrite the tables of this page")] = None,
) -> None:
    """Errors beside the noise floor; writes results.json."""
    with one_line_errors():
        second_path = folder / OWN_PROMPTS / "prediction.json"
        second = read_prediction(second_path, "predict --own-prompts")
        bed, runs_folder = new_bed(folder, data), _work(folder, work)
        law = _profile(folder).profile.cost
        cells = []
        for name in bed.prediction.plan.cells():
            runs = load_runs(runs_folder, name)
            explained = with_own_acceptance(bed, name, runs[0], padding(law))
            steps = step_accounts(bed, name, runs[0], law)
            cells.append(compare_cell((bed.prediction, second), name, runs, explained, steps))
        results = Results(
            date=date.today().isoformat(),
            command=provenance.command_line(sys.argv[1:], "calibration.validation"),
            versions=provenance.versions(),
            hardware=provenance.hardware("cpu"),
            num_requests=len(bed.rows),
            prediction_sha256=sha256_of(folder / "prediction.json"),
            own_prompts_sha256=sha256_of(second_path),
            cells=tuple(cells),
            decisions=tuple(decide(cells)),
        )
        (folder / "results.json").write_text(_json(results), encoding="utf-8")
    tables = render(results)
    if page is not None:
        page.write_text(replace_tables(page.read_text(encoding="utf-8"), tables), encoding="utf-8")
    typer.echo(tables)


def main() -> None:
    """Entry point."""
    torch.set_num_threads(1)
    app(prog_name="python -m calibration.validation")


def _check_unpredicted(folder: Path) -> None:
    if (folder / "prediction.json").exists():
        raise CalibrationError(
            f"'{folder}' holds a prediction; expected none: a prediction is made once, remove "
            "it with its results to begin anew, or name another --folder"
        )


def _json(found: Prediction | Results) -> str:
    return found.model_dump_json(indent=1) + "\n"


def _profile(folder: Path) -> StoredProfile:
    return load_profile(folder / "profile")


def _target() -> LoadedModel:
    return load_decoder(None, DTYPE, "cpu")


def new_bed(folder: Path, data: Path) -> Bed:
    """Models, prompts and prediction; refuses what does not belong together."""
    prediction = read_prediction(folder / "prediction.json")
    if prediction.requests_sha256 != sha256_of(folder / "requests.csv"):
        raise CalibrationError(
            "requests.csv is not the one that was predicted; expected the same file: predict anew"
        )
    target = _target()
    rows = read_rows(folder / "requests.csv")
    return Bed(prediction, rows, prompts_of(rows, data, target), target, _proposing())


def _proposing() -> dict[str, Proposing]:
    return {
        "ngram": by_lookup(NgramProposer),
        "draft_model": by_draft_model(load_decoder(_draft_folder(), DTYPE, "cpu")),
    }


def _draft_folder() -> Path:
    return distilled_draft(load_model(None, DTYPE, "cpu"), DistillSettings())


def _work(folder: Path, work: Path) -> Path:
    """Runs belong to one prediction."""
    return work / sha256_of(folder / "prediction.json")[:12]
