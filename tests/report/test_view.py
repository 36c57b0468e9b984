"""Sentences and numbers of a report: the off decision, the offline batch, units."""

import json

import pytest

from simcore.planner.document import Plan
from simcore.report.figures import candidates_figure, load_figure
from simcore.report.table import Table, markdown_table
from simcore.report.text import plan_text
from simcore.report.units import NOTHING, count, percent, rate, ratio, seconds
from simcore.report.view import verdict_sentence, view_of
from simcore.report.write import render_files


@pytest.fixture(scope="module")
def off_plan(plan) -> Plan:
    """The plan as if speculation lost, with a break-even below the load of an offline batch."""
    raw = json.loads(plan.model_dump_json())
    raw["decision"] |= {"choice": "off", "proposer": None, "num_speculative_tokens": 0}
    raw["decision"]["verdict"] = "slower"
    raw["speedup"] |= {"value": 0.9, "interval": [0.85, 0.95]}
    raw["break_even"] |= {"rate_per_s": 3.0, "reason": "above 3 requests a second it loses"}
    raw["scenario"]["workload"]["arrivals"] = {"kind": "batch"}
    raw["scenario"]["workload"]["lengths"] = {"kind": "recorded"}
    raw["scenario"]["slo"] = {}
    return Plan.model_validate_json(json.dumps(raw))


def test_the_verdict_of_off_states_what_the_best_candidate_would_do(off_plan):
    view = view_of(off_plan)
    assert view.verdict.startswith("Serve without speculation: the best candidate, eagle, γ = ")
    assert "0.900 times as fast (95 % interval 0.850 to 0.950)" in view.verdict
    assert "load an offline batch" in view.basis


def test_off_is_ringed_at_one_and_the_break_even_is_marked(off_plan):
    ring = next(each for each in candidates_figure(off_plan).data if each.name == "chosen: off")
    assert (ring.x[0], ring.y[0]) == (0, 1.0)
    names = [each.name for each in load_figure(off_plan).data]
    assert any(name.startswith("break-even") for name in names)
    assert not any(name.startswith("this scenario") for name in names)


def test_the_files_of_off_hold_no_speculative_flag(off_plan):
    texts = render_files(off_plan)
    assert "speculative" not in texts["vllm.sh"] + texts["sglang.sh"]
    assert "all at time 0 (offline batch)" in texts["report.html"]
    assert "of recorded requests" in texts["report.md"]


def test_a_table_ends_with_its_source():
    text = markdown_table(Table("Caption", ("a", "b"), (("x|y", "1 s"),), "from there"))
    assert text.splitlines()[0] == "**Caption**"
    assert "| x\\|y | 1 s |" in text
    assert text.endswith("_from there_")


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (seconds(None), NOTHING),
        (seconds(0.0), "0 s"),
        (seconds(5e-3), "5.00 ms"),
        (seconds(2.5e-5), "25.0 µs"),
        (seconds(776.0), "776 s"),
        (rate(None), NOTHING),
        (rate(8.146), "8.15 requests/s"),
        (ratio(None), NOTHING),
        (percent(0.0384), "3.8 %"),
        (count(1, "tokens"), "1 token"),
        (count(1234, "tokens"), "1,234 tokens"),
    ],
)
def test_a_number_is_shown_with_its_unit_and_three_digits(shown, expected):
    assert shown == expected


def test_the_verdict_says_so_exactly_where_no_candidate_meets_the_slo(plan):
    shares = [each.goodput_fraction for each in plan.candidates]
    assert all(share is not None and share > 0.95 for share in shares)
    assert "SLO" not in verdict_sentence(plan)
    assert "meets the SLO" not in plan_text(plan)
    late = [each.model_copy(update={"goodput_fraction": 0.5}) for each in plan.candidates]
    missed = plan.model_copy(update={"candidates": tuple(late)})
    sentence = "no candidate meets the SLO at this load: 50.0 % of the requests are within it"
    assert sentence in verdict_sentence(missed)
    assert sentence in plan_text(missed)
    one = plan.model_copy(update={"candidates": (plan.candidates[0], *late[1:])})
    assert sentence not in verdict_sentence(one)


def test_the_load_table_gives_intervals_and_marks_where_the_queue_of_off_grows(plan):
    table = next(each for each in view_of(plan).sections["load"] if "against load" in each.caption)
    for row, point in zip(table.rows, plan.break_even.curve, strict=True):
        assert f"({point.interval[0]:.3f} to {point.interval[1]:.3f})" in row[1]
        is_beyond = point.rate_per_s > plan.break_even.saturation_rate_per_s
        assert row[2] == ("grows for ever" if is_beyond else "steady")
    assert {row[2] for row in table.rows} == {"grows for ever", "steady"}
