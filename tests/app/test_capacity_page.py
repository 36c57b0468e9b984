"""The page Capacity: the same numbers as simcore.find_capacity."""

import pytest

pytest.importorskip("streamlit")

from streamlit.testing.v1 import AppTest

from app import link, words
from app.launch import ENTRY
from simcore.planner.capacity import find_capacity
from simcore.planner.fleet_curve import fleet_curves
from simcore.planner.load_curve import parse_curve
from simcore.report.capacity_text import capacity_rows, fleet_rows, ledger_sentence
from simcore.report.units import digits
from simcore.scenario_files import open_scenario
from simcore.workload.load import mean_rate_per_s

KEY = "capacity.found"
# A median and no limit of TTFT: a few hundred requests a run settle it, not tens of thousands.
SOON_SETTLED = {
    "workload.num_requests": 200,
    "slo": {"tpot_s": 0.02, "itl_s": 0.5, "percentile": 50.0},
}


def _visit(scenario) -> AppTest:
    at = AppTest.from_file(str(ENTRY), default_timeout=60)
    at.query_params[link.PARAMETER] = link.encode(scenario)
    at.run().switch_page("app_pages/capacity.py").run()
    assert not at.exception, at.exception
    return at


def _search(at: AppTest, finish) -> AppTest:
    at.number_input(key="capacity.seeds").set_value(2)
    next(each for each in at.button if each.label == "Find the capacity").click().run()
    return finish(at, KEY)


def test_sessions_are_told_from_requests_wherever_a_load_is_stated():
    scenario = open_scenario("agent_sessions")
    at = _visit(scenario)
    offered_per_s = mean_rate_per_s(scenario.workload)
    assert offered_per_s > 3 * scenario.workload.arrivals.rate_per_s
    rate = next(each for each in at.number_input if each.label.startswith("Rate, or peak"))
    assert rate.value == pytest.approx(offered_per_s)
    assert "Load (sessions/s)" in [each.label for each in at.slider]
    assert any(f"{digits(offered_per_s)} requests/s" in each.value for each in at.caption)


def test_the_table_and_the_ledger_are_those_of_find_capacity(finish):
    scenario = open_scenario("h100_chat").with_(**SOON_SETTLED)
    at = _visit(scenario)
    assert at.session_state["scenario"] == scenario
    at.number_input(key="capacity.price").set_value(3.0)
    _search(at, finish)
    assert not at.error, [each.value for each in at.error]
    found = at.session_state[KEY].result.capacity
    alone = find_capacity(scenario, num_seeds=2)
    assert (found.off.max_rate_per_s, found.on.max_rate_per_s) == (
        alone.off.max_rate_per_s,
        alone.on.max_rate_per_s,
    )
    shown = at.table[0].value
    assert [(name, list(shown.loc[name])) for name in shown.index] == capacity_rows(found)
    assert ledger_sentence(found) in "\n".join(each.value for each in at.markdown)
    assert found.off.economics.price_source == "given"
    assert len(at.get("plotly_chart")) == 2
    assert words.BY_DIVISION in [each.value for each in at.caption]
    assert fleet_curves(found)[0].steps[0].cost_usd_per_hour == 3.0
    sentence = found.gain.sentence
    assert at.subheader[0].value == f"{sentence[0].upper()}{sentence[1:]}."
    assert [each.value for each in at.warning] == list(found.caveats)
    next(each for each in at.button if each.label == "Keep").click().run()
    later = _visit(scenario)
    later.button(key="kept.capacity.open").click().run()
    assert later.session_state[KEY].result == at.session_state[KEY].result
    assert later.table[0].value.equals(shown)


def test_an_objective_without_limits_is_refused_in_a_sentence(finish):
    scenario = open_scenario("h100_chat")
    without = {f"slo.{name}": None for name in type(scenario.slo).model_fields}
    at = _search(_visit(scenario.with_(**without)), finish)
    assert "SLO" in at.error[0].value


DAY = "hour,rate_per_s\n" + "".join(f"{hour},{0.2 + 0.1 * (hour > 7)}\n" for hour in range(24))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "no day was uploaded"),
        (b"hour,rate_per_s\n0,1\n", "day.csv has no rate for the hours 1, 2"),
        (b"\xff\xfe\x00", "day.csv has the columns"),
    ],
)
def test_a_day_that_is_none_is_one_sentence_before_any_search(content, said, finish):
    at = _visit(open_scenario("h100_chat"))
    at.selectbox(key="capacity.demand").set_value("own")
    if content is not None:
        at.file_uploader(key="capacity.day_file").set_value(("day.csv", content, "text/csv"))
    _search(at, finish)
    assert said in at.error[0].value
    assert len(at.error) == 1


def test_a_day_of_ones_own_is_what_the_replicas_are_counted_for(finish):
    scenario = open_scenario("h100_chat").with_(**SOON_SETTLED)
    at = _visit(scenario)
    at.selectbox(key="capacity.demand").set_value("own")
    at.file_uploader(key="capacity.day_file").set_value(("day.csv", DAY.encode(), "text/csv"))
    _search(at, finish)
    assert not at.error, [each.value for each in at.error]
    fleets = at.session_state[KEY].result.fleets
    assert fleets.curve == parse_curve(DAY, "day.csv")
    assert fleets.rate_per_s == pytest.approx(0.3)
    shown = at.table[1].value
    assert [(name, list(shown.loc[name])) for name in shown.index] == fleet_rows(fleets)
    assert len(at.get("plotly_chart")) == 3
