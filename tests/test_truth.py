"""The shipped records of predicted against measured."""

import math

import pytest

from simcore.report.truth_figures import METRICS, truth_figure
from simcore.report.truth_text import choice_rows, choices_sentence, error_rows, median_rows
from simcore.truth import Figure, truth
from tests.make_truth import make


def test_the_records_are_those_of_the_committed_results():
    assert truth() == make(), "run: python -m tests.make_truth"


@pytest.mark.parametrize("study", truth().studies, ids=lambda each: each.name)
def test_every_figure_of_a_study_is_shown(study):
    count = sum(len(each.figures) for each in study.cells)
    assert len(error_rows(study)) == count
    latencies = [each for cell in study.cells for each in cell.figures if each.metric in METRICS]
    *series, _line = truth_figure(study).data
    assert sum(len(each.x) for each in series) == len(latencies)
    assert len(choice_rows(study)) == len(study.choices) > 0
    assert {row["figure"] for row in median_rows(study)} >= {"TTFT p50", "E2E p95"}


@pytest.mark.parametrize("study", truth().studies, ids=lambda each: each.name)
def test_every_decision_is_about_a_measured_cell_and_its_verdict_follows(study):
    cells = {each.name for each in study.cells}
    for each in study.choices:
        assert each.cell in cells
        if each.verdict == "right":
            assert (each.predicted > 1.0) == (each.measured > 1.0)
        if each.verdict == "wrong":
            assert (each.predicted > 1.0) != (each.measured > 1.0)
    right = sum(each.verdict == "right" for each in study.choices)
    assert choices_sentence(study.choices).startswith(f"{right} of ")


def test_error_and_noise_are_those_of_two_measurements():
    figure = Figure(metric="e2e_p50_s", unit="s", predicted=1.2, measured=(0.9, 1.1))
    assert math.isclose(figure.error, 0.2)
    assert math.isclose(figure.noise, 0.2)
    once = Figure(metric="e2e_p50_s", unit="s", predicted=1.0, measured=(1.0,))
    assert (once.error, once.noise) == (0.0, None)
    nothing = Figure(metric="accepted", unit="tokens", predicted=0.1, measured=(0.0, 0.0))
    assert (nothing.error, nothing.noise) == (None, None)
