"""The heat map of a sweep: values, marks, and refusals where a cell would hold two services."""

import pytest

from simcore import ScenarioError
from simcore.planner.sweep import sweep
from simcore.planner.sweep_space import parse_sweep
from simcore.report.figures import load_gamma_figure
from tests.factories import make_scenario

GAMMA = "speculation.num_speculative_tokens"


@pytest.fixture(scope="module")
def found(recorded_profile):
    axes = {
        "load_rate_per_s": [1.0, 3.0],
        "speculation.proposer": ["ngram", "draft_model"],
        GAMMA: [0, 2, 4],
    }
    lengths = {"kind": "fixed", "prompt_tokens": 20, "output_tokens": 30}
    scenario = make_scenario(recorded_profile, **{"workload.lengths": lengths})
    return sweep(parse_sweep({"scenario": scenario, "axes": axes, "seeds": 2}, "test"))


def test_every_cell_is_the_speed_up_over_plain_decoding_at_its_load(found):
    figure = load_gamma_figure(found, where={"speculation.proposer": "draft_model"})
    heat = figure.data[0]
    table = found.configurations
    for x, load in enumerate([1.0, 3.0]):
        own = table[table["load_rate_per_s"] == load]
        off = own[own[GAMMA] == 0]["e2e_mean_s"].item()
        for y, gamma in enumerate([0, 2, 4]):
            chosen = own[own[GAMMA] == gamma]
            if gamma:
                chosen = chosen[chosen["speculation.proposer"] == "draft_model"]
            assert heat.z[y][x] == pytest.approx(off / chosen["e2e_mean_s"].item())
    assert list(heat.x) == ["1", "3"]
    assert list(heat.y) == ["0", "2", "4"]


def test_the_best_of_each_load_is_marked_and_any_column_can_be_shown(found):
    figures = [
        load_gamma_figure(found, value="ttft_p95_s", where={"speculation.proposer": each})
        for each in ("ngram", "draft_model")
    ]
    texts = "".join(cell for figure in figures for row in figure.data[0].text for cell in row)
    assert "★" in texts


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "fix \\['speculation.proposer'\\]"),
        ({"where": {"deployment.replicas": 1}}, "no axis"),
        ({"value": "beauty", "where": {"speculation.proposer": "ngram"}}, "no column"),
    ],
)
def test_what_cannot_be_drawn_says_why(found, options, message):
    with pytest.raises(ScenarioError, match=message):
        load_gamma_figure(found, **options)
