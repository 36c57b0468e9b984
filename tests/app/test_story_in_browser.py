"""The dashboard as its visitors use it: a real server, a real Chromium, one story.

What a person sees is compared with the same call to simcore. The address holds the scenario; the
visitor's own profile is the one that they can download.
"""

import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import pytest

pytest.importorskip("streamlit")
pytest.importorskip("playwright")

from playwright.sync_api import Browser, Page, expect

import simcore as sp
from simcore.metrics.summary import summarise
from simcore.planner.estimate import estimate_survival
from simcore.planner.plan_file import parse_plan
from simcore.planner.speedup import CycleSurvival
from simcore.planner.speedup_map import speedup_map
from simcore.planner.tree_survival import tree_survival
from simcore.profile.import_summary import describe_reading, missing_to_plan, summary_lines
from simcore.profile.importers import EngineFile, ImportOptions, read_files
from simcore.profile.schema import Sampling
from simcore.profile.store import StoredProfile, load_profile
from simcore.report.comparison_figures import comparison_figure
from simcore.report.comparison_text import comparison_rows, difference_sentences
from simcore.report.figures import survival_figure
from simcore.report.run_figures import timeline_figure
from simcore.report.units import seconds
from simcore.scenario import Scenario
from tests.app import story
from tests.app.browser import (
    PATIENT_MS,
    Problems,
    figure,
    fits,
    metric,
    press,
    set_number,
    settled,
    table,
    unfold,
    visitor,
)
from tests.app.served import CHROMIUM, chromium, served

PLAN_SCHEMA = Path(__file__).parents[2] / "docs" / "schemas" / "plan.schema.json"
FEW_REQUESTS = 200
MANY_REQUESTS = 300_000  # more than can be served before a person presses Cancel
FEW_SEEDS = 2

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium on PATH; apt-get install chromium"),
]


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served(tmp_path_factory.mktemp("data")) as url:
        yield url


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


def test_a_visitor_goes_from_a_metrics_page_to_a_report_of_the_same_numbers(
    address, browser, tmp_path
):
    context = visitor(browser)
    page = context.new_page()
    problems = Problems(page)
    story.open_dashboard(page, address)
    _check_first_sight(page)
    story.set_requests(page, FEW_REQUESTS)

    stored = _import(page, tmp_path)
    _see_survival(page, stored)
    scenario = _choose_a_tree(page, stored)
    _serve(page, stored, scenario)
    _compare(page, stored, scenario)
    _find_capacity(page, stored, scenario)
    plan = _decide(page, stored, scenario)
    _take_the_report(page, stored, plan, tmp_path)
    problems.check(address)
    context.close()


def _turn_to(page: Page, title: str) -> None:
    """A page, which shows all of its width and of its figures."""
    story.turn_to(page, title)
    assert fits(page), title
    for value in page.get_by_test_id("stMetricValue").locator("p").all():
        assert value.evaluate("each => each.scrollWidth <= each.clientWidth + 1"), title


# --- its chapters --------------------------------------------------------------------------------


def _check_first_sight(page: Page) -> None:
    scenario = story.scenario_of(page)
    assert (scenario.profile, scenario.name) == (story.PROFILE, story.WORKLOAD)
    _check_headline(page, load_profile(story.PROFILE), scenario)


def _check_headline(
    page: Page, stored: StoredProfile, scenario: Scenario, of_tree: bool = False
) -> CycleSurvival:
    """The cards of one request alone, at the mean prompt as context."""
    wanted = scenario.speculation
    survival = (
        tree_survival(stored, scenario)
        if of_tree
        else estimate_survival(stored, scenario, wanted.proposer)[wanted.num_speculative_tokens]
    )
    context_tokens = int(scenario.workload.lengths.prompt.mean_tokens)
    point = speedup_map(stored, wanted.proposer, (survival,), context_tokens, (1,)).at(1)
    share = f"{survival.survival[-1]:.1%}".replace("%", " %")
    for label, shown in (
        ("Tokens a cycle, E[Y]", f"{survival.mean_emitted_tokens:.2f}"),
        ("Speed-up S, batch 1", f"{point.speedup:.2f} ×"),
        ("Acceptance rate α", f"{survival.acceptance_rate:.3f}"),
        (f"All {survival.gamma} drafts accepted", share),
    ):
        expect(metric(page, label)).to_have_text(shown)
    heading = page.get_by_role("heading", name=story.PLANNING)
    expect(heading).to_contain_text(f"{point.speedup:.2f} × as fast")
    return survival


def _import(page: Page, folder: Path) -> StoredProfile:
    """Upload the scrape, see exactly what the importer understood, use it."""
    _turn_to(page, "Calibrate")
    story.upload_metrics(page, story.METRICS)
    story.preview_import(page)
    options = ImportOptions(
        proposer="ngram",
        proposer_kind="ngram",
        domain=story.DOMAIN,
        sampling=Sampling(temperature=0.0),
    )
    kind, reading = read_files("auto", [EngineFile(story.FILE, story.METRICS.encode())], options)
    described = describe_reading(kind, reading)
    expected = summary_lines(
        described, missing_to_plan(reading, load_profile(story.PROFILE).profile)
    )
    assert story.understood(page).split() == " ".join(expected).split()
    (record,) = described["records"]
    (drawn,) = figure(page, "Survival by position, as the engine counted")
    assert drawn["y"] == pytest.approx(record["gammas"]["4"]["survival"])

    story.use_import(page)
    scenario = story.scenario_of(page)
    assert scenario.profile == story.OWN_PROFILE
    assert scenario.workload.domains == {story.DOMAIN: 1.0}
    stored = story.download_profile(page, folder / "own")
    assert stored.profile.name == story.OWN_PROFILE
    assert any(story.FILE in note for note in stored.profile.provenance.notes)
    return stored


def _see_survival(page: Page, stored: StoredProfile) -> None:
    """Their own traffic: counters hold no intervals, and the page says so."""
    _turn_to(page, "Speculate")
    survival = _check_headline(page, stored, story.scenario_of(page))
    counted = [
        each / story.NUM_CYCLES for each in story.ACCEPTED_BY_POSITION
    ]  # of all decode steps
    assert survival.survival == pytest.approx(counted)
    expect(page.get_by_text("The source states no interval.")).to_be_visible()
    _check_survival_figure(page, survival)


def _check_survival_figure(page: Page, survival: CycleSurvival) -> None:
    title = survival_figure(survival).layout.title.text
    expect(page.get_by_role("figure", name=title)).to_be_visible()
    measured, pooled, *_ = figure(page, title)
    assert measured["y"] == pytest.approx(survival.survival)
    pairs = zip(measured["y"], measured["above"] or [0.0] * survival.gamma, strict=True)
    assert [y + arm for y, arm in pairs] == pytest.approx(survival.upper)
    pairs = zip(measured["y"], measured["below"] or [0.0] * survival.gamma, strict=True)
    assert [y - arm for y, arm in pairs] == pytest.approx(survival.lower)
    alpha = survival.acceptance_rate
    assert pooled["y"] == pytest.approx([alpha**k for k in range(1, survival.gamma + 1)])


def _choose_a_tree(page: Page, stored: StoredProfile) -> Scenario:
    """Recorded requests of the nearest kind show intervals and what a tree is worth."""
    story.choose_recorded_domain(page)
    survival = _check_headline(page, stored, story.scenario_of(page))
    assert all(a < b for a, b in zip(survival.lower, survival.upper, strict=True))
    expect(page.get_by_text("95 % interval").first).to_be_visible()
    _check_survival_figure(page, survival)
    story.choose_tree(page, 2, 4)
    scenario = story.scenario_of(page)
    assert scenario.speculation.num_draft_tokens == 8
    survival = _check_headline(page, stored, scenario, of_tree=True)
    _check_survival_figure(page, survival)
    return scenario


def _serve(page: Page, stored: StoredProfile, scenario: Scenario) -> None:
    """A run that is too long is cancelled; a short one is that of simulate."""
    _turn_to(page, "Serve")
    story.set_requests(page, MANY_REQUESTS)
    press(page, "Simulate")
    expect(page.get_by_role("progressbar")).to_be_visible()
    expect(page.get_by_text(f"of about {2 * MANY_REQUESTS:,} requests")).to_be_visible(
        timeout=PATIENT_MS
    )
    press(page, "Cancel")
    expect(page.get_by_text("Cancelled; nothing was kept.")).to_be_visible()
    story.set_requests(page, FEW_REQUESTS)
    story.simulate(page)
    assert story.scenario_of(page) == scenario
    off = scenario.with_(speculation={"proposer": scenario.speculation.proposer})
    shown = table(page)
    for column, each in zip(shown.columns, (off, scenario), strict=True):
        summary = summarise(sp.simulate(each, stored=stored))
        assert shown[column]["First token, TTFT: p95"] == seconds(summary.ttft.p95_s)
        assert shown[column]["Time per token, TPOT: p50"] == seconds(summary.tpot.p50_s)
        assert shown[column]["Whole request, E2E: p95"] == seconds(summary.e2e.p95_s)
        assert shown[column]["Requests finished"] == str(FEW_REQUESTS)
    drawn = {each["name"]: each for each in figure(page, "The service over time")}
    for each in timeline_figure(sp.simulate(scenario, stored=stored)).data:
        assert drawn[each.name]["x"] == pytest.approx(list(each.x))
        assert drawn[each.name]["y"] == pytest.approx(list(each.y))


def _compare(page: Page, stored: StoredProfile, scenario: Scenario) -> None:
    _turn_to(page, "Compare")
    story.compare(page, ("ngram γ=8",), FEW_SEEDS)
    asked = {
        "off": sp.draft_lengths(scenario, (), (0,))["off"],
        "as in the sidebar": scenario,
        "ngram γ=8": sp.draft_lengths(scenario, (), (8,))["ngram γ=8"],
    }
    found = sp.compare(asked, num_seeds=FEW_SEEDS, profiles={stored.profile.name: stored})
    shown = table(page)
    assert list(shown.columns) == list(asked)
    for name, *values in comparison_rows(found.services):
        assert list(shown.loc[name]) == [" ".join(each.split()) for each in values], name
    unfold(page, "ngram γ=8 against off")
    told = page.get_by_test_id("stExpander").filter(has_text="ngram γ=8 against off")
    expect(told.get_by_role("listitem")).to_have_text(difference_sentences(found.services[-1]))
    (drawn,) = comparison_figure(found).data[-1:]
    shown_points = figure(page, comparison_figure(found).layout.title.text)[-1]
    for arm, values in (("x", drawn.x), ("y", drawn.y)):
        assert shown_points[arm] == (pytest.approx(list(values)) if arm == "x" else list(values))


def _find_capacity(page: Page, stored: StoredProfile, scenario: Scenario) -> None:
    _turn_to(page, "Capacity")
    story.find_capacity(page, FEW_SEEDS)
    capacity = sp.find_capacity(scenario, stored=stored, num_seeds=FEW_SEEDS)
    sentence = capacity.gain.sentence
    expect(page.get_by_role("heading", name=sentence[1:], exact=False)).to_be_visible()


def _decide(page: Page, stored: StoredProfile, scenario: Scenario) -> "sp.Plan":
    _turn_to(page, "Decide")
    _check_headline(page, stored, scenario, of_tree=True)
    story.make_plan(page, FEW_SEEDS)
    plan = sp.make_plan(scenario, stored=stored, num_replications=FEW_SEEDS)
    expect(page.get_by_test_id("stAlert").filter(has_text=plan.decision.reason)).to_be_visible()
    expect(page.get_by_text(f"Break-even: {plan.break_even.reason}.")).to_be_visible()
    return plan


def _take_the_report(page: Page, stored: StoredProfile, plan: "sp.Plan", folder: Path) -> None:
    """What is downloaded opens, keeps to its schema, and names where it comes from."""
    _turn_to(page, "Report")
    with page.expect_download() as report:
        page.get_by_role("button", name="Download the report").click()
    with page.expect_download() as archive:
        page.get_by_role("button", name="Download all files").click()
    with zipfile.ZipFile(io.BytesIO(story.content(archive.value))) as files:
        text = files.read("plan.json").decode()
        assert files.read("report.html") == story.content(report.value)
    jsonschema.validate(json.loads(text), json.loads(PLAN_SCHEMA.read_text(encoding="utf-8")))
    kept = parse_plan(text, "plan.json")
    assert kept.model_copy(update={"origin": plan.origin}) == plan
    for name in ("profile", "profile_sha256", "seed", "specplan_version"):
        assert kept.origin[name] == plan.origin[name]
    assert kept.origin["profile_sha256"] == stored.content_hash
    _open_report(page, story.content(report.value), kept, folder)


def _open_report(page: Page, report: bytes, plan: "sp.Plan", folder: Path) -> None:
    path = folder / "report.html"
    path.write_bytes(report)
    opened = page.context.new_page()
    problems = Problems(opened)
    opened.goto(path.as_uri())
    expect(opened.locator(".js-plotly-plot svg.main-svg").first).to_be_visible()
    text = opened.locator("body").inner_text()
    for part in (
        story.OWN_PROFILE,
        story.FILE,
        f"seed {plan.origin['seed']}",
        plan.origin["specplan_version"],
        plan.decision.reason,
    ):
        assert part in text, part
    problems.check(path.as_uri())
    opened.close()


# --- others --------------------------------------------------------------------------------------


def test_two_visitors_at_once_keep_their_values_and_files_apart(address, browser):
    first, second = visitor(browser), visitor(browser)
    ann, ben = first.new_page(), second.new_page()
    for page in (ann, ben):
        story.open_dashboard(page, address)
    ann.get_by_role("slider", name="Draft length").press("ArrowRight")
    settled(ann)
    unfold(ben, "Workload details")
    set_number(ben, "Seed", "77")
    shared = ann.url
    before = (story.scenario_of(ann), story.scenario_of(ben))
    assert [each.seed for each in before] == [1, 77]
    gammas = [each.speculation.num_speculative_tokens for each in before]
    assert gammas == [4, 3]

    for page in (ann, ben):
        story.turn_to(page, "Calibrate")
    story.upload_metrics(ann, story.METRICS, "anns.prom")
    story.paste_metrics(
        ben,
        story.vllm_metrics((20_000, 9_000, 5_000), drafts=40_000, tokens=120_000, requests=1_000),
    )
    story.preview_import(ann, domain="anns")
    story.preview_import(ben, domain="bens")
    for page, own, lengths, other in (
        (ann, "anns.prom", "γ = 4", "γ = 3"),
        (ben, "pasted text", "γ = 3", "γ = 4"),
    ):
        expect(page.get_by_text(f"Understood from {own}")).to_be_visible()
        understood = story.understood(page)
        assert lengths in understood
        assert other not in understood
    story.use_import(ann, "anns_profile")
    story.use_import(ben, "bens_profile")
    after = (story.scenario_of(ann), story.scenario_of(ben))
    assert [each.profile for each in after] == ["anns_profile", "bens_profile"]
    assert [each.seed for each in after] == [1, 77]
    assert [list(each.workload.domains) for each in after] == [["anns"], ["bens"]]

    _check_link(browser, shared, before[0])
    _check_link_of_own_profile(browser, ann.url, "anns_profile")
    first.close()
    second.close()


def _check_link(browser: Browser, url: str, scenario: Scenario) -> None:
    """The same view for a third person."""
    third = visitor(browser)
    page = third.new_page()
    story.open_dashboard(page, url)
    assert story.scenario_of(page) == scenario
    _check_headline(page, load_profile(scenario.profile), scenario)
    third.close()


def _check_link_of_own_profile(browser: Browser, url: str, name: str) -> None:
    """A profile of one visit is nobody else's: its link says what to do."""
    third = visitor(browser)
    page = third.new_page()
    page.goto(url)
    expect(page.get_by_text(f"There is no profile '{name}' here")).to_be_visible(timeout=PATIENT_MS)
    assert story.scenario_of(page).profile == story.PROFILE
    third.close()


def test_a_refused_input_shows_a_sentence_and_no_traceback(address, browser):
    context = visitor(browser)
    page = context.new_page()
    story.open_dashboard(page, address)
    unfold(page, "Workload details")
    set_number(page, "Prompt, mean (tokens)", "5000")
    expect(page.get_by_text("max_tokens 512 is below mean_tokens 5000")).to_be_visible()
    assert "Traceback" not in page.locator("body").inner_text()
    context.close()


def test_every_page_fits_a_wide_dark_window(address, browser):
    context = visitor(browser, 1920, "dark")
    page = context.new_page()
    problems = Problems(page)
    story.open_dashboard(page, address)
    for title in story.HEADINGS:
        _turn_to(page, title)
    problems.check(address)
    context.close()
