"""Every scenario that specplan ships runs, keeps the laws and is read back as it was written."""

import pytest

from simcore import dump_scenario, simulate, summarise
from simcore.scenario import parse_scenario
from simcore.scenario_files import bundled_scenarios
from tests.invariants import check_result

NAMES = sorted(bundled_scenarios())


@pytest.mark.parametrize("name", NAMES)
def test_a_bundled_scenario_runs_and_keeps_the_laws(load_bundled, name):
    scenario, stored = load_bundled(name)
    assert scenario.name == name
    result = simulate(scenario, stored=stored)
    check_result(result)
    summary = summarise(result)
    assert summary.num_requests["finished"] == scenario.workload.num_requests
    assert not summary.is_saturated


@pytest.mark.parametrize("name", NAMES)
def test_a_bundled_scenario_comes_back_from_yaml(load_bundled, name):
    import yaml

    scenario, _ = load_bundled(name)
    assert parse_scenario(yaml.safe_load(dump_scenario(scenario)), name) == scenario


def test_long_contexts_press_on_the_memory_and_bursts_fall_back(load_bundled):
    tight = simulate(load_bundled("h100_long_context")[0])
    assert summarise(tight).num_preemptions > 0
    bursty = simulate(load_bundled("h100_code_bursts")[0])
    assert set(bursty.step_records["gamma"].tolist()) == {0, 3}
