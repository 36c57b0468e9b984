"""The first page, without a browser: what it shows is what simcore says."""

import json
from pathlib import Path

import pytest

pytest.importorskip("streamlit")

from streamlit.testing.v1 import AppTest

from app import cache, link, words
from app.launch import ENTRY
from simcore.acceptance.survival import iid_mean_emitted_tokens
from simcore.planner.estimate import estimate
from simcore.planner.plan import make_plan
from simcore.planner.rate_curves import rate_curves, simulated_curves, ways_to_serve
from simcore.profile.store import PROFILE_FILE, bundled_profiles, load_profile
from simcore.report.recommendation_view import recommendation_sentences
from simcore.report.table import escape_markdown
from simcore.scenario import Scenario
from simcore.scenario_files import open_scenario

H100 = "llama31_8b_h100"
FEW_REQUESTS = 200


@pytest.fixture
def page() -> AppTest:
    """The page on the published profile, with a workload of few requests."""
    at = AppTest.from_file(str(ENTRY), default_timeout=60).run()
    at.selectbox(key="sidebar.profile").set_value(H100).run()
    at.number_input(key="sidebar.h100_chat.num_requests").set_value(FEW_REQUESTS).run()
    return _sound(at)


def _sound(at: AppTest) -> AppTest:
    assert not at.exception, at.exception
    assert not at.error, [each.value for each in at.error]
    return at


def _gamma(at: AppTest, gamma: int, proposer: str = "eagle") -> AppTest:
    return at.select_slider(key=f"sidebar.h100_chat.{H100}.{proposer}.gamma").set_value(gamma).run()


def _scenario(at: AppTest) -> Scenario:
    return at.session_state["scenario"]


def _metrics(at: AppTest) -> dict[str, str]:
    return {metric.label: metric.value for metric in at.metric}


def _captions(at: AppTest) -> str:
    return "\n".join(each.value for each in at.caption)


@pytest.mark.parametrize("gamma", [1, 3, 7])
def test_the_headline_equals_the_closed_form(page, gamma):
    _sound(_gamma(page, gamma))
    scenario = _scenario(page)
    made = estimate(load_profile(H100), scenario, "eagle", batch_sizes=(1,), context_tokens=300)
    survival = made.survivals[gamma]
    point = next(each for each in made.points[1] if each.gamma == gamma)
    shown = _metrics(page)
    assert scenario.speculation.num_speculative_tokens == gamma
    assert shown["Tokens a cycle, E[Y]"] == f"{survival.mean_emitted_tokens:.2f}"
    assert shown["Speed-up S, batch 1"] == f"{point.speedup:.2f} ×"
    assert shown["Acceptance rate α"] == f"{survival.acceptance_rate:.3f}"
    iid = iid_mean_emitted_tokens(survival.acceptance_rate, gamma)
    assert f"predict {iid:.2f} tokens" in _captions(page)
    assert f"{point.speedup:.2f} × as fast" in page.subheader[0].value


def test_a_source_without_errors_shows_no_interval_and_says_so(page):
    assert words.NO_INTERVAL.strip() in _sound(_gamma(page, 3)).subheader[0].value


def test_the_curve_says_what_its_closed_form_leaves_out():
    at = AppTest.from_file(str(ENTRY), default_timeout=60)
    at.query_params[link.PARAMETER] = link.encode(open_scenario("agent_sessions"))
    _sound(at.run())
    assert "turns of sessions are taken as arrivals by themselves" in _captions(at)


def test_moving_gamma_changes_the_headline(page):
    before = _metrics(_gamma(page, 1))
    after = _metrics(_gamma(page, 7))
    assert before["Tokens a cycle, E[Y]"] != after["Tokens a cycle, E[Y]"]


def test_gamma_zero_shows_plain_decoding(page):
    _sound(_gamma(page, 0))
    assert "off" in page.subheader[0].value
    assert "Tokens a cycle, E[Y]" not in _metrics(page)


def test_the_load_slider_sets_the_arrival_rate(page):
    slider = page.slider(key="sidebar.h100_chat.rate")
    slider.set_value(slider.max).run()
    assert _scenario(_sound(page)).workload.arrivals.rate_per_s == slider.max


def test_the_plan_equals_make_plan_and_can_be_downloaded(page, finish):
    page.number_input(key="decide.replications").set_value(2)
    next(each for each in page.button if each.label == "Make the plan").click().run()
    _sound(finish(page, "decide.plan"))
    plan = make_plan(_scenario(page), num_replications=2)
    verdicts = [each.value for each in (*page.success, *page.info)]
    assert any(plan.decision.reason in verdict for verdict in verdicts)
    text = "\n".join(each.value for each in page.markdown)
    assert f"Break-even: {plan.break_even.reason}." in text
    for sentence in recommendation_sentences(plan)[1:]:
        assert escape_markdown(sentence) in text
    assert plan.caveats
    for caveat in plan.caveats:
        assert f"- {caveat}" in text
    assert plan.origin["profile_sha256"][:12] in _captions(page)
    labels = {each.label for each in page.get("download_button")}
    assert labels >= {"Download the report (HTML, one file)", "Download all files (zip)"}
    made = page.session_state["decide.plan"].result
    assert made.report.lstrip().lower().startswith(b"<!doctype html>")
    assert made.archive.startswith(b"PK")


def test_the_curve_over_the_load_is_that_of_simulated_curves(page, finish):
    charts = len(page.get("plotly_chart"))
    page.button(key="decide.simulate_curve").click().run()
    _sound(finish(page, "decide.curves"))
    stored, scenario = load_profile(H100), _scenario(page)
    ways = ways_to_serve(stored, scenario)
    rates = rate_curves(stored, ways).rates_per_s[1::4]
    expected = simulated_curves(stored, ways, rates, num_seeds=3)
    assert page.session_state["decide.curves"].result == expected
    assert {each.label for each in expected} == set(ways)
    assert len(page.get("plotly_chart")) == charts + 1  # goodput beside TPOT


def test_other_domains_offer_their_own_draft_lengths(page):
    _gamma(page, 5)
    page.multiselect(key=f"sidebar.h100_chat.{H100}.eagle.greedy_equality.domains").set_value(
        ["instructcoder"]
    ).run()
    assert _scenario(_sound(page)).speculation.num_speculative_tokens != 5
    page.multiselect(key=f"sidebar.h100_chat.{H100}.eagle.greedy_equality.domains").set_value(
        []
    ).run()
    assert _scenario(_sound(page)).workload.domains == {}


def test_a_refused_input_is_one_sentence(page):
    page.number_input(key="sidebar.h100_chat.prompt.mean_tokens").set_value(5000.0).run()
    assert not page.exception
    assert "max_tokens 2048 is below mean_tokens 5000" in page.error[0].value


def _with_profile(monkeypatch: pytest.MonkeyPatch, folder: Path, **changes: object) -> None:
    """Bundle one more profile: the published one, changed."""
    raw = json.loads((bundled_profiles()[H100] / PROFILE_FILE).read_text(encoding="utf-8"))
    folder.mkdir()
    (folder / PROFILE_FILE).write_text(json.dumps(raw | changes), encoding="utf-8")
    _bundle(monkeypatch, folder)


def _bundle(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    found = bundled_profiles() | {folder.name: folder}
    monkeypatch.setattr(cache, "bundled_profiles", lambda: found)


@pytest.fixture
def recorded_page(monkeypatch, recorded_profile) -> AppTest:
    """The page on an invented measured profile with acceptance traces."""
    _bundle(monkeypatch, recorded_profile.folder)
    at = AppTest.from_file(str(ENTRY), default_timeout=60).run()
    at.selectbox(key="sidebar.profile").set_value("recorded").run()
    workload = at.selectbox(key="sidebar.recorded.workload").value
    at.number_input(key=f"sidebar.{workload}.num_requests").set_value(FEW_REQUESTS).run()
    at.slider(key=f"sidebar.{workload}.rate").set_value(0.4).run()
    at.number_input(key=f"sidebar.{workload}.max_num_seqs").set_value(8).run()
    return at


@pytest.mark.parametrize("proposer", ["ngram", "draft_model"])
def test_recorded_requests_give_an_interval_under_every_sampling(recorded_page, proposer):
    key = f"sidebar.{recorded_page.selectbox(key='sidebar.recorded.workload').value}.recorded"
    recorded_page.selectbox(key=f"{key}.proposer").set_value(proposer).run()
    box = recorded_page.selectbox(key=f"{key}.{proposer}.sampling")
    assert len(box.options) == 2
    for label in box.options:
        recorded_page.selectbox(key=f"{key}.{proposer}.sampling").set_value(label).run()
        assert "95 % interval: " in _captions(_sound(recorded_page))
        assert _scenario(recorded_page).contract.value.replace("_", " ") in _captions(recorded_page)


def test_recorded_lengths_are_planned(recorded_page, finish):
    toggle = next(each for each in recorded_page.toggle if "recorded" in each.label)
    _sound(toggle.set_value(True).run())
    scenario = _scenario(recorded_page)
    assert scenario.workload.lengths.kind == "recorded"
    recorded_page.checkbox(key="decide.every_proposer").set_value(True)
    recorded_page.number_input(key="decide.replications").set_value(2)
    next(b for b in recorded_page.button if b.label == "Make the plan").click().run()
    plan = finish(recorded_page, "decide.plan").session_state["decide.plan"].result.plan
    assert {each.proposer for each in plan.candidates} == {None, "ngram", "draft_model"}


def test_a_profile_of_another_schema_is_refused_in_one_sentence(monkeypatch, tmp_path):
    _with_profile(monkeypatch, tmp_path / "newer", schema_version=99)
    at = _sound(AppTest.from_file(str(ENTRY), default_timeout=60).run())
    at.selectbox(key="sidebar.profile").set_value("newer").run()
    assert not at.exception
    assert "schema version 99" in at.error[0].value


def test_a_profile_without_a_workload_borrows_one(monkeypatch, tmp_path):
    _with_profile(monkeypatch, tmp_path / "another", name="another", title="Another")
    at = AppTest.from_file(str(ENTRY), default_timeout=60).run()
    at.selectbox(key="sidebar.profile").set_value("another").run()
    assert _scenario(_sound(at)).profile == "another"


def test_a_measured_profile_is_the_first_choice():
    at = _sound(AppTest.from_file(str(ENTRY), default_timeout=60).run())
    sources = {name: load_profile(name).profile.source.value for name in bundled_profiles()}
    chosen = sources[_scenario(at).profile]
    assert chosen == "measured" or "measured" not in sources.values()


@pytest.mark.parametrize(
    ("profile", "proposer"),
    [(name, each) for name in bundled_profiles() for each in load_profile(name).profile.proposers],
)
def test_every_bundled_profile_and_proposer_renders(profile, proposer):
    at = AppTest.from_file(str(ENTRY), default_timeout=60).run()
    at.selectbox(key="sidebar.profile").set_value(profile).run()
    key = f"sidebar.{at.selectbox(key=f'sidebar.{profile}.workload').value}.{profile}"
    at.selectbox(key=f"{key}.proposer").set_value(proposer).run()
    for sampling in at.selectbox(key=f"{key}.{proposer}.sampling").options:
        at.selectbox(key=f"{key}.{proposer}.sampling").set_value(sampling).run()
        assert _scenario(_sound(at)).speculation.proposer == proposer
        assert at.metric


@pytest.mark.parametrize("name", ["burst", "agent_sessions", "batch_summarisation"])
def test_a_bundled_workload_of_every_sort_opens(page, name):
    page.selectbox(key=f"sidebar.{H100}.workload").set_value(name).run()
    assert _scenario(_sound(page)).name == name
