"""The dashboard as a person uses it: a real server, a real Chromium.

Set SPECPLAN_SCREENSHOTS to a folder to keep the screenshots.
"""

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("streamlit")
pytest.importorskip("playwright")

from playwright.sync_api import Browser, Page, TimeoutError, expect, sync_playwright

CHROMIUM = shutil.which("chromium")
CHROMIUM_ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
START_TIMEOUT_S = 60
OPTION_MS = 5_000
PATIENT_MS = 90_000  # first use compiles the simulator
PROFILE_TITLE = "Llama-3.1-8B-Instruct on one H100"

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium on PATH; apt-get install chromium"),
]


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A running dashboard on a free loopback port, with a data folder of its own."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = subprocess.Popen(
        [sys.executable, "-m", "app", "--port", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"SPECPLAN_DATA": str(tmp_path_factory.mktemp("data"))},
    )
    try:
        url = f"http://127.0.0.1:{port}"
        _wait_until_healthy(url, server)
        yield url
    finally:
        server.terminate()
        server.wait(timeout=20)


def _wait_until_healthy(url: str, server: subprocess.Popen[bytes]) -> None:
    for _ in range(START_TIMEOUT_S * 5):
        assert server.poll() is None, "the server ended before it answered"
        try:
            with urllib.request.urlopen(f"{url}/_stcore/health", timeout=1):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    raise AssertionError(f"no answer from {url} after {START_TIMEOUT_S} s")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=CHROMIUM, args=CHROMIUM_ARGUMENTS, headless=True
        )
        yield chromium
        chromium.close()


@pytest.fixture
def screenshots(tmp_path: Path) -> Path:
    folder = Path(os.environ.get("SPECPLAN_SCREENSHOTS") or tmp_path / "screenshots")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _open(browser: Browser, address: str, width: int = 1280, scheme: str = "light") -> Page:
    context = browser.new_context(
        viewport={"width": width, "height": 1000}, color_scheme=scheme, accept_downloads=True
    )
    page = context.new_page()
    page.set_default_timeout(15_000)
    page.goto(address)
    expect(page.get_by_role("heading", name="Should this service decode")).to_be_visible(
        timeout=PATIENT_MS
    )
    _choose_published(page)
    expect(page.get_by_role("heading", name="one request alone decodes")).to_be_visible(
        timeout=PATIENT_MS
    )
    return page


def _choose_published(page: Page) -> None:
    """The published profile, whichever comes first."""
    _choose(page, "Profile", PROFILE_TITLE)
    expect(page.get_by_text("published profile").first).to_be_visible()


def _choose(page: Page, box: str, option: str) -> None:
    """Open the box again where the page was drawn anew meanwhile, which closes it."""
    for _ in range(PATIENT_MS // OPTION_MS):
        page.get_by_role("combobox", name=box).click(timeout=PATIENT_MS)
        try:
            page.get_by_role("option", name=option).click(timeout=OPTION_MS)
        except TimeoutError:
            continue
        return
    raise AssertionError(f"{box} never offered {option}")


def _verdict(page: Page) -> str:
    return page.get_by_role("heading", name="one request alone decodes").inner_text()


def _set_number(page: Page, label: str, value: str) -> None:
    field = page.get_by_role("spinbutton", name=label)
    field.fill(value)
    field.press("Enter")


def _screenshot_all(page: Page, path: Path) -> None:
    """The page in its whole length: only its main part scrolls."""
    size = page.viewport_size
    height = page.evaluate("document.querySelector('[data-testid=stMain]').scrollHeight")
    page.set_viewport_size({"width": size["width"], "height": height + 20})
    page.wait_for_timeout(800)
    page.screenshot(path=path)
    page.set_viewport_size(size)


def test_a_visitor_goes_from_the_open_page_to_the_downloaded_report(
    address, browser, screenshots, tmp_path
):
    page = _open(browser, address)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("websocket", lambda socket_: asked.append(socket_.url.replace("ws:", "http:")))
    before = _verdict(page)
    page.get_by_role("slider", name="Draft length").press("ArrowRight")
    expect(page.get_by_role("heading", name="γ = 5")).to_be_visible()
    assert _verdict(page) != before

    page.get_by_text("Workload details").click()
    _set_number(page, "Requests to simulate", "150")
    page.get_by_role("link", name="Serve").click()
    expect(page.get_by_text("150 requests through 1 replica")).to_be_visible()
    page.get_by_role("button", name="Simulate", exact=True).click()
    expect(page.get_by_text("Whole request, E2E: p95")).to_be_visible(timeout=PATIENT_MS)
    expect(page.get_by_text("acceptance model positional; seed 1")).to_be_visible()
    expect(page.locator(".js-plotly-plot")).to_have_count(4)
    _screenshot_all(page, screenshots / "serve-1280-light.png")
    page.get_by_role("link", name="Decide").click()

    _set_number(page, "Repeated simulations", "2")
    page.get_by_role("button", name="Make the plan").click()
    expect(page.get_by_text("Break-even:")).to_be_visible(timeout=PATIENT_MS)
    expect(page.get_by_text("Before you sign")).to_be_visible()
    expect(page.locator(".js-plotly-plot")).to_have_count(3)
    assert page.locator(".js-plotly-plot svg.main-svg").count() >= 3

    _check_downloads(page, tmp_path)
    page.get_by_text("Provenance of the numbers").click()
    expect(page.get_by_text("arXiv 2601.11580").first).to_be_visible()
    _screenshot_all(page, screenshots / "decide-1280-light.png")
    assert all(url.startswith((address, "data:", "blob:")) for url in asked), asked
    page.context.close()


def _check_downloads(page: Page, folder: Path) -> None:
    with page.expect_download() as report:
        page.get_by_role("button", name="Download the report").click()
    report.value.save_as(folder / "report.html")
    text = (folder / "report.html").read_text(encoding="utf-8")
    assert text.lstrip().lower().startswith("<!doctype html>")
    with page.expect_download() as archive:
        page.get_by_role("button", name="Download all files").click()
    archive.value.save_as(folder / "plan.zip")
    with zipfile.ZipFile(folder / "plan.zip") as whole:
        assert "report.html" in whole.namelist()
        assert whole.testzip() is None


@pytest.mark.parametrize(("width", "scheme"), [(1280, "dark"), (1920, "light")])
def test_a_visitor_chooses_a_tree_and_sees_what_it_is_worth(
    address, browser, screenshots, width, scheme
):
    context = browser.new_context(viewport={"width": width, "height": 1000}, color_scheme=scheme)
    page = context.new_page()
    page.set_default_timeout(PATIENT_MS)
    page.goto(f"{address}/speculate")
    expect(page.locator(".js-plotly-plot")).to_have_count(8, timeout=PATIENT_MS)
    expect(page.get_by_role("heading", name="at γ = 3, one request alone")).to_be_visible()
    _choose(page, "Shape of the drafts", "Tree, width × depth")
    expect(page.get_by_text("Replayed on")).to_be_visible(timeout=PATIENT_MS)
    expect(page.get_by_role("heading", name="a tree of 6 candidates, 3 deep")).to_be_visible()
    expect(page.locator(".js-plotly-plot")).to_have_count(7, timeout=PATIENT_MS)
    main = page.get_by_test_id("stMain")
    assert main.evaluate("each => each.scrollWidth <= each.clientWidth")
    _screenshot_all(page, screenshots / f"speculate-tree-{width}-{scheme}.png")
    context.close()


def test_a_refused_input_shows_a_sentence_and_no_traceback(address, browser):
    page = _open(browser, address)
    page.get_by_text("Workload details").click()
    _set_number(page, "Prompt, mean (tokens)", "5000")
    expect(page.get_by_text("max_tokens 2048 is below mean_tokens 5000")).to_be_visible()
    assert "Traceback" not in page.locator("body").inner_text()
    page.context.close()


@pytest.mark.parametrize("width", [1280, 1920])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_fits_the_window(address, browser, screenshots, width, scheme):
    page = _open(browser, address, width, scheme)
    main = page.get_by_test_id("stMain")
    assert main.evaluate("each => each.scrollWidth <= each.clientWidth")
    for metric in page.get_by_test_id("stMetricValue").locator("p, div").all():
        assert metric.evaluate("each => each.scrollWidth <= each.clientWidth + 1")
    page.screenshot(path=screenshots / f"decide-top-{width}-{scheme}.png")
    page.context.close()
