"""The committed error of the closed form is that of the current version."""

import pytest

from simcore.planner.load.accuracy import ACCURACY_FILE, METRICS, REGIMES, load_accuracy
from tests.planner.estimate_page import PAGE, render
from tests.planner.estimate_study import draw_points, table
from tests.planner.make_estimate_table import NUM_POINTS, SEED

TOLERANCE = 0.002  # of a relative error: libraries may round otherwise


def test_the_page_shows_the_errors_that_the_package_ships():
    assert ACCURACY_FILE.is_file()
    assert render(load_accuracy()) in PAGE.read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_committed_errors_are_those_of_this_version():
    committed = load_accuracy()
    found = table(list(draw_points(SEED, NUM_POINTS)))
    for regime in REGIMES:
        of_regime = committed.regimes[regime]
        assert found[regime]["num_points"] == of_regime.num_points
        for metric in METRICS:
            error = getattr(of_regime, metric)
            for name in ("median_rel", "p90_rel"):
                value = getattr(error, name)
                expected = float("inf") if value is None else value
                assert found[regime][metric][name] == pytest.approx(expected, abs=TOLERANCE)
