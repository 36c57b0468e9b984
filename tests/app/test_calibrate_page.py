"""The page Calibrate: the profile's samples, and the import of an engine's files."""

import json
from pathlib import Path

import pytest

pytest.importorskip("streamlit")

from streamlit.testing.v1 import AppTest

from app import link, words
from app.import_words import FIELDS, REPLACE, page_words
from app.launch import ENTRY
from simcore.planner.estimate import estimate_survival
from simcore.profile.archive import pack_profile
from simcore.profile.import_summary import describe_reading
from simcore.profile.importers import EngineFile, ImportOptions, read_files
from simcore.profile.store import bundled_profiles, load_profile, write_profile
from simcore.scenario_files import open_scenario

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


def _cells(table) -> list[tuple[str, str]]:
    """Name and first cell of every row."""
    return [(str(name), str(row.iloc[0])) for name, row in table.iterrows()]


@pytest.mark.parametrize("profile", list(bundled_profiles()))
def test_every_bundled_profile_shows_what_it_holds(profile):
    at = _visit(profile)
    stored = load_profile(profile)
    (records,) = (each.value for each in at.dataframe)
    assert len(records) == len(stored.profile.acceptance)
    has_samples = "cost" in stored.profile.tables
    assert len(at.get("plotly_chart")) == (3 if has_samples else 0)
    assert any("no timed samples" in each.value for each in at.info) != has_samples
    box, target = stored.profile.cost.domain, stored.profile.identity.target
    cells = {name: text for table in at.table for name, text in _cells(table.value)}
    assert cells["Target model"] == target.name
    assert cells["Batch"] == f"up to {box.max_batch_size:,} requests"
    assert cells["Step"] == f"up to {box.max_step_tokens:,} tokens"
    for phase, error in stored.profile.cost.held_out_error.items():
        assert cells[phase] == f"{100 * error.median_rel:.1f} %"
    assert records["requests"].fillna(0).tolist() == [
        each.num_requests for each in stored.profile.acceptance
    ]
    assert any(stored.content_hash in each.value for each in at.caption)


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


def _texts(kind) -> list[str]:
    return [each.value for each in kind]


def test_a_paste_without_its_last_line_feed_is_read_like_the_file():
    at = _visit(SMOLLM2)
    text = SCRAPE.read_text(encoding="utf-8")
    _paste(at, text)
    whole = at.code[-1].value
    _paste(at, text.rstrip("\n"))
    assert not at.error, _texts(at.error)
    assert at.code[-1].value == whole


def test_files_that_hold_nothing_to_store_say_so_and_offer_nothing_to_use():
    at = _visit(SMOLLM2)
    _paste(at, (FIXTURES / "real" / "guidellm.json").read_text(encoding="utf-8"))
    assert not at.error, _texts(at.error)
    assert "Nothing is missing" not in at.code[-1].value
    assert words.NOTHING_TO_USE in _texts(at.info)
    assert "Use it" not in [each.label for each in at.button]


def test_an_import_that_nothing_can_be_planned_with_leaves_the_visitor_where_they_were():
    at = _visit(SMOLLM2)
    at.selectbox(key=f"calibrate.import.{SMOLLM2}.proposer").set_value("ngram")
    at.checkbox(key=f"calibrate.import.{SMOLLM2}.same_target").set_value(True)
    _paste(at, (FIXTURES / "invented" / "sglang_meta_info.jsonl").read_text(encoding="utf-8"))
    next(b for b in at.button if b.label == "Use it").click().run()
    assert "cycles without a draft were not counted" in at.error[0].value
    assert "“Proposer”" in at.error[0].value
    at.switch_page("app_pages/decide.py").run()
    assert not at.error, _texts(at.error)
    assert at.session_state["scenario"].profile == SMOLLM2


def test_whole_steps_of_an_engine_do_not_keep_its_counts_out_of_a_profile_of_two_proposers():
    at = _visit(SMOLLM2)
    at.selectbox(key=f"calibrate.import.{SMOLLM2}.proposer").set_value("draft_model")
    at.checkbox(key=f"calibrate.import.{SMOLLM2}.same_target").set_value(True)
    _paste(at, (FIXTURES / "real" / "vllm.log").read_text(encoding="utf-8"), domain="mine")
    next(b for b in at.button if b.label == "Use it").click().run()
    assert not at.error, _texts(at.error)
    own, bundled = at.session_state["profiles"][f"{SMOLLM2}-imported"], load_profile(SMOLLM2)
    assert "mine" in {each.domain for each in own.profile.acceptance}
    assert own.profile.cost == bundled.profile.cost


def test_refusals_of_an_import_name_the_fields_of_the_form():
    at = _visit(SMOLLM2)
    _paste(at, (FIXTURES / "real" / "llamacpp_timings.jsonl").read_text(encoding="utf-8"))
    assert "state it with “γ”" in at.error[0].value
    said = page_words("name another --domain, or pass --replace; serve with --speculative-config")
    assert (
        said == "name another “Domain”, or pass “Replace records”; serve with --speculative-config"
    )
    labels = {
        each.label for kind in (at.text_input, at.selectbox, at.number_input) for each in kind
    }
    assert {*FIELDS.values()} - {REPLACE} <= labels


# --- a whole profile ------------------------------------------------------------------------------


def _own_profile(tmp_path: Path, name: str = "mine") -> bytes:
    """A measured profile under another name, as a zip."""
    stored = load_profile(SMOLLM2)
    profile = stored.profile.model_copy(update={"name": name, "title": "My own machine"})
    tables = {"cost": stored.cost_samples, "traces": stored.traces}
    frames = {table: each.to_pandas() for table, each in tables.items()}
    return pack_profile(write_profile(profile, tmp_path / name, **frames))


def _upload(at: AppTest, *files: tuple[str, bytes, str]) -> AppTest:
    at.file_uploader(key="calibrate.profile.files").set_value(list(files))
    return next(b for b in at.button if b.label == "Show the profile").click().run()


def test_a_whole_profile_is_shown_and_used_by_this_visitor_alone(tmp_path):
    at = _visit("llama31_8b_h100")
    _upload(at, ("mine.zip", _own_profile(tmp_path), "application/zip"))
    assert not at.exception, at.exception
    assert not at.error, [each.value for each in at.error]
    assert any("My own machine" in each.value for each in at.markdown)
    assert at.session_state["scenario"].profile == "llama31_8b_h100"
    at.button(key="calibrate.profile.use").click().run()
    assert not at.exception, at.exception
    assert not at.error, [each.value for each in at.error]
    assert at.session_state["scenario"].profile == "mine"
    at.switch_page("app_pages/decide.py").run()
    assert not at.exception, at.exception
    scenario, stored = at.session_state["scenario"], load_profile(SMOLLM2)
    gamma = scenario.speculation.num_speculative_tokens
    survival = estimate_survival(stored, scenario, scenario.speculation.proposer)[gamma]
    shown = {each.label: each.value for each in at.metric}
    assert shown["Tokens a cycle, E[Y]"] == f"{survival.mean_emitted_tokens:.2f}"
    other = AppTest.from_file(str(ENTRY), default_timeout=60).run()
    assert "mine" not in other.selectbox(key="sidebar.profile").options
    assert "My own machine" not in other.selectbox(key="sidebar.profile").options


def test_a_pasted_profile_is_read_too():
    at = _visit(SMOLLM2)
    text = (load_profile("llama31_8b_h100").folder / "profile.json").read_text(encoding="utf-8")
    renamed = text.replace('"name": "llama31_8b_h100"', '"name": "mine"')
    assert renamed != text
    at.text_area(key="calibrate.profile.pasted").set_value(renamed)
    next(b for b in at.button if b.label == "Show the profile").click().run()
    at.button(key="calibrate.profile.use").click().run()
    assert not at.error, [each.value for each in at.error]
    assert at.session_state["scenario"].profile == "mine"
    assert at.session_state["scenario"].speculation.proposer == "eagle"


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"{", "cannot read profile.json"), (b"\x80\x04\x95 a pickle", "cannot read profile.json")],
)
def test_a_file_that_is_no_profile_is_one_sentence_and_changes_nothing(content, said):
    at = _visit(SMOLLM2)
    _upload(at, ("profile.json", content, "application/json"))
    assert not at.exception
    assert said in at.error[0].value
    assert "/tmp" not in at.error[0].value
    assert at.session_state["scenario"].profile == SMOLLM2


def test_a_bundled_profile_is_not_brought_again():
    at = _visit(SMOLLM2)
    _upload(at, ("p.zip", pack_profile(load_profile(SMOLLM2)), "application/zip"))
    assert "is bundled already" in at.error[0].value


def test_two_visitors_with_a_profile_of_one_name_each_see_their_own():
    text = (load_profile("llama31_8b_h100").folder / "profile.json").read_text(encoding="utf-8")
    shown = []
    for rate in (0.9, 0.5):
        raw = json.loads(text) | {"name": "mine"}
        for record in (each for each in raw["acceptance"] if each["proposer"] == "eagle"):
            record["conditional_acceptance"] = {
                gamma: [rate] * int(gamma) for gamma in record["conditional_acceptance"]
            }
        at = _visit(SMOLLM2)
        at.text_area(key="calibrate.profile.pasted").set_value(json.dumps(raw))
        next(b for b in at.button if b.label == "Show the profile").click().run()
        at.button(key="calibrate.profile.use").click().run()
        at.switch_page("app_pages/decide.py").run()
        assert not at.error, [each.value for each in at.error]
        shown.append(at)
    for at, rate in zip(shown, ("0.900", "0.500"), strict=True):
        at.run()
        assert {each.label: each.value for each in at.metric}["Acceptance rate α"] == rate


def test_the_words_of_a_profile_are_text_and_fetch_nothing():
    raw = json.loads((load_profile("llama31_8b_h100").folder / "profile.json").read_text("utf-8"))
    picture = "![x](https://elsewhere.invalid/x.png)"
    raw |= {"name": "mine", "title": picture}
    raw["provenance"]["notes"] = [picture]
    at = _visit(SMOLLM2)
    at.text_area(key="calibrate.profile.pasted").set_value(json.dumps(raw))
    next(b for b in at.button if b.label == "Show the profile").click().run()
    at.button(key="calibrate.profile.use").click().run()
    text = "\n".join(each.value for each in at.markdown)
    assert "elsewhere.invalid" in text
    assert picture not in text


def _use_scrape(at: AppTest, name: str) -> AppTest:
    _paste(at, SCRAPE.read_text(encoding="utf-8"))
    at.checkbox(key=f"calibrate.import.{at.session_state['scenario'].profile}.same_target").check()
    next(b for b in at.button if b.label == "Show what is in it").click().run()
    at.text_input(key="calibrate.import.name").set_value(name)
    return next(b for b in at.button if b.label == "Use it").click().run()


@pytest.mark.parametrize("name", [SMOLLM2, "llama31_8b_h100", "../elsewhere", "/tmp/elsewhere"])
def test_an_import_takes_no_bundled_profiles_place_and_leaves_no_folder(name):
    at = _use_scrape(_visit(SMOLLM2), name)
    assert "is bundled already" in at.error[0].value or "match pattern" in at.error[0].value
    assert "profiles" not in at.session_state or not at.session_state["profiles"]
    assert at.session_state["scenario"].profile == SMOLLM2


def test_an_import_under_the_name_of_an_older_one_leaves_the_older_ones_files_alone():
    at = _visit(SMOLLM2)
    stored = []
    for _ in range(2):
        at.selectbox(key="sidebar.profile").set_value(SMOLLM2).run()
        _use_scrape(at, "mine")
        assert not at.error, [each.value for each in at.error]
        stored.append(at.session_state["profiles"]["mine"])
    # Work that began with the older one reads its tables when it needs them.
    assert stored[0].folder != stored[1].folder
    assert stored[0].traces.num_rows == stored[1].traces.num_rows


def test_a_link_waits_for_the_profile_that_it_names(tmp_path):
    content = _own_profile(tmp_path)
    asked = open_scenario("cpu_chat").with_(
        profile="mine",
        **{"speculation.proposer": "ngram", "speculation.num_speculative_tokens": 6, "seed": 77},
    )
    at = AppTest.from_file(str(ENTRY), default_timeout=60)
    at.query_params[link.PARAMETER] = link.encode(asked)
    at.run().switch_page(PAGE).run()
    assert at.session_state["scenario"].profile != "mine"
    _upload(at, ("mine.zip", content, "application/zip"))
    next(b for b in at.button if b.label == "Use this profile").click().run()
    assert not at.error, _texts(at.error)
    scenario = at.session_state["scenario"]
    assert (scenario.profile, scenario.seed) == ("mine", 77)
    assert scenario.speculation.num_speculative_tokens == 6
    assert words.OWN_PROFILE in _texts(at.caption)
