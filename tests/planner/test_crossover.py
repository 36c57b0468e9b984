"""Crossover maps: the break-even line is where theory puts it; nothing unmeasured is guessed."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq

from simcore.cost.law import CostDomain, CostLaw, LinearLaw, TargetLaw
from simcore.errors import ScenarioError
from simcore.planner.case import case_of
from simcore.planner.crossover import between, crossings, crossover_map, is_geometric
from simcore.planner.shifted_acceptance import (
    conditional_rates,
    emitted_tokens,
    mean_rate,
    shift_to,
    shifted,
)
from simcore.profile.schema import (
    AcceptanceRecord,
    Contract,
    Profile,
    Proposer,
    Provenance,
    Sampling,
    Source,
)
from simcore.profile.store import write_profile
from tests.factories import Recording, invented_identity, make_profile, make_scenario, sampled

OUTPUT, PROMPT, GAMMA = 400, 16, 3
PLAIN_S, PASS_S = 0.02, 0.004


@pytest.fixture(scope="module")
def constant(tmp_path_factory):
    """Steps of one constant time, drafts of another, one conditional rate: all by formula."""
    profile = Profile(
        schema_version=1,
        name="constant",
        title="Invented profile of constant cost",
        source=Source.PUBLISHED,
        identity=invented_identity(),
        provenance=Provenance(date="2026-11-30", notes=("invented",)),
        proposers={"draft": Proposer(kind="eagle")},
        cost=CostLaw(
            target=TargetLaw(
                knot_tokens=(1, 2), knot_s=(PLAIN_S, PLAIN_S), per_kv_token_plain_s=0.0,
                per_kv_token_verify_s=0.0,
            ),
            propose={"draft": LinearLaw(per_pass_s=PASS_S)},
            domain=CostDomain(
                max_batch_size=4,
                max_context_tokens=1000,
                max_query_tokens_per_request=1 + GAMMA,
                max_step_tokens=64,
            ),
        ),
        acceptance=(
            AcceptanceRecord(
                key=0,
                proposer="draft",
                domain="chat",
                sampling=Sampling(),
                contract=Contract.GREEDY_EQUALITY,
                kind="survival",
                max_num_speculative_tokens=GAMMA,
                num_requests=100,
                counted_at="cycle_starts",
                conditional_acceptance={1: (0.6,), GAMMA: (0.6,) * GAMMA},
            ),
        ),
    )  # fmt: skip
    stored = write_profile(
        profile, tmp_path_factory.mktemp("constant") / "constant", cost=None, traces=None
    )
    scenario = make_scenario(
        stored,
        **{
            "workload.lengths": {
                "kind": "fixed",
                "prompt_tokens": PROMPT,
                "output_tokens": OUTPUT,
            },
            "workload.arrivals.rate_per_s": 0.05,
            "speculation.proposer": "draft",
            "speculation.num_speculative_tokens": GAMMA,
        },
    )
    return stored, scenario


@pytest.fixture(scope="module")
def recorded(recorded_profile):
    scenario = make_scenario(recorded_profile, **{"speculation.proposer": "draft_model"})
    return recorded_profile, scenario


def _cycles(rate: float) -> float:
    """Renewal theory: (L − 1 + E[Y(Y − 1)] / 2E[Y]) / E[Y] cycles of an output of L tokens."""
    survival = rate ** np.arange(GAMMA + 2)
    survival[-1] = 0.0
    chances = survival[:-1] - survival[1:]
    tokens = np.arange(1, GAMMA + 2)
    mean, square = chances @ tokens, chances @ tokens**2
    return float((OUTPUT - 1 + (square - mean) / (2 * mean)) / mean)


def test_the_break_even_acceptance_is_the_formulas(constant):
    """TPOT breaks even where C(α) cycles of t + γ·c take as long as L − 1 plain steps of t."""
    cycle_s = PLAIN_S + GAMMA * PASS_S
    expected = brentq(lambda a: _cycles(a) * cycle_s - (OUTPUT - 1) * PLAIN_S, 0.01, 0.9)
    found = crossover_map(
        *constant,
        "batch_acceptance",
        metric="tpot",
        x_values=(1, 2, 4, 8),
        y_values=tuple(np.linspace(0.05, 0.95, 46)),
    )
    assert [point.x for point in found.break_even] == [1, 2, 4, 8]
    for point in found.break_even:
        assert point.y == pytest.approx(expected, abs=0.01)
    assert 0.2 < expected < 0.5


def test_the_speed_up_of_constant_steps_is_the_formulas(constant):
    found = crossover_map(
        *constant, "batch_acceptance", metric="tpot", x_values=(1,), y_values=(0.3, 0.6, 0.9)
    )
    for y, row in zip(found.y.values, found.cells, strict=True):
        expected = (OUTPUT - 1) * PLAIN_S / (_cycles(y) * (PLAIN_S + GAMMA * PASS_S))
        assert row[0].speedup == pytest.approx(expected, rel=5e-3)


@pytest.mark.parametrize("kind", ["load_gamma", "context_gamma"])
@pytest.mark.parametrize("metric", ["e2e", "tpot"])
def test_drafting_nothing_is_off_everywhere(recorded, kind, metric):
    found = crossover_map(*recorded, kind, metric=metric, y_values=(0, 1, 4), num_columns=6)
    answered = [cell.speedup for cell in found.cells[0] if cell.speedup is not None]
    assert len(answered) >= 4
    assert answered == [pytest.approx(1.0, abs=1e-12)] * len(answered)


@pytest.mark.parametrize("which", ["constant", "recorded"])
def test_more_acceptance_is_never_slower(which, request):
    found = crossover_map(
        *request.getfixturevalue(which),
        "batch_acceptance",
        metric="tpot",
        x_values=(1, 3, 8),
        y_values=tuple(np.linspace(0.1, 0.9, 9)),
    )
    for column in zip(*found.cells, strict=True):
        speedups = [cell.speedup for cell in column]
        assert np.all(np.diff(speedups) > -1e-9)
        assert speedups[-1] > speedups[0]


def test_a_draft_length_that_nobody_measured_is_refused_and_not_guessed(constant):
    found = crossover_map(*constant, "load_gamma", y_values=(1, 2, 3), num_columns=4)
    for row, state in zip(found.cells, ("measured", "refused", "measured"), strict=True):
        for cell in row[:3]:
            assert cell.state == state
            assert (cell.speedup is None) == (state == "refused")
    assert "measured 'draft' at [1, 3] only" in found.cells[1][0].reason


def test_cells_beyond_the_cost_fit_are_marked_and_say_which_bound(constant):
    found = crossover_map(*constant, "batch_acceptance", x_values=(1, 4, 8), y_values=(0.5,))
    assert [cell.state for cell in found.cells[0]] == ["measured", "measured", "extrapolated"]
    assert "fitted up to 4" in found.cells[0][2].reason
    longer = crossover_map(*constant, "context_gamma", x_values=(100, 900), y_values=(1,))
    assert [cell.state for cell in longer.cells[0]] == ["measured", "extrapolated"]


def test_a_queue_that_grows_for_ever_has_no_ratio_and_says_whose(constant):
    stored, scenario = constant
    most = case_of(stored, scenario).at_gamma(0).estimate().max_rate_per_s
    # At this acceptance speculation carries more than off.
    found = crossover_map(
        stored, scenario, "load_gamma", x_values=(0.5 * most, 1.01 * most), y_values=(3,)
    )
    assert found.cells[0][0].speedup > 1.0
    assert found.cells[0][1].speedup is None
    assert found.cells[0][1].grows == "off"
    assert "without speculation the queue grows" in found.cells[0][1].reason


def test_the_simulated_map_agrees_with_the_closed_form(recorded):
    stored, scenario = recorded
    long_run = scenario.with_(**{"workload.num_requests": 1500})
    asked = {"kind": "batch_acceptance", "metric": "tpot", "x_values": (2,), "y_values": (0.3, 0.8)}
    by_formula = crossover_map(stored, long_run, **asked)
    by_simulation = crossover_map(stored, long_run, simulated=True, **asked)
    assert by_simulation.is_simulated
    for one, other in zip(by_formula.cells, by_simulation.cells, strict=True):
        assert one[0].speedup == pytest.approx(other[0].speedup, rel=0.03)


def test_no_tree_is_valued_without_recorded_ranks(constant):
    with pytest.raises(ScenarioError, match="no recorded ranks"):
        crossover_map(*constant, "budget_load")


@pytest.mark.parametrize("kind", ["batch_acceptance", "context_gamma"])
def test_turns_of_sessions_cannot_be_held_at_a_batch(load_bundled, kind):
    scenario, stored = load_bundled("agent_sessions")
    with pytest.raises(ScenarioError, match="turns of sessions"):
        crossover_map(stored, scenario, kind)


def test_a_budget_of_one_node_is_the_chain_of_one_draft(recorded):
    rates = (0.5, 1.0)
    tree = crossover_map(*recorded, "budget_load", x_values=rates, y_values=(1,))
    chain = crossover_map(*recorded, "load_gamma", x_values=rates, y_values=(1,))
    for one, other in zip(tree.cells[0], chain.cells[0], strict=True):
        assert one.speedup == pytest.approx(other.speedup, rel=1e-9)


def test_a_map_is_json_and_holds_its_origin(recorded):
    found = crossover_map(*recorded, num_columns=3)
    raw = json.loads(json.dumps(found.model_dump(mode="json"), allow_nan=False))
    assert raw["origin"]["profile_source"] == "measured"
    assert len(raw["cells"]) == len(raw["y"]["values"]) == 8
    assert {len(row) for row in raw["cells"]} == {3}


@pytest.mark.parametrize("values", [(2.0, 1.0), (1.0, 1.0), (1.0, float("inf"))])
def test_axes_that_do_not_rise_are_refused(recorded, values):
    with pytest.raises(ScenarioError, match="expected finite ones that rise"):
        crossover_map(*recorded, x_values=values)


def test_acceptance_of_a_fit_cannot_be_moved(recorded):
    stored, scenario = recorded
    fitted = scenario.with_(**{"speculation.acceptance": "iid"})
    with pytest.raises(ScenarioError, match="cannot be moved"):
        crossover_map(stored, fitted, "batch_acceptance")


# --- moving acceptance -------------------------------------------------------------------------


@pytest.mark.parametrize("proposer", ["ngram", "draft_model"])
@pytest.mark.parametrize("wanted", [0.2, 0.5, 0.9])
def test_recordings_moved_to_a_rate_accept_at_that_rate(recorded_profile, proposer, wanted):
    scenario = make_scenario(recorded_profile, **{"speculation.proposer": proposer})
    case = case_of(recorded_profile, scenario).at_gamma(4)
    rates = conditional_rates(case, 4)
    shift = shift_to(rates, wanted)
    moved = shifted(case, 4, shift)
    assert mean_rate(rates, shift) == pytest.approx(wanted, abs=1e-6)
    emitted = moved.estimate().emitted_tokens_per_cycle
    # Other starts are met than those of the rates, and the last cycle is cut.
    assert emitted == pytest.approx(emitted_tokens(rates, shift), rel=0.07)
    tokens = _long_run(moved)
    assert tokens == pytest.approx(emitted, rel=0.03)


@pytest.mark.parametrize("wanted", [0.3, 0.9])
def test_sampled_recordings_are_moved_by_their_ratios(recorded_profile, wanted):
    scenario = make_scenario(recorded_profile, **sampled({"speculation.proposer": "draft_model"}))
    case = case_of(recorded_profile, scenario).at_gamma(4)
    rates = conditional_rates(case, 4)
    moved = shifted(case, 4, shift_to(rates, wanted))
    emitted = moved.estimate().emitted_tokens_per_cycle
    assert emitted == pytest.approx(emitted_tokens(rates, shift_to(rates, wanted)), rel=0.1)
    assert _long_run(moved) == pytest.approx(emitted, rel=0.03)


def _long_run(case) -> float:
    result = case.with_(**{"workload.num_requests": 2000}).simulate()
    requests = result.request_records
    return float((requests["output_tokens"] - 1).sum() / requests["num_cycles"].sum())


def test_moving_recordings_by_nothing_replays_them(recorded):
    case = case_of(*recorded).at_gamma(4)
    tiny = shifted(case, 4, 1e-9)
    assert tiny.estimate().tpot_s == pytest.approx(case.estimate().tpot_s, rel=1e-6)


@given(shift=st.floats(-4.0, 4.0), more=st.floats(0.01, 2.0), gamma=st.integers(1, 8))
def test_a_higher_shift_never_takes_more_cycles(recorded, shift, more, gamma):
    case = case_of(*recorded).at_gamma(gamma)
    lower, higher = (shifted(case, gamma, each).estimate() for each in (shift, shift + more))
    assert higher.emitted_tokens_per_cycle >= lower.emitted_tokens_per_cycle * (1 - 1e-9)
    assert higher.tpot_s <= lower.tpot_s * (1 + 1e-9)


def test_easy_requests_stay_easier_when_acceptance_moves(recorded):
    case = case_of(*recorded).at_gamma(4)
    before = case.basis.cycle_law(case.scenario, case.scenario.speculation.modes()[4])
    moved = shifted(case, 4, -0.5)
    after = moved.basis.cycle_law(moved.scenario, moved.scenario.speculation.modes()[4])
    left = case.basis.requests.output_tokens - 1
    assert np.corrcoef(before.cycles / left, after.cycles / left)[0, 1] > 0.9


@given(
    rates=st.lists(st.floats(0.01, 0.99), min_size=1, max_size=8),
    wanted=st.floats(0.02, 0.98),
)
def test_any_rate_is_reached_by_one_shift_which_moves_all_rates_alike(rates, wanted):
    before = np.array([rates])
    shift = shift_to(before, wanted)
    assert mean_rate(before, shift) == pytest.approx(wanted, abs=1e-6)
    assert (emitted_tokens(before, shift) >= emitted_tokens(before)) == (shift >= 0.0)


# --- the line ----------------------------------------------------------------------------------


@given(
    at=st.floats(1.5, 90.0),
    slope=st.floats(0.1, 5.0),
    falling=st.booleans(),
    geometric=st.booleans(),
)
def test_a_straight_line_is_crossed_where_it_is_zero(at, slope, falling, geometric):
    values = np.geomspace(1.0, 100.0, 12) if geometric else np.linspace(1.0, 100.0, 12)
    grid = np.log(values / at) if geometric else values - at
    found = crossings(grid * slope * (-1 if falling else 1), tuple(values))
    assert is_geometric(tuple(values)) == geometric
    assert found == [pytest.approx(at, rel=1e-6)]


@given(share=st.floats(0.0, 1.0), low=st.floats(0.1, 10.0), width=st.floats(0.1, 10.0))
def test_a_place_between_two_values_lies_between_them(share, low, width):
    for values in ((low, low + width), (low, low * 2, low * 4)):
        found = between(values[0], values[1], share, values)
        assert values[0] * (1 - 1e-12) <= found <= values[1] * (1 + 1e-12)


def test_nothing_is_crossed_beside_a_refused_cell_and_something_beside_an_unstable_one():
    values = (1.0, 2.0, 3.0)
    assert crossings(np.array([0.5, np.nan, -0.5]), values) == []
    assert crossings(np.array([0.5, 0.2, -np.inf]), values) == [2.5]


def test_profiles_of_few_accepted_drafts_cross_within_the_loads(tmp_path):
    """Drafts that cost as much as they gain: idle they pay, full they do not."""
    stored = make_profile(tmp_path / "dear", Recording(propose_scale=3.0, gain=0.3))
    scenario = make_scenario(stored, **{"speculation.proposer": "draft_model"})
    found = crossover_map(
        stored,
        scenario.with_(
            **{"deployment.max_num_seqs": 64, "deployment.max_num_batched_tokens": 2048}
        ),
        "load_gamma",
        y_values=(8,),
    )
    logs = [cell.speedup for cell in found.cells[0]]
    assert logs[0] > 1.0
    assert len(found.break_even) == 1
    assert found.x.values[0] < found.break_even[0].x < found.x.values[-1]
