"""Every scenario that specplan ships runs, keeps the laws, and is told of as it is."""

import re
from pathlib import Path

import numpy as np
import pytest
import yaml

from simcore import dump_scenario, simulate, summarise
from simcore.profile.store import load_profile
from simcore.scenario import parse_scenario
from simcore.scenario_files import bundled_scenarios
from tests import scenario_tables
from tests.invariants import check_every_mode, check_result
from tests.scenario_tables import NAMES, drafting, off, summary_of

PAGE = (Path(__file__).parents[1] / "docs" / "reference" / "scenarios.md").read_text(
    encoding="utf-8"
)
ASKED_FOR = {
    *("h100_chat", "code_assistant", "long_context_retrieval", "reasoning"),
    *("batch_summarisation", "agent_sessions"),
    *("low_acceptance", "tight_memory", "burst", "mixed_domains"),
}
FEW = 15  # requests, where every event is looked at


def test_the_six_uses_and_the_four_stresses_are_bundled():
    assert set(NAMES) == ASKED_FOR | {"cpu_chat"}


@pytest.mark.parametrize("name", NAMES)
def test_a_bundled_scenario_runs_and_keeps_the_laws(load_bundled, name):
    scenario, stored = load_bundled(name)
    assert scenario.name == name
    for each in (scenario, drafting(scenario), off(scenario)):
        result = simulate(each, stored=stored)
        check_result(result)
        summary = summarise(result)
        assert summary.num_requests["finished"] == scenario.workload.num_requests
        assert summary.is_saturated == (scenario.workload.arrivals.kind == "batch")


@pytest.mark.parametrize("name", NAMES)
def test_a_bundled_scenario_keeps_the_laws_at_every_event(load_bundled, name):
    scenario, stored = load_bundled(name)
    check_every_mode(drafting(scenario).with_(**{"workload.num_requests": FEW}), stored)


@pytest.mark.parametrize("name", NAMES)
def test_a_bundled_scenario_without_drafts_is_plain_decoding(load_bundled, name):  # law 12
    scenario, stored = load_bundled(name)
    if scenario.workload.lengths.kind == "recorded":
        pytest.skip("without a proposer nobody says whose recorded lengths")
    named = simulate(off(scenario), stored=stored)
    plain = simulate(scenario.with_(speculation={}), stored=stored)
    assert np.array_equal(named.step_records, plain.step_records)
    for column in ("arrival_s", "first_token_s", "finish_s", "emitted_tokens"):
        assert np.array_equal(named.request_records[column], plain.request_records[column])


@pytest.mark.parametrize("name", NAMES)
def test_a_bundled_scenario_does_not_know_how_long_outputs_will_be(load_bundled, name):  # law 10
    scenario, stored = load_bundled(name)
    if scenario.workload.lengths.kind == "recorded":
        pytest.skip("recorded lengths are those of the recorded acceptance")
    field = "workload.lengths.output.mean_tokens"
    longer = scenario.with_(**{field: 1.3 * scenario.workload.lengths.output.mean_tokens})
    first, other = simulate(scenario, stored=stored), simulate(longer, stored=stored)
    end_s = min(float(each.request_records["finish_s"].min()) for each in (first, other))
    count = int(np.sum(first.step_records["end_s"] < end_s))
    assert count > 2
    assert np.array_equal(first.step_records[:count], other.step_records[:count])


@pytest.mark.parametrize("name", NAMES)
def test_a_bundled_scenario_comes_back_from_yaml(load_bundled, name):
    scenario, _ = load_bundled(name)
    assert parse_scenario(yaml.safe_load(dump_scenario(scenario)), name) == scenario


@pytest.mark.parametrize("name", NAMES)
def test_a_bundled_scenario_begins_with_whom_it_is_for_and_what_it_shows(name):
    lines = bundled_scenarios()[name].read_text(encoding="utf-8").splitlines()
    comment = " ".join(line.removeprefix("#").strip() for line in lines if line.startswith("#"))
    assert re.search(r"\bFor (an?|whoever)\b", comment)
    assert re.search(r"\bShows\b", comment)
    assert re.search(r"\bassumed\b|\bassumption\b|\bRate: about\b|\barXiv\b", comment)


@pytest.mark.parametrize("name", NAMES)
def test_a_bundled_scenario_asks_for_domains_that_its_profile_measured(name):
    scenario = parse_scenario(yaml.safe_load(bundled_scenarios()[name].read_text()), name)
    records = load_profile(scenario.profile).profile.acceptance
    assert set(scenario.workload.domains) <= {record.domain for record in records}


@pytest.mark.parametrize(
    "name", ["h100_chat", "code_assistant", "long_context_retrieval", "reasoning"]
)
def test_contexts_stay_where_the_profile_was_measured(load_bundled, name):
    scenario, stored = load_bundled(name)
    lengths = scenario.workload.lengths
    most = stored.profile.cost.domain.max_context_tokens
    assert lengths.prompt.max_tokens + lengths.output.max_tokens <= most


def test_tight_memory_presses_and_bursts_fall_back(load_bundled):
    assert summary_of("tight_memory", drafts=False).num_preemptions > 0
    assert summary_of("tight_memory", drafts=True).kv.peak_used_fraction > 0.99
    bursty = simulate(load_bundled("burst")[0])
    assert set(bursty.step_records["gamma"].tolist()) == {0, 3}


def test_drafts_survive_least_where_the_scenario_says_so():
    lengths = {name: summary_of(name, drafts=True).tokens.mean_acceptance_length for name in NAMES}
    assert min(lengths, key=lengths.__getitem__) == "low_acceptance"


def test_agents_find_their_history_and_code_repeats_its_prompt():
    assert summary_of("agent_sessions", drafts=True).kv.prefix_hit_fraction > 0.5
    assert summary_of("code_assistant", drafts=True).kv.prefix_hit_fraction > 0.2
    none, *some = summary_of("code_assistant", drafts=True).tokens.accepted_length_counts
    assert some[-1] > sum(some[:-1])  # a copied run is long, or there is none
    assert none > some[-1]


# --- docs/reference/scenarios.md -----------------------------------------------------------------

QUANTITY = re.compile(r"\d[\d,]*(?:\.\d+)?")


def shown_rows(header: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """Rows of the table of the page with this header, by the scenario's name."""
    text = PAGE.split(scenario_tables.line(header))[1].split("\n\n")[0]
    rows = [tuple(row.strip("| ").split(" | ")) for row in text.splitlines()[2:]]
    return {row[0].strip("`"): row for row in rows}


def assert_same(shown: tuple[str, ...], found: tuple[str, ...]) -> None:
    """The same words; numbers within 2 %, for another processor may round otherwise."""
    for one, other in zip(shown, found, strict=True):
        assert QUANTITY.sub("#", one) == QUANTITY.sub("#", other)
        numbers = [[float(n.replace(",", "")) for n in QUANTITY.findall(e)] for e in (one, other)]
        assert numbers[0] == pytest.approx(numbers[1], rel=0.02, abs=0.011)


@pytest.mark.parametrize("name", NAMES)
def test_the_page_shows_what_a_scenario_asks_for(name):
    assert shown_rows(scenario_tables.INPUTS)[name] == scenario_tables.input_row(name)


@pytest.mark.parametrize("name", NAMES)
def test_the_page_shows_what_runs_of_a_scenario_give(name):
    assert_same(shown_rows(scenario_tables.RUNS)[name], scenario_tables.run_row(name))


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_page_shows_what_a_plan_of_a_scenario_decides(name):
    assert_same(shown_rows(scenario_tables.PLANS)[name], scenario_tables.plan_row(name))


def test_the_page_tells_of_every_scenario_once_in_every_table():
    for header in (scenario_tables.INPUTS, scenario_tables.RUNS, scenario_tables.PLANS):
        assert sorted(shown_rows(header)) == NAMES
    for name in NAMES:
        assert re.search(rf"^\*\*`{name}`\*\*", PAGE, re.MULTILINE), name
