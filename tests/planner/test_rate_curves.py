"""Ways to serve from light load to saturation."""

import pytest

from simcore.errors import ScenarioError
from simcore.metrics.replicated import simulate_seeds
from simcore.planner.break_even import at_rate
from simcore.planner.load_estimate import estimate_load
from simcore.planner.rate_curves import (
    RateCurve,
    RateCurves,
    rate_curves,
    simulated_curves,
    ways_to_serve,
)
from simcore.profile.store import load_profile
from simcore.report.rate_figures import goodput_rate_figure, tpot_rate_figure
from simcore.scenario_files import open_scenario


@pytest.fixture(scope="module")
def stored():
    return load_profile("llama31_8b_h100")


@pytest.fixture(scope="module")
def scenario():
    return open_scenario("h100_chat")


@pytest.fixture(scope="module")
def curves(stored, scenario):
    return rate_curves(stored, ways_to_serve(stored, scenario))


def test_off_fixed_and_adaptive_are_compared_where_something_is_drafted(stored, scenario):
    off, fixed, adaptive = ways_to_serve(stored, scenario).values()
    assert off.speculation.num_speculative_tokens == 0
    assert fixed == scenario
    assert adaptive.speculation.policy.kind == "batch_size_table"
    burst = open_scenario("burst")
    kinds = [each.speculation.policy.kind for each in ways_to_serve(stored, burst).values()]
    assert kinds == ["fixed", "fixed", burst.speculation.policy.kind]
    without = scenario.with_(speculation={"proposer": "eagle"})
    assert list(ways_to_serve(stored, without)) == ["off"]


@pytest.mark.parametrize(
    ("name", "speculation"),
    [
        ("agent_sessions", {"proposer": "ngram", "num_speculative_tokens": 7}),
        (
            "cpu_chat",
            {"proposer": "ngram", "num_speculative_tokens": 3, "acceptance": "positional"},
        ),
    ],
)
def test_acceptance_by_position_gives_an_adaptive_way_that_can_be_simulated(name, speculation):
    base = open_scenario(name)
    profile = load_profile(base.profile)
    short = base.with_(speculation=speculation, **{"workload.num_requests": 40})
    ways = ways_to_serve(profile, short)
    adaptive = list(ways.values())[-1].speculation
    assert adaptive.policy.kind == "batch_size_table"
    assert set(adaptive.draft_lengths()) <= {0, adaptive.num_speculative_tokens}
    assert len(simulated_curves(profile, ways, (1.0,), num_seeds=2)) == len(ways)


def test_every_point_is_the_closed_form_at_its_rate(curves, stored):
    for curve in curves.curves:
        for place in (0, 7, 15):
            alone = estimate_load(stored, at_rate(curve.scenario, curves.rates_per_s[place]))
            assert curve.points[place].tpot_s == pytest.approx(alone.tpot_s, rel=1e-9)


def test_the_table_decodes_as_fast_as_off_and_the_fixed_length_at_every_rate(curves):
    off, fixed, table = (curve.points for curve in curves.curves)
    for points in zip(off, fixed, table, strict=True):
        if all(each.is_stable for each in points):
            # Rows that gain less than 1 % are left out; batches spread about their mean.
            assert points[2].tpot_s <= 1.02 * min(points[0].tpot_s, points[1].tpot_s)
    lengths = [row[2] for row in curves.curves[2].scenario.speculation.policy.table]
    assert lengths == sorted(lengths, reverse=True)


def test_the_rates_reach_the_most_that_any_way_can_carry(curves, stored):
    most = max(estimate_load(stored, each.scenario).max_rate_per_s for each in curves.curves)
    assert curves.rates_per_s[-1] == pytest.approx(most)


def test_a_crossing_lies_where_two_straight_lines_meet(stored, scenario):
    point = estimate_load(stored, scenario)

    def line(values):
        changed = [point.model_copy(update={"tpot_s": each, "is_stable": True}) for each in values]
        return RateCurve("x", scenario, tuple(changed))

    rates = (1.0, 2.0, 3.0)
    flat, rising = line((0.1, 0.1, 0.1)), line((0.08, 0.1, 0.13))
    assert RateCurves(rates, (flat, rising)).crossing_rate_per_s(1) == pytest.approx(2.0)
    assert RateCurves(rates, (flat, line((0.05,) * 3))).crossing_rate_per_s(1) is None
    assert RateCurves(rates, (flat, line((0.2,) * 3))).crossing_rate_per_s(1) is None


def test_simulated_marks_are_those_of_the_seeds(stored, scenario, curves):
    short = scenario.with_(**{"workload.num_requests": 200})
    ways = ways_to_serve(stored, short)
    told = []
    rates = (4.0, 12.0)
    points = simulated_curves(
        stored, ways, rates, num_seeds=2, progress=lambda done, total: told.append((done, total))
    )
    assert len(points) == len(ways) * len(rates)
    assert told[-1] == (len(points) * 2, len(points) * 2)
    expected = simulate_seeds(at_rate(ways["off"], 12.0), 2, stored=stored)
    found = next(each for each in points if (each.label, each.rate_per_s) == ("off", 12.0))
    for name, value in found.metrics.items():
        assert value == expected.metrics[name]
    for figure in (tpot_rate_figure(curves, points, 8.0), goodput_rate_figure(curves, points)):
        marks = [each for each in figure.data if each.error_y.array is not None]
        assert len(marks) == len(ways)
        assert figure.layout.xaxis.title.text


def test_an_offline_batch_has_no_rate_to_vary(stored):
    with pytest.raises(ScenarioError, match="no rate"):
        rate_curves(stored, {"off": open_scenario("batch_summarisation")})
