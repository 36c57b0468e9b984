"""Scenario files as text that may come from anybody."""

import pytest

from simcore.errors import ScenarioError
from simcore.scenario import dump_scenario, read_scenario
from simcore.scenario_files import open_scenario


def _nested_aliases(depth: int) -> str:
    """Ten to the power of `depth` values in a few lines."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    for level in range(1, depth):
        lines.append(f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]")
    return "\n".join([*lines, f"name: *a{depth - 1}", ""])


def test_aliases_of_aliases_are_refused_before_they_are_written_out():
    # Written out, these would be a hundred million values: far more than a test's time.
    with pytest.raises(ScenarioError, match="aliases stand for more than 100,000 values"):
        read_scenario(_nested_aliases(8), "the upload")


def test_an_alias_of_what_it_stands_in_is_refused():
    with pytest.raises(ScenarioError, match="the upload"):
        read_scenario("workload: &w {again: *w}", "the upload")


def test_many_keys_are_read_once_each_and_a_key_given_twice_is_refused():
    # Compared each with every other, 100,000 keys would take minutes.
    keys = [f"k{number}: 1" for number in range(20_000)]
    with pytest.raises(ScenarioError, match="contract: missing"):
        read_scenario("\n".join(keys), "the upload")
    with pytest.raises(ScenarioError, match="key 'k7' is given twice"):
        read_scenario("\n".join([*keys, "k7: 2"]), "the upload")


def test_an_alias_that_repeats_a_length_is_read():
    text = dump_scenario(open_scenario("h100_chat"))
    repeated = text.replace("mean_tokens: 300.0", "mean_tokens: &mean 300.0").replace(
        "mean_tokens: 200.0", "mean_tokens: *mean"
    )
    lengths = read_scenario(repeated, "the upload").workload.lengths
    assert lengths.output.mean_tokens == lengths.prompt.mean_tokens == 300.0
