"""The story of one visitor, act by act; the test and the pictures of docs/images play it.

A team runs SmolLM2-135M with n-gram speculation at γ = 4 under vLLM and brings its /metrics page.
The page is that of docs/tutorial.md: invented counters, in the form of vLLM's own.
"""

import io
import zipfile
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from playwright.sync_api import Download, Locator, Page, expect

from app import link
from simcore.profile.store import StoredProfile, load_profile
from simcore.scenario import Scenario
from tests.app.browser import choose, go, press, set_number, set_text, settled, unfold

TARGET = "SmolLM2-135M-Instruct"
PROFILE = "smollm2_135m_cpu"
WORKLOAD = "cpu_chat"
FILE = "vllm_metrics.prom"
METRICS = (Path(__file__).parents[2] / "docs" / "examples" / FILE).read_text(encoding="utf-8")
DOMAIN = "my_service"
RECORDED_DOMAIN = "rewrite"  # the recorded kind of text that is nearest to the team's
OWN_PROFILE = "my_service_cpu"
ACCEPTED_BY_POSITION = (33_000, 30_100, 28_200, 26_700)  # of METRICS
NUM_CYCLES = 60_200  # tokens less the accepted and one a request
WORK_MS = 300_000
BEGIN_MS, TRIES = 5_000, 3
PLANNING = "one request alone decodes"


def vllm_metrics(accepted: tuple[int, ...], *, drafts: int, tokens: int, requests: int) -> str:
    """The lines of another server's /metrics that speak of speculation."""
    labels = f'engine="0",model_name="{TARGET}"'
    totals = {
        "spec_decode_num_drafts_total": drafts,
        "spec_decode_num_draft_tokens_total": drafts * len(accepted),
        "spec_decode_num_accepted_tokens_total": sum(accepted),
        "generation_tokens_total": tokens,
        "request_success_total": requests,
    }
    lines = [f"vllm:{name}{{{labels}}} {value:.1f}" for name, value in totals.items()]
    lines += [
        f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{{labels},position="{k}"}} {value:.1f}'
        for k, value in enumerate(accepted)
    ]
    return "\n".join(lines) + "\n"


def open_dashboard(page: Page, address: str) -> None:
    """The first page, drawn to its end."""
    page.goto(address)
    expect(page.get_by_role("heading", name="Should this service decode")).to_be_visible(
        timeout=60_000
    )
    settled(page)


def scenario_of(page: Page) -> Scenario:
    """What the address says is in force."""
    settled(page)
    (text,) = parse_qs(urlsplit(page.url).query)[link.PARAMETER]
    return link.decode(text)


# --- acts ----------------------------------------------------------------------------------------


def set_requests(page: Page, number: int) -> None:
    """How many requests a simulation serves."""
    field = page.get_by_role("spinbutton", name="Requests to simulate")
    if not field.is_visible():
        unfold(page, "Workload details")
    set_number(page, "Requests to simulate", str(number))


def upload_metrics(page: Page, text: str, name: str = FILE) -> None:
    """Give the form on Calibrate a file."""
    box = page.get_by_test_id("stFileUploader").filter(has_text="Files of one run")
    box.locator("input[type=file]").set_input_files(
        files=[{"name": name, "mimeType": "text/plain", "buffer": text.encode()}]
    )
    expect(box.get_by_text(name)).to_be_visible()
    settled(page)


def paste_metrics(page: Page, text: str) -> None:
    """Give it the same as text."""
    set_text(page, "Or paste one here", text)


def preview_import(page: Page, proposer: str = "ngram", domain: str = DOMAIN) -> None:
    """Say what engines do not write down, and look."""
    form = page.get_by_test_id("stMain")
    choose(page, "Proposer", proposer, within=form)
    set_text(page, "Domain", domain)
    press(page, "Show what is in it")
    expect(page.get_by_text("Understood from")).to_be_visible()


def understood(page: Page) -> str:
    """The preview's text."""
    return page.get_by_test_id("stCode").filter(has_text="vllm_prometheus:").inner_text()


def use_import(page: Page, name: str = OWN_PROFILE) -> None:
    """Make it a profile of this visit."""
    set_text(page, "Name of the new profile", name)
    press(page, "Use it")
    expect(page.get_by_role("button", name="Download this profile")).to_be_visible()


def download_profile(page: Page, folder: Path) -> StoredProfile:
    """The visitor's own profile as it is taken along."""
    with page.expect_download() as found:
        page.get_by_role("button", name="Download this profile").click()
    with zipfile.ZipFile(io.BytesIO(content(found.value))) as archive:
        archive.extractall(folder)
    (only,) = folder.iterdir()
    return load_profile(only)


def content(download: Download) -> bytes:
    """What was downloaded."""
    return Path(download.path()).read_bytes()


def choose_recorded_domain(page: Page) -> None:
    """From the counted traffic to recorded requests, which hold ranks and intervals."""
    choose(page, "Domains", RECORDED_DOMAIN)
    page.keyboard.press("Tab")  # closes the list
    before = page.url
    page.get_by_role("button", name=f"Remove {DOMAIN}").click()
    expect(page).not_to_have_url(before)
    settled(page)


def choose_tree(page: Page, width: int, depth: int) -> None:
    """A static tree."""
    choose(page, "Shape of the drafts", "Tree, width × depth")
    for label, value in (("Width", str(width)), ("Depth", str(depth))):
        if page.get_by_role("spinbutton", name=label).input_value() != value:
            set_number(page, label, value)
    drafts = f"a tree of {width * depth} candidates, {depth} deep"
    expect(page.get_by_role("heading", name=drafts)).to_be_visible(timeout=60_000)
    settled(page)


def _work(page: Page, button: str, result: Locator) -> None:
    """Press, again where nothing began: a page that is drawn anew meanwhile may miss it."""
    begun = page.get_by_role("progressbar").or_(result).first
    for _ in range(TRIES):
        press(page, button)
        try:
            expect(begun).to_be_visible(timeout=BEGIN_MS)
        except AssertionError:
            continue
        break
    expect(result).to_be_visible(timeout=WORK_MS)
    settled(page)


def simulate(page: Page) -> None:
    """On Serve, to its end."""
    _work(page, "Simulate", page.get_by_text("Whole request, E2E: p95"))


def compare(page: Page, others: tuple[str, ...], seeds: int) -> None:
    """On Compare, `others` beside off and the scenario in force."""
    for other in others:
        choose(page, "What to compare", other)
        page.keyboard.press("Tab")  # closes the list
        expect(page.get_by_role("button", name=f"Remove {other}")).to_be_visible()
    set_number(page, "Seeds", str(seeds))
    _work(page, "Compare", page.get_by_text("in sentences").first)


def find_capacity(page: Page, seeds: int) -> None:
    """On Capacity."""
    set_number(page, "Seeds at every load", str(seeds))
    _work(page, "Find the capacity", page.get_by_text("What speculation takes."))


def simulate_curve(page: Page) -> None:
    """On Decide, the marks over the load."""
    _work(page, "Simulate the curve", page.get_by_role("figure", name="within the objective"))


def make_plan(page: Page, seeds: int) -> None:
    """On Decide."""
    set_number(page, "Repeated simulations", str(seeds))
    _work(page, "Make the plan", page.get_by_text("Break-even:"))


HEADINGS = {
    "Decide": "Should this service decode",
    "Speculate": "What drafts are worth",
    "Serve": "What happens to the users",
    "Capacity": "How many requests, how many GPUs",
    "Compare": "Which one serves better",
    "Calibrate": "What the numbers rest on",
    "Truth": "How far to trust it",
    "Report": "Hand it over",
}


def turn_to(page: Page, title: str) -> None:
    """A page by its title in the navigation."""
    go(page, title, HEADINGS[title])
