"""simcore, the command line and the page run where torch is not installed.

`make test` runs this folder a second time in an environment made without the calibration extra.
"""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
IS_LEAN = os.environ.get("SPECPLAN_LEAN") == "1"

PROGRAM = """
import json, sys
import simcore
from simcore.planner.plan import make_plan
from simcore.report.write import write_report
from simcore.scenario_files import open_scenario
from pathlib import Path

scenario = open_scenario("h100_chat")
small = scenario.with_(**{"workload.num_requests": 50, "speculation.proposer": "eagle"})
plan = make_plan(small, num_replications=2)
write_report(plan, Path(sys.argv[1]) / "report")
print(json.dumps({"choice": plan.decision.choice, "modules": sorted(sys.modules)}))
"""

PAGE = """
import sys
from streamlit.testing.v1 import AppTest

page = AppTest.from_file("app/streamlit_app.py", default_timeout=120).run()
assert not page.exception, page.exception
assert page.markdown or page.metric
assert "torch" not in sys.modules
"""


def test_this_environment_was_made_without_torch():
    if not IS_LEAN:
        pytest.skip("only meant for the environment without the calibration extra")
    assert importlib.util.find_spec("torch") is None
    assert importlib.util.find_spec("transformers") is None


def test_a_plan_is_made_and_written_without_torch_or_streamlit(tmp_path):
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    found = json.loads(run.stdout)
    assert found["choice"] == "speculate"
    assert not {"torch", "streamlit", "transformers"} & set(found["modules"])
    assert (tmp_path / "report" / "report.html").stat().st_size > 100_000


def test_the_page_renders_without_torch():
    subprocess.run([sys.executable, "-c", PAGE], cwd=ROOT, check=True, capture_output=True)
