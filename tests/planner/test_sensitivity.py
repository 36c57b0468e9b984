"""Sensitivities: the flip is where the gain is 1, ranges are the profile's own."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcore.errors import ScenarioError
from simcore.planner.case import case_of
from simcore.planner.moves import with_kv_room, with_off_tax, with_outputs, with_prompts
from simcore.planner.sensitivity import bisected, sensitivity
from simcore.planner.sensitivity_inputs import inputs_of
from tests.factories import Recording, make_profile, make_scenario

GAMMA = 4
LENGTHS = {
    "kind": "lognormal",
    "prompt": {"mean_tokens": 40, "cv": 0.5, "max_tokens": 200},
    "output": {"mean_tokens": 50, "cv": 0.5, "max_tokens": 200},
}
ASKED = {
    "workload.lengths": LENGTHS,
    "workload.num_requests": 400,
    "workload.arrivals.rate_per_s": 1.0,
    "speculation.proposer": "draft_model",
    "speculation.num_speculative_tokens": GAMMA,
}
NAMES = {
    "offered load",
    "burstiness",
    "acceptance",
    "mean output",
    "mean prompt",
    "propose cost",
    "target cost slope",
    "max_num_seqs",
    "KV room",
    "off tax",
}


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    return make_profile(tmp_path_factory.mktemp("sense") / "sense", Recording(gain=0.2))


@pytest.fixture(scope="module")
def scenario(stored):
    return make_scenario(stored, **ASKED)


@pytest.fixture(scope="module")
def found(stored, scenario):
    return sensitivity(scenario, stored=stored, num_seeds=3)


def _gain(case, move=lambda each: each):
    off, on = move(case.at_gamma(0)).estimate(), move(case.at_gamma(GAMMA)).estimate()
    return off.e2e_s / on.e2e_s


def _effect(found, name):
    return next(each for each in found.effects if each.name == name)


def test_every_input_is_moved_and_the_strongest_comes_first(found):
    assert {each.name for each in found.effects} == NAMES
    swings = [np.inf if each.swing is None else each.swing for each in found.effects]
    assert swings == sorted(swings, reverse=True)
    assert found.decision == "speculate"
    assert found.base.speedup > 1.0


@pytest.mark.parametrize(
    ("name", "falls"),
    [
        ("acceptance", False),
        ("propose cost", True),
        ("target cost slope", True),
        ("off tax", False),
    ],
)
def test_gains_move_in_the_direction_that_theory_says(found, name, falls):
    effect = _effect(found, name)
    assert (effect.high.speedup < effect.low.speedup) == falls


def test_the_ends_are_the_closed_form_with_that_input_moved(found, stored, scenario):
    case = case_of(stored, scenario)
    prompt = _effect(found, "mean prompt")
    assert prompt.high.speedup == pytest.approx(_gain(case, lambda c: with_prompts(c, 2.0)))
    output = _effect(found, "mean output")
    assert output.low.speedup == pytest.approx(_gain(case, lambda c: with_outputs(c, 0.5)))
    assert found.base.speedup == pytest.approx(_gain(case))


def test_the_gain_at_a_flip_is_one_and_simulation_agrees(found, stored, scenario):
    flips = {each.name: each.flip for each in found.effects if each.flip is not None}
    assert {"propose cost", "acceptance"} <= set(flips)
    inputs, _ = inputs_of(case_of(stored, scenario), GAMMA)
    by_name = {each.name: each for each in inputs}
    for name in ("propose cost", "acceptance"):
        off, on = by_name[name].moved(flips[name].value)
        assert off.estimate().e2e_s == pytest.approx(on.estimate().e2e_s, rel=1e-3)
        assert flips[name].simulated_speedup == pytest.approx(1.0, abs=0.06)
        assert flips[name].is_confirmed


def test_a_flip_further_off_than_plausible_says_so(found):
    for effect in found.effects:
        if effect.flip is not None:
            inside = effect.low.value <= effect.flip.value <= effect.high.value
            assert effect.flip.is_within_range == inside


def test_ranges_are_the_profiles_own_uncertainty_where_it_states_one(found):
    acceptance = _effect(found, "acceptance")
    assert acceptance.low.value < acceptance.base < acceptance.high.value
    assert "bootstrap over 24 recorded requests" in acceptance.range_reason
    slope = _effect(found, "target cost slope")
    spread = max(0.02 / 0.6744897501960817, 0.05 / 1.6448536269514722)
    assert slope.high.value == pytest.approx(np.exp(1.96 * spread), rel=1e-6)
    assert "assumed" in _effect(found, "propose cost").range_reason


def test_a_published_profile_says_that_its_ranges_are_assumed(load_bundled):
    scenario, stored = load_bundled("h100_chat")
    inputs, _ = inputs_of(case_of(stored, scenario), 3)
    reasons = {each.name: each.range_reason for each in inputs}
    for name in ("acceptance", "propose cost", "target cost slope"):
        assert "the source states no" in reasons[name]
        assert "assumed" in reasons[name]


def test_recorded_outputs_are_moved_by_formula_and_not_simulated(stored, scenario):
    recorded = scenario.with_(**{"workload.lengths": {"kind": "recorded"}})
    inputs, _ = inputs_of(case_of(stored, recorded), GAMMA)
    moved = {each.name: each.is_simulated for each in inputs}
    assert moved["mean output"] is False
    assert moved["mean prompt"] is True


def test_a_closed_loop_moves_clients_and_leaves_burstiness_out(stored, scenario):
    closed = scenario.with_(
        **{"workload.arrivals": {"kind": "closed_loop", "num_clients": 4}},
    )
    inputs, left_out = inputs_of(case_of(stored, closed), GAMMA)
    (clients,) = (each for each in inputs if each.name == "clients")
    off, _ = clients.moved(8)
    assert off.scenario.workload.arrivals.num_clients == 8
    assert "coefficient of variation" in left_out["burstiness"]


def test_a_load_that_neither_carries_is_refused(stored, scenario):
    heavy = scenario.with_(**{"workload.arrivals.rate_per_s": 1000.0})
    with pytest.raises(ScenarioError, match="neither off nor speculation carries this load"):
        sensitivity(heavy, stored=stored, num_seeds=0)


def test_moving_memory_by_nothing_changes_nothing(stored, scenario):
    for gamma in (0, GAMMA):
        case = case_of(stored, scenario).at_gamma(gamma)
        before, after = case.estimate(), with_kv_room(case, 1.0).estimate()
        assert after.limits["kv"] == pytest.approx(before.limits["kv"], rel=0.01)
        assert after.e2e_s == pytest.approx(before.e2e_s, rel=1e-3)


def test_the_off_tax_lengthens_plain_steps_by_its_share(stored, scenario):
    case = case_of(stored, scenario).at_gamma(0)
    before, after = case.estimate(), with_off_tax(case, 0.2).estimate()
    # Of the target pass; overhead and reconciling are not taxed.
    assert 1.1 < after.tpot_s / before.tpot_s < 1.2
    simulated = [each.simulate() for each in (case, with_off_tax(case, 0.2))]
    assert set(simulated[1].step_records["gamma"]) == {0}


def test_a_sensitivity_is_json(found):
    raw = json.loads(json.dumps(found.model_dump(mode="json"), allow_nan=False))
    assert raw["origin"]["profile"] == "recorded"
    assert raw["num_speculative_tokens"] == GAMMA


@given(
    root=st.floats(0.2, 50.0),
    rises=st.booleans(),
    factor=st.floats(1.1, 4.0),
    by_factors=st.booleans(),
)
def test_bisection_finds_the_root_it_brackets(root, rises, factor, by_factors):
    sign = 1.0 if rises else -1.0
    found = bisected(
        lambda value: sign * np.log(value / root),
        root / factor,
        root * factor,
        rises=rises,
        by_factors=by_factors,
    )
    assert found == pytest.approx(root, rel=1e-3)
