"""Domains with sampling of their own: each replays what was recorded under it."""

import numpy as np
import pytest

from simcore import simulate
from simcore.acceptance.model import draw_cycle as inner_draw_cycle
from simcore.acceptance.trace import walk
from simcore.errors import ScenarioError
from simcore.matching import load_traces, matching_records
from tests.factories import make_scenario, sampled
from tests.from_python import from_python
from tests.invariants import check_every_mode, check_result

draw_cycle = from_python(inner_draw_cycle)
GAMMA = 4
MIXED = {
    "workload.domains": {"chat": {"sampling": {"temperature": 1.0}}, "code": 1.0},
    "speculation.proposer": "draft_model",
    "speculation.num_speculative_tokens": GAMMA,
}


def _records_of(stored, scenario):
    proposer = scenario.speculation.proposer
    return {r.domain: r.key for r in matching_records(stored, scenario, proposer)}


def _own_traces(stored, domain, changes):
    """The traces of one domain alone under one sampling."""
    alone = make_scenario(
        stored,
        **{**changes, "workload.domains": {domain: 1.0}, "speculation.proposer": "draft_model"},
    )
    return load_traces(stored, matching_records(stored, alone, "draft_model"))


@pytest.fixture(scope="module")
def mixed(recorded_profile):
    result = simulate(make_scenario(recorded_profile, **MIXED), stored=recorded_profile)
    check_result(result)
    return result


def test_each_domain_takes_the_records_of_its_sampling(recorded_profile):
    acceptance = {record.key: record for record in recorded_profile.profile.acceptance}
    keys = _records_of(recorded_profile, make_scenario(recorded_profile, **MIXED))
    assert {d: acceptance[k].sampling.temperature for d, k in keys.items()} == {
        "chat": 1.0,
        "code": 0.0,
    }
    assert {acceptance[k].domain for k in keys.values()} == {"chat", "code"}
    # And the other way round: the scenario samples, one domain is greedy.
    other = make_scenario(
        recorded_profile,
        **sampled(
            {
                **MIXED,
                "workload.domains": {"chat": 1.0, "code": {"sampling": {"temperature": 0.0}}},
            }
        ),
    )
    assert _records_of(recorded_profile, other) == keys


def test_the_greedy_domain_replays_its_recording_exactly(recorded_profile, mixed):
    own = _own_traces(recorded_profile, "code", {})
    traces, requests = mixed.model.traces, mixed.request_records
    code = requests[requests["domain"] == traces.domain_names.index("code")]
    assert set(code["output_tokens"]) <= set(own.output_tokens)
    first = traces.requests_of("code")
    assert np.array_equal(traces.output_tokens[first], own.output_tokens)
    for row in code:
        cycles = walk(own, GAMMA, requests=np.array([row["trace"] - first[0]]))
        assert row["num_cycles"] == len(cycles.emitted)


def test_the_sampled_domain_is_drawn_from_its_ratios(recorded_profile, mixed):
    own = _own_traces(recorded_profile, "chat", sampled())
    traces, requests = mixed.model.traces, mixed.request_records
    first = traces.requests_of("chat")
    assert np.array_equal(traces.output_tokens[first], own.output_tokens)
    rows = np.flatnonzero(requests["domain"] == traces.domain_names.index("chat"))
    undecided = 0
    for request in rows:
        row = requests[request]
        position, cycles = 1, 0
        while position < row["output_tokens"]:
            at = int(traces.offset[row["trace"]]) + position
            ratio = own.ratio[own.offset[row["trace"] - first[0]] + position]
            assert np.array_equal(traces.ratio[at], ratio)
            undecided += int(((ratio > 0.0) & (ratio < 1.0)).any())
            _, accepted = draw_cycle(
                mixed.model.tables,
                np.uint64(mixed.scenario.seed),
                int(request),
                0,
                position,
                at,
                0,
                GAMMA,
            )
            position += accepted + 1
            cycles += 1
        assert cycles == row["num_cycles"]
    assert undecided > 100


def test_a_sampling_that_nobody_measured_names_the_domain(recorded_profile):
    unmeasured = {"chat": {"sampling": {"temperature": 0.5}}, "code": 1.0}
    with pytest.raises(ScenarioError, match=r"\['chat'\].*on \['code'\] only"):
        simulate(
            make_scenario(recorded_profile, **{**MIXED, "workload.domains": unmeasured}),
            stored=recorded_profile,
        )


def test_a_sampling_that_nobody_measured_may_be_allowed_and_is_shown(recorded_profile):
    unmeasured = {"chat": {"sampling": {"temperature": 0.5}}, "code": 1.0}
    result = simulate(
        make_scenario(
            recorded_profile,
            **{**MIXED, "workload.domains": unmeasured, "allow_mismatch": True},
        ),
        stored=recorded_profile,
    )
    assert len(result.mismatches) == 1
    assert "chat" in result.mismatches[0]
    assert set(result.requests["domain"]) == {"chat", "code"}


def test_every_law_holds_with_mixed_samplings(recorded_profile):
    check_every_mode(make_scenario(recorded_profile, **MIXED), recorded_profile)
