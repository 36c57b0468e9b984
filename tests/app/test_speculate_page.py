"""The page Speculate and the sidebar's drafts: what they show is what simcore says."""

import pytest

pytest.importorskip("streamlit")

from streamlit.testing.v1 import AppTest

from app import cache, link, words
from app.launch import ENTRY
from app.point import FOLLOWED
from simcore.acceptance.order import rate_orders
from simcore.acceptance.request_spread import count_every_position, request_spread
from simcore.acceptance.survival import conditional_from_survival
from simcore.acceptance.topology.dynamic_tree import DynamicShape
from simcore.acceptance.trace import RANK_ABSENT
from simcore.acceptance.tree import DraftTree
from simcore.planner.estimate import estimate, estimate_survival
from simcore.planner.speedup_map import batch_size_table, speedup_map
from simcore.planner.tree_choice import TreeLimits, fastest_tree
from simcore.planner.tree_dynamic import view_dynamic
from simcore.planner.tree_recording import scenario_recording
from simcore.planner.tree_survival import tree_survival
from simcore.planner.tree_view import view_tree
from simcore.profile.store import bundled_profiles, load_profile
from simcore.scenario import Scenario
from simcore.scenario_files import open_scenario
from simcore.speculation import BatchSizeTable, DynamicTree
from tests.serving.test_recorded_trees import with_columns

CPU, H100 = "smollm2_135m_cpu", "llama31_8b_h100"


def _scenario(gamma: int = 3, **changes: object) -> Scenario:
    wanted = {"speculation": {"proposer": "ngram", "num_speculative_tokens": gamma}}
    return open_scenario("cpu_chat").with_(**wanted, **changes)


def _visit(scenario: Scenario) -> AppTest:
    at = AppTest.from_file(str(ENTRY), default_timeout=60)
    at.query_params[link.PARAMETER] = link.encode(scenario)
    return _sound(at.run().switch_page("app_pages/speculate.py").run())


def _sound(at: AppTest) -> AppTest:
    assert not at.exception, at.exception
    assert not at.error, [each.value for each in at.error]
    return at


def _box(at: AppTest, ending: str):
    (found,) = [each for each in at.selectbox if each.key and each.key.endswith(ending)]
    return found


def _metrics(at: AppTest) -> dict[str, str]:
    return {metric.label: metric.value for metric in at.metric}


def _captions(at: AppTest) -> str:
    return "\n".join(each.value for each in at.caption)


def _infos(at: AppTest) -> str:
    return "\n".join(each.value for each in at.info)


def test_every_headline_number_is_simcores():
    scenario = _scenario(5)
    at = _visit(scenario)
    stored = load_profile(CPU)
    made = estimate(stored, scenario, "ngram", batch_sizes=(1,), context_tokens=96)
    survival, point = made.survivals[5], made.points[1][4]
    traces = scenario_recording(stored, scenario).traces
    spread, counted = request_spread(traces, 5), count_every_position(traces, 5)
    own = rate_orders(conditional_from_survival(survival.survival))
    shown, captions = _metrics(at), _captions(at)
    assert shown["Tokens a cycle, E[Y]"] == f"{survival.mean_emitted_tokens:.2f}"
    assert shown["Speed-up S, batch 1"] == f"{point.speedup:.2f} ×"
    assert shown["Acceptance rate α"] == f"{survival.acceptance_rate:.3f}"
    slowest = f"{spread.slowest_recorded:.2f}"
    assert shown["Slowest 1 % of requests, tokens a cycle"] == slowest
    assert shown["The same if cycles were independent"] == f"{spread.slowest_independent:.2f}"
    assert shown["Lag-1 correlation of cycles"] == f"{spread.lag1.pooled:.2f}"
    assert f"pays above {point.break_even_tokens:.2f}" in captions
    low, high = point.speedup_interval
    assert f"95 % interval: {low:.2f} to {high:.2f}" in at.subheader[0].value
    low, high = survival.mean_interval
    assert f"95 % interval: {low:.2f} to {high:.2f}" in captions
    assert f"{survival.survival[-1]:.1%}".replace("%", " %") == shown["All 5 drafts accepted"]
    assert f"every output position: {counted.mean_emitted_tokens:.2f}" in captions
    assert f"falling {own.falling.mean_emitted_tokens:.2f}" in captions
    assert "first: 2.17 tokens a cycle. The low one first: 1.57" in captions
    assert len(at.get("plotly_chart")) == 8

    at.select_slider(key=f"point.{CPU}.batch_size").set_value(16).run()
    at.slider(key="speculate.rate2").set_value(0.5).run()
    at16 = estimate(stored, scenario, "ngram", batch_sizes=(16,), context_tokens=96).points[16][4]
    assert _metrics(_sound(at))["Speed-up S, batch 16"] == f"{at16.speedup:.2f} ×"
    tokens = rate_orders([0.9, 0.5]).rising.mean_emitted_tokens
    assert f"The low one first: {tokens:.2f}" in _captions(at)
    at.switch_page("app_pages/decide.py").run()
    at.switch_page("app_pages/speculate.py").run()
    assert "Speed-up S, batch 16" in _metrics(_sound(at))


def test_where_a_cycle_takes_no_longer_than_a_plain_step_no_threshold_below_one_is_told():
    scenario = open_scenario("mixed_domains")
    at = _sound(_visit(scenario))
    survival = estimate_survival(load_profile(CPU), at.session_state["scenario"], "ngram")[4]
    context = int(next(each.value for each in at.slider if each.label.startswith("Context")))
    point = speedup_map(load_profile(CPU), "ngram", (survival,), context, (1,)).at(1)
    assert point.break_even_tokens < 1.0
    assert "any draft pays" in _captions(at)
    assert "pays above" not in _captions(at)


def test_trees_come_from_width_and_depth_or_from_a_budget():
    at = _visit(_scenario())
    _box(at, ".topology").set_value("wide").run()
    scenario, stored = at.session_state["scenario"], load_profile(CPU)
    assert scenario.speculation.tree == (-1, -1, 0, 1, 2, 3)
    shown = _metrics(_sound(at))
    survival = tree_survival(stored, scenario)
    assert shown["Tokens a cycle, E[Y]"] == f"{survival.mean_emitted_tokens:.2f}"
    found = speedup_map(stored, "ngram", (survival,), 96, (1,))
    assert shown["Speed-up S, batch 1"] == f"{found.at(1).speedup:.2f} ×"
    recording = scenario_recording(stored, scenario)
    view = view_tree(recording, DraftTree(scenario.speculation.tree))
    assert f"Replayed on {view.num_cycles:,} cycles" in _captions(at)
    assert f"{view.positional_tokens:.2f}" in _captions(at)
    second = [node.probability for node in view.nodes if any(node.path)]
    assert max(second) == 0.0
    assert words.LOOKUP_TREE in _infos(at)

    at.selectbox(key=_box(at, ".proposer").key).set_value("draft_model").run()
    _box(at, ".topology").set_value("best").run()
    scenario = at.session_state["scenario"]
    best = fastest_tree(
        scenario_recording(stored, scenario), TreeLimits(8, 8), batch_size=1, context_tokens=96
    )
    assert best is not None
    assert words.LOOKUP_TREE not in _infos(at)
    assert scenario.speculation.tree == best.parents
    _sound(at)


def test_a_dynamic_tree_is_explained_where_its_order_is_not_known_and_bounded():
    asked = _scenario().with_(**{"speculation.proposer": "draft_model"})
    at = _visit(asked)
    _box(at, ".topology").set_value("dynamic").run()
    assert "dynamic_order" in _infos(_sound(at))
    assert at.session_state["scenario"].speculation == asked.speculation
    at.toggle(key="speculate.dynamic").set_value(True).run()
    scenario = at.session_state["scenario"]
    view = view_dynamic(scenario_recording(load_profile(CPU), scenario), DynamicShape(4, 4, 8))
    shown = "\n".join(each.value for each in at.markdown)
    assert f"**{view.lower_tokens:.2f}** and **{view.upper_tokens:.2f}**" in shown
    assert f"**{view.static_tokens:.2f}**" in shown


def test_without_traces_each_picture_says_that_it_needs_them():
    at = _visit(open_scenario("h100_chat"))
    assert "This picture needs traces" in _infos(at)
    assert "needs traces; this profile has none" in _captions(at)
    assert len(at.get("plotly_chart")) == 7
    _box(at, ".topology").set_value("wide").run()
    assert "A tree needs traces" in _infos(_sound(at))
    assert at.session_state["scenario"].speculation.tree is None


def test_at_gamma_zero_the_page_says_what_to_move():
    at = _visit(_scenario(0))
    assert "Speculation is off" in at.subheader[0].value
    assert "Move γ above 0" in _infos(at)
    assert len(at.get("plotly_chart")) == 4


@pytest.mark.parametrize(
    "kind",
    ["batch_size_table", "adaptive_ema", "acceptance_gate", "goodput", "memory_pressure", "oracle"],
)
def test_every_policy_can_be_chosen(kind):
    at = AppTest.from_file(str(ENTRY), default_timeout=60)
    at.query_params[link.PARAMETER] = link.encode(_scenario(5))
    at.run()
    _box(at, ".policy").set_value(kind).run()
    policy = _sound(at).session_state["scenario"].speculation.policy
    assert policy.kind == kind
    if isinstance(policy, BatchSizeTable):
        stored = load_profile(CPU)
        survivals = estimate_survival(stored, _scenario(5), "ngram")
        chains = [survivals[gamma] for gamma in range(1, 6)]
        assert policy.table == batch_size_table(speedup_map(stored, "ngram", chains, 96), 16)


def test_the_policy_off_is_plain_decoding():
    at = AppTest.from_file(str(ENTRY), default_timeout=60)
    at.query_params[link.PARAMETER] = link.encode(_scenario(5))
    at.run()
    _box(at, ".policy").set_value("off").run()
    speculation = _sound(at).session_state["scenario"].speculation
    assert (speculation.proposer, speculation.num_speculative_tokens) == ("ngram", 0)


def test_a_policy_that_shorter_drafts_cannot_have_gives_way_to_one_that_they_can():
    at = AppTest.from_file(str(ENTRY), default_timeout=60)
    at.query_params[link.PARAMETER] = link.encode(open_scenario("burst"))
    at.run()
    own = at.session_state["scenario"].speculation.policy
    slider = next(each for each in at.select_slider if each.key.endswith(".gamma"))
    slider.set_value(1).run()
    policy = _sound(at).session_state["scenario"].speculation.policy
    assert policy.kind == own.kind == "batch_size_table"
    assert {length for _, _, length in policy.table} <= {0, 1}


def test_a_dynamic_tree_whose_order_was_recorded_is_put_in_force(monkeypatch, tmp_path):
    stored = with_columns(
        tmp_path, {"tree_topk": 2, "tree_depth": 3}, dynamic_order=[1, 3, 8, RANK_ABSENT]
    )
    found = bundled_profiles() | {"recorded": stored.folder}
    monkeypatch.setattr(cache, "bundled_profiles", lambda: found)
    at = AppTest.from_file(str(ENTRY), default_timeout=60).run()
    at.selectbox(key="sidebar.profile").set_value("recorded").run()
    _box(at, ".proposer").set_value("draft_model").run()
    _box(at, ".topology").set_value("dynamic").run()
    _sound(at.switch_page("app_pages/speculate.py").run())
    scenario = at.session_state["scenario"]
    assert scenario.speculation.dynamic_tree == DynamicTree(topk=2, num_draft_tokens=8)
    survival = tree_survival(stored, scenario)
    assert _metrics(at)["Tokens a cycle, E[Y]"] == f"{survival.mean_emitted_tokens:.2f}"
    assert "another shape in every cycle" in _infos(at)


def test_moving_the_point_runs_the_whole_page_only_where_the_sidebar_follows_it():
    at = _visit(_scenario())
    assert FOLLOWED not in at.session_state
    _box(at, ".topology").set_value("best").run()
    assert FOLLOWED in at.session_state
    _box(at, ".topology").set_value("chain").run()
    assert FOLLOWED not in at.session_state
    _box(at, ".policy").set_value("batch_size_table").run()
    assert FOLLOWED in at.session_state
