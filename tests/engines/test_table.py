"""The page's engine tables: made from committed files, before the engine was measured."""

import json

import pytest

from tests.engines.figures import figures
from tests.engines.predict import predict
from tests.engines.studies import RESULTS, TINY, missing_models, prompt_texts
from tests.engines.table import BEGIN, END, PAGE, Compared, Decided, as_json, render


def test_the_page_holds_the_table_of_the_committed_results():
    page = PAGE.read_text(encoding="utf-8")
    held = page.split(BEGIN)[1].split(END)[0]
    assert held == render(RESULTS), "run `python -m tests.engines table` and commit the page"
    for path in RESULTS.glob("*/compared.json"):
        assert json.loads(path.read_text()) == as_json(path.parent)


@pytest.mark.parametrize("folder", sorted(RESULTS.glob("*/")), ids=lambda folder: folder.name)
def test_every_cell_was_predicted_before_it_was_measured(folder):
    predicted = json.loads((folder / "predicted.json").read_text())
    measured = [json.loads(path.read_text()) for path in sorted(folder.glob("measured_*.json"))]
    assert measured
    assert all(each["date"] > predicted["date"] for each in measured)
    assert {cell for each in measured for cell in each["cells"]} <= set(predicted["cells"])


@pytest.mark.slow
def test_this_version_predicts_what_was_predicted(tmp_path):
    """A change of rules or kernel moves the predictions: make them, and the table, anew."""
    if reason := missing_models("tiny"):
        pytest.skip(reason)
    held = json.loads((RESULTS / "tiny" / "predicted.json").read_text())
    found = predict(TINY, prompt_texts("tiny"), RESULTS / "tiny")
    assert found["rates_per_s"] == held["rates_per_s"]
    for cell, values in held["cells"].items():
        assert found["cells"][cell] == pytest.approx(values, rel=1e-6), cell


def test_error_is_signed_by_the_prediction_and_noise_is_the_repeats_distance():
    found = Compared(predicted=1.2, measured=(0.9, 1.1))
    assert found.error == pytest.approx(0.2)
    assert found.noise == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("predicted", "measured", "noise", "verdict"),
    [
        (1.3, 1.2, 0.1, "right"),
        (0.7, 0.8, 0.1, "right"),
        (1.3, 0.8, 0.1, "wrong"),
        (1.3, 1.05, 0.1, "too close"),
    ],
)
def test_a_decision_within_the_noise_is_neither_right_nor_wrong(
    predicted, measured, noise, verdict
):
    assert Decided(predicted, measured, noise).verdict == verdict


def test_figures_of_two_requests_by_hand():
    found = figures([0.0, 1.0], [0.5, 1.5], [2.5, 2.5], [5, 3], accepted_tokens=3, num_cycles=3)
    assert found["ttft_p50_s"] == 0.5
    assert found["tpot_p50_s"] == 0.5
    assert found["e2e_mean_s"] == 2.0
    assert found["output_tokens_per_s"] == pytest.approx(8 / 2.5)
    assert found["tokens_per_cycle"] == 2.0
