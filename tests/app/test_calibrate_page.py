"""The page Calibrate: the profile's samples, and the import of an engine's files."""

from pathlib import Path

import pytest

pytest.importorskip("streamlit")

from streamlit.testing.v1 import AppTest

from app.launch import ENTRY
from simcore.profile.import_summary import describe_reading
from simcore.profile.importers import EngineFile, ImportOptions, read_files
from simcore.profile.store import bundled_profiles, load_profile

SMOLLM2 = "smollm2_135m_cpu"
PAGE = "app_pages/calibrate.py"
FIXTURES = Path(__file__).parents[1] / "profile" / "importers" / "fixtures"
SCRAPE = FIXTURES / "real" / "vllm_draft_after.prom"


def _visit(profile: str) -> AppTest:
    at = AppTest.from_file(str(ENTRY), default_timeout=60).run()
    at.selectbox(key="sidebar.profile").set_value(profile).run()
    at.switch_page(PAGE).run()
    assert not at.exception, at.exception
    return at


def _paste(at: AppTest, text: str, domain: str = "all") -> AppTest:
    at.text_area(key="calibrate.import.pasted").set_value(text)
    at.text_input(key="calibrate.import.domain").set_value(domain)
    return next(b for b in at.button if b.label == "Show what is in it").click().run()


@pytest.mark.parametrize("profile", list(bundled_profiles()))
def test_every_bundled_profile_shows_what_it_holds(profile):
    at = _visit(profile)
    stored = load_profile(profile)
    (records,) = (each.value for each in at.dataframe)
    assert len(records) == len(stored.profile.acceptance)
    has_samples = "cost" in stored.profile.tables
    assert len(at.get("plotly_chart")) == (3 if has_samples else 0)
    assert any("no timed samples" in each.value for each in at.info) != has_samples


def test_a_pasted_scrape_is_shown_and_becomes_a_profile_of_this_visit_alone():
    at = _visit(SMOLLM2)
    text = SCRAPE.read_text(encoding="utf-8")
    proposer = at.selectbox(key=f"calibrate.import.{SMOLLM2}.proposer")
    proposer.set_value("draft_model")
    at.checkbox(key=f"calibrate.import.{SMOLLM2}.same_target").set_value(True)
    _paste(at, text, domain="my_service")
    assert not at.exception
    kind, reading = read_files(
        "auto", [EngineFile("pasted text", text.encode())], ImportOptions(proposer="draft_model")
    )
    (record,) = describe_reading(kind, reading)["records"]
    shown = at.code[-1].value
    for counts in record["gammas"].values():
        assert f"{counts['num_drafts']:,} drafts" in shown
        assert f"{counts['mean_acceptance_length']:.3f}" in shown
    next(b for b in at.button if b.label == "Use it").click().run()
    assert not at.exception, at.exception
    assert not at.error, [each.value for each in at.error]
    scenario = at.session_state["scenario"]
    assert scenario.profile == f"{SMOLLM2}-imported"
    profile = at.session_state["profiles"][scenario.profile].profile
    assert "my_service" in {each.domain for each in profile.acceptance}
    other = AppTest.from_file(str(ENTRY), default_timeout=60).run()
    assert scenario.profile not in other.selectbox(key="sidebar.profile").options


@pytest.mark.parametrize(
    ("text", "said"),
    [("", "no file"), ("   \n", "no file"), ("hello", "no known kind"), ("{", "kind")],
)
def test_what_cannot_be_read_is_one_sentence_and_changes_nothing(text, said):
    at = _visit(SMOLLM2)
    _paste(at, text)
    assert not at.exception
    assert said in at.error[0].value
    assert at.session_state["scenario"].profile == SMOLLM2
