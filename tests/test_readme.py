"""What the README and the scenario page show is what the program does."""

import re
from pathlib import Path

import pytest

from simcore import make_plan, open_scenario, simulate
from simcore.report.text import plan_text
from simcore.scenario import load_scenario

ROOT = Path(__file__).parents[1]
NUMBER = re.compile(r"\(?(\d+\.?\d*)[).,%]*")


def test_the_worked_example_of_the_readme_is_the_real_output():
    shown = re.search(r"```text\n(Decision.*?)```", (ROOT / "README.md").read_text(), re.S)
    assert shown is not None
    printed = plan_text(make_plan(open_scenario("cpu_chat")))
    words, expected = printed.split(), shown.group(1).split()
    assert len(words) == len(expected)
    for word, wanted in zip(words, expected, strict=True):
        if NUMBER.fullmatch(wanted):  # another processor may round the last digit otherwise
            found = [float(NUMBER.fullmatch(each).group(1)) for each in (word, wanted)]
            assert found[0] == pytest.approx(found[1], rel=0.02, abs=0.011)
        else:
            assert word == wanted


def test_the_scenario_of_the_documentation_runs_as_it_is_printed(tmp_path):
    shown = re.search(
        r"```yaml\n(schema_version.*?)```", (ROOT / "docs/scenario.md").read_text(), re.S
    )
    assert shown is not None
    path = tmp_path / "scenario.yaml"
    path.write_text(shown.group(1))
    result = simulate(load_scenario(path))
    assert (result.requests["state"] == "finished").all()


@pytest.mark.parametrize("page", [*sorted(ROOT.glob("docs/*.md")), ROOT / "README.md"], ids=str)
def test_links_between_pages_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
        assert (page.parent / target).exists(), target
