"""What is made once for all visitors."""

import pytest

pytest.importorskip("streamlit")

import plotly.graph_objects as go
from streamlit.testing.v1 import AppTest

PROGRAM = """
from app.figure import show_kept
from tests.app.test_kept_pictures import make
show_kept(make, 1.0, (1, 2), key="same")
show_kept(make, {second!r}, (1, 2), key="other")
"""
MADE: list[float] = []


def make(value: float, others: tuple[int, ...]) -> go.Figure:
    MADE.append(value)
    return go.Figure(layout={"title": {"text": f"at {value:g}"}})


def _titles(program: str) -> list[str]:
    at = AppTest.from_string(program).run()
    assert not at.exception, at.exception
    return [each.value for each in at.markdown]


def test_a_picture_is_made_once_for_equal_inputs_and_keeps_its_title():
    assert _titles(PROGRAM.format(second=2.0)) == ["**at 1**", "**at 2**"]
    assert _titles(PROGRAM.format(second=3.0)) == ["**at 1**", "**at 3**"]
    assert MADE == [1.0, 2.0, 3.0]


def test_two_profiles_of_the_same_content_share_their_curves():
    from app.load_section import _curves
    from simcore.profile.store import load_profile
    from simcore.scenario_files import open_scenario

    scenario = open_scenario("h100_chat")
    first, second = load_profile("llama31_8b_h100"), load_profile("llama31_8b_h100")
    slower = scenario.with_(**{"deployment.max_num_seqs": 8})
    assert _curves(first, scenario).rates_per_s
    assert _curves(second, slower).rates_per_s  # another service on the requests sampled before


def test_curves_are_the_same_whatever_the_load_is():
    from app.load_section import _curves
    from simcore.profile.store import load_profile
    from simcore.scenario_files import open_scenario

    stored, scenario = load_profile("llama31_8b_h100"), open_scenario("h100_chat")
    faster = scenario.with_(**{"workload.arrivals.rate_per_s": 7.5})
    assert _curves(stored, faster) is _curves(stored, scenario)


def test_warming_up_imports_what_the_pages_need():
    import subprocess
    import sys

    program = (
        "import sys; from app.warm import warm_up; warm_up(); import gc; "
        "print(gc.get_freeze_count() > 10_000, 'simcore.planner.plan' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split() == ["True", "True"]


def test_a_figure_is_sent_so_that_plotly_draws_it_once():
    import json

    at = AppTest.from_string(PROGRAM.format(second=4.0)).run()
    layouts = [json.loads(each.proto.spec)["layout"] for each in at.get("plotly_chart")]
    assert len(layouts) == 2
    assert not any("template" in each for each in layouts)  # any template looks like a change
    assert len({each["datarevision"] for each in layouts}) == 1
