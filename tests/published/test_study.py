"""The kernel on the study's own lists and constants against its simulator and its engine."""

import numpy as np
import pytest

from tests.published.study import (
    BATCH_SIZES,
    LARGEST_FITTED_BATCH,
    STUDY_SIMULATOR,
    TOLERANCE,
    measured_speedups,
)
from tests.published.table import (
    PAGE,
    mean_absolute_errors,
    render,
    replace_table,
    replay_with_runaways,
)

NAMES = tuple(STUDY_SIMULATOR)


@pytest.mark.parametrize("name", NAMES)
def test_the_study_keeps_as_many_requests_as_it_reports(replayed, name):
    expected = {"gsm8k": 300, "instructcoder": 495}[name]  # less five runaways
    assert len(replayed[name][1].plain_s) == expected


@pytest.mark.parametrize("batch_size", BATCH_SIZES)
@pytest.mark.parametrize("name", NAMES)
def test_the_kernel_gives_the_speed_up_of_the_studys_own_simulator(replayed, name, batch_size):
    found = replayed[name][batch_size].speedup
    assert found == pytest.approx(STUDY_SIMULATOR[name][batch_size], abs=TOLERANCE[name])


@pytest.mark.parametrize("name", NAMES)
def test_the_steps_of_batches_beyond_the_fit_and_no_others_are_extrapolated(replayed, name):
    for size, times in replayed[name].items():
        expected = float(size > LARGEST_FITTED_BATCH)
        assert times.plain_extrapolated == expected
        assert times.speculative_extrapolated == expected


@pytest.mark.parametrize("name", NAMES)
def test_speculation_pays_less_in_every_larger_batch(replayed, name):
    assert (np.diff([replayed[name][size].speedup for size in BATCH_SIZES]) < 0).all()


@pytest.mark.parametrize("name", NAMES)
def test_predictions_lie_within_a_tenth_of_the_measured_speed_up(replayed, study_folder, name):
    for size, measured in measured_speedups(study_folder / "measured_speedup.csv", name).items():
        assert replayed[name][size].speedup == pytest.approx(measured, rel=0.1)


@pytest.mark.parametrize("name", NAMES)
def test_we_err_no_more_than_the_studys_simulator_does(replayed, study_folder, name):
    ours, study = mean_absolute_errors(replayed, study_folder)[name]
    assert ours <= study + TOLERANCE[name]


@pytest.mark.slow
def test_the_page_holds_the_table_that_this_version_makes(replayed, study_folder, tmp_path):
    page = PAGE.read_text(encoding="utf-8")
    runaways = replay_with_runaways(study_folder, tmp_path)
    fresh = replace_table(page, render(replayed, runaways, study_folder))
    assert page == fresh, "run `python -m tests.published.make_table` and commit the page"
