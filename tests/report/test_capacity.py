"""Capacity's figures and tables show the numbers of the document, and cannot smuggle markup."""

import json

import numpy as np
import pytest

from simcore import find_capacity, find_replicas
from simcore.planner.capacity_document import Capacity, ReplicaPlan
from simcore.planner.economics import GivenFigures
from simcore.planner.fleet_curve import fleet_curves
from simcore.planner.load_curve import example_curve
from simcore.report.capacity_text import capacity_text, replicas_text
from simcore.report.figures import capacity_figure, daily_figure, fleet_figure
from simcore.report.units import rate
from tests.factories import make_scenario


@pytest.fixture(scope="module")
def service(recorded_profile):
    return make_scenario(
        recorded_profile,
        **{
            "slo.ttft_s": 0.5,
            "slo.goodput_fraction": 0.8,
            "speculation.proposer": "draft_model",
            "deployment.max_num_seqs": 4,
        },
    )


@pytest.fixture(scope="module")
def found(service, recorded_profile):
    return find_capacity(service, stored=recorded_profile, num_seeds=2)


@pytest.fixture(scope="module")
def day(service, recorded_profile, found):
    return find_replicas(
        service, example_curve(9.0), stored=recorded_profile, num_seeds=2, one=found
    )


def test_the_curves_are_what_the_search_saw(found):
    figure = capacity_figure(found)
    curves = [trace for trace in figure.data if trace.mode == "lines+markers"]
    for trace, each in zip(curves, (found.off, found.on), strict=True):
        assert list(trace.x) == [tested.load for tested in each.tested]
        shares = [100 * tested.attained["every_limit"].mean for tested in each.tested]
        assert list(trace.y) == pytest.approx(shares)


def test_capacities_are_marked_and_their_intervals_shaded(found):
    figure = capacity_figure(found)
    marks = [trace.x[0] for trace in figure.data if trace.mode == "lines"]
    assert marks == [found.off.max_rate_per_s, found.on.max_rate_per_s]
    shades = [(s.x0, s.x1) for s in figure.layout.shapes if s.type == "rect"]
    assert shades == [found.off.interval, found.on.interval]
    assert [s.y0 for s in figure.layout.shapes if s.type == "line"] == [80.0]


def test_the_day_shows_each_hours_replicas_and_load(day):
    off, on, load = daily_figure(day).data
    assert list(off.y) == [each.replicas for each in day.off.hours]
    assert list(on.y) == [each.replicas for each in day.on.hours]
    assert list(load.y) == list(day.curve.rates_per_s)


def _stated(service, recorded_profile):
    """The capacity with a price and power, two replicas and the search's own two."""
    given = GivenFigures(price_usd_per_hour=3.0, power_w=400.0)
    two = service.with_(**{"deployment.replicas": 2})
    return find_capacity(two, stored=recorded_profile, num_seeds=2, given=given)


def test_a_growing_load_takes_as_many_replicas_as_it_is_times_the_load_of_one(found):
    off, on = fleet_curves(found)
    assert off.label == found.off.label
    for curve, service in ((off, found.off), (on, found.on)):
        for number, step in enumerate(curve.steps, start=1):
            assert (step.replicas, step.num_devices) == (number, number)
            assert step.up_to_rate_per_s == pytest.approx(number * service.max_rate_per_s)
            assert (step.cost_usd_per_hour, step.power_w) == (None, None)
    top = 8 * min(found.off.max_rate_per_s, found.on.max_rate_per_s)
    for curve in (off, on):
        assert curve.steps[-1].up_to_rate_per_s >= top * (1 - 1e-9)
        assert len(curve.steps) == 1 or curve.steps[-2].up_to_rate_per_s < top


def test_of_two_replicas_searched_one_bears_half_and_costs_half(service, recorded_profile):
    found = _stated(service, recorded_profile)
    for curve, each in zip(fleet_curves(found), (found.off, found.on), strict=True):
        first, second = curve.steps[:2]
        assert second.up_to_rate_per_s == pytest.approx(each.max_rate_per_s)
        assert (first.num_devices, second.num_devices) == (1, each.economics.num_devices)
        assert second.cost_usd_per_hour == 6.0
        assert second.power_w == pytest.approx(each.economics.average_power_w)
    figure = fleet_figure(fleet_curves(found))
    assert len(figure.data) == 6
    cost = figure.data[2]
    assert list(cost.x) == [0.0, *(s.up_to_rate_per_s for s in fleet_curves(found)[0].steps)]
    assert list(cost.y)[:2] == [3.0, 6.0]


def test_where_no_load_is_borne_there_is_no_curve(found):
    none = found.off.model_copy(update={"max_rate_per_s": 0.0, "economics": None})
    assert fleet_curves(found.model_copy(update={"off": none, "on": none})) == ()
    (alone,) = fleet_curves(found.model_copy(update={"off": none}))
    assert alone.label == found.on.label


def test_figures_hold_finite_numbers_and_titles(found, day):
    for figure in (capacity_figure(found), daily_figure(day), fleet_figure(fleet_curves(found))):
        assert figure.layout.title.text
        assert figure.layout.xaxis.title.text
        assert figure.layout.yaxis.title.text
        for trace in figure.data:
            assert np.isfinite(np.asarray(trace.y, dtype=float)).all()


def test_the_table_holds_the_rates_and_what_is_not_stated(found, day):
    text = capacity_text(found)
    for each in (found.off, found.on):
        assert rate(each.max_rate_per_s) in text
    assert text.count("not stated") == 4
    assert found.gain.sentence[1:] in text
    days = replicas_text(day)
    assert f"{day.off.static_device_hours:,.0f}" in days
    assert f"{day.off.scaled_device_hours:,.0f}" in days


def test_hostile_names_are_shown_as_they_stand(found, day, hostile_text):
    def hostile(document, model):
        raw = json.loads(document.model_dump_json())
        raw["origin"]["scenario"] = hostile_text
        raw["on"]["label"] = hostile_text
        return model.model_validate_json(json.dumps(raw))

    one, other = hostile(found, Capacity), hostile(day, ReplicaPlan)
    for figure in (capacity_figure(one), daily_figure(other), fleet_figure(fleet_curves(one))):
        assert "<script" not in figure.to_json()
        assert "<img" not in figure.to_json()
    assert "".join(hostile_text.split()) in "".join(capacity_text(one).split())
    assert replicas_text(other)
