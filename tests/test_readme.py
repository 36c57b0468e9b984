"""What the README, the worked example and the scenario page show is what the program does."""

import re
from contextlib import chdir
from pathlib import Path

import pytest

from simcore import simulate
from simcore.report.text import plan_text
from simcore.scenario import load_scenario

ROOT = Path(__file__).parents[1]
NUMBER = re.compile(r"\(?(\d+\.?\d*)[).,%]*")


@pytest.fixture(scope="module")
def from_python(tmp_path_factory):
    """What the README's lines of Python leave behind, run one after the other in one folder."""
    folder = tmp_path_factory.mktemp("readme")
    names: dict[str, object] = {"folder": folder}
    with chdir(folder):
        for lines in re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S):
            exec(lines, names)  # the README's own lines are what is tested
    return names


def test_the_lines_of_python_of_the_readme_decide_and_write_the_report(from_python):
    assert from_python["plan"].decision.choice == "speculate"
    assert (from_python["folder"] / "out" / "report.html").is_file()


def test_the_way_to_a_decision_takes_five_lines():
    lines = re.search(r"```python\n(import.*?)```", (ROOT / "README.md").read_text(), re.S)
    assert lines is not None
    assert len([line for line in lines.group(1).splitlines() if line]) == 5


def test_the_worked_example_is_the_real_output(from_python):
    page = (ROOT / "docs/tutorial-command-line.md").read_text()
    shown = re.search(r"```text\n(Decision.*?)```", page, re.S)
    assert shown is not None
    printed = plan_text(from_python["plan"])
    words, expected = printed.split(), shown.group(1).split()
    assert len(words) == len(expected)
    for word, wanted in zip(words, expected, strict=True):
        if NUMBER.fullmatch(wanted):  # another processor may round the last digit otherwise
            found = [float(NUMBER.fullmatch(each).group(1)) for each in (word, wanted)]
            assert found[0] == pytest.approx(found[1], rel=0.02, abs=0.011)
        else:
            assert word == wanted


def test_the_decision_that_the_readme_quotes_is_the_first_of_the_worked_example():
    quoted = re.search(r'and say: "(.*?)"\.', (ROOT / "README.md").read_text(), re.S)
    assert quoted is not None
    page = (ROOT / "docs/tutorial-command-line.md").read_text()
    assert " ".join(quoted.group(1).removesuffix(")").split()) in page


def test_the_scenario_of_the_documentation_runs_as_it_is_printed(tmp_path):
    shown = re.search(
        r"```yaml\n(schema_version.*?)```", (ROOT / "docs/reference/scenario.md").read_text(), re.S
    )
    assert shown is not None
    path = tmp_path / "scenario.yaml"
    path.write_text(shown.group(1))
    result = simulate(load_scenario(path))
    assert (result.requests["state"] == "finished").all()
