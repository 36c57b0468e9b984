"""A real Chromium, and what hands do to a page of the dashboard.

A page that Streamlit draws anew drops what was just opened or typed, so every act is repeated until
its effect is seen.
"""

from pathlib import Path
from typing import Any

import pandas as pd
from playwright.sync_api import (
    Browser,
    BrowserContext,
    Locator,
    Page,
    TimeoutError,
    expect,
)

SETTLE_MS = 150  # until a page says that it is being drawn anew
OPTION_MS = 5_000
STEP_MS = 20_000
PATIENT_MS = 120_000  # first use compiles the simulator
HEIGHT = 1000


def visitor(browser: Browser, width: int = 1280, scheme: str = "light") -> BrowserContext:
    """A person of their own: nothing is shared with other visitors of the same browser."""
    context = browser.new_context(
        viewport={"width": width, "height": HEIGHT},
        color_scheme=scheme,  # type: ignore[arg-type]  # a literal in the library's types
        accept_downloads=True,
        reduced_motion="reduce",
    )
    context.set_default_timeout(STEP_MS)
    return context


class Problems:
    """What a page complains of and what it asks for, from its first request on."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.said: list[str] = []
        self.asked: list[str] = []
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.said.append(str(error)))
        page.on("request", lambda request: self.asked.append(request.url))
        page.on("websocket", lambda each: self.asked.append(each.url.replace("ws:", "http:")))

    def _console(self, message: Any) -> None:
        if message.type == "error":
            self.said.append(f"{message.text} ({message.location.get('url')})")

    def check(self, address: str) -> None:
        """Nothing went wrong, and nothing was asked of anybody but `address`."""
        assert self.said == []
        assert self.page.get_by_test_id("stException").count() == 0
        foreign = [u for u in self.asked if not u.startswith((address, "data:", "blob:"))]
        assert foreign == []


# --- acts ----------------------------------------------------------------------------------------


def settled(page: Page, timeout_ms: int = PATIENT_MS) -> None:
    """Wait until the server has drawn the page to its end."""
    page.wait_for_timeout(SETTLE_MS)
    app = page.get_by_test_id("stApp")
    expect(app).to_have_attribute("data-test-script-state", "notRunning", timeout=timeout_ms)
    expect(app).to_have_attribute("data-test-connection-state", "CONNECTED", timeout=timeout_ms)


def go(page: Page, title: str, heading: str) -> None:
    """Follow the navigation to a page."""
    page.get_by_role("link", name=title, exact=True).click()
    expect(page.get_by_role("heading", name=heading)).to_be_visible(timeout=PATIENT_MS)
    settled(page)


def choose(page: Page, box: str, option: str, within: Locator | None = None) -> None:
    """Open the box again where the page was drawn anew meanwhile, which closes it."""
    for _ in range(PATIENT_MS // OPTION_MS):
        (within or page).get_by_role("combobox", name=box).click()
        try:
            page.get_by_role("option", name=option).first.click(timeout=OPTION_MS)
        except TimeoutError:
            continue
        settled(page)
        return
    raise AssertionError(f"{box} never offered {option}")


def set_number(page: Page, label: str, value: str) -> None:
    """Type a number and leave the field."""
    _type(page, page.get_by_role("spinbutton", name=label), value)


def set_text(page: Page, label: str, value: str) -> None:
    """Type a line and leave the field."""
    _type(page, page.get_by_role("textbox", name=label), value)


def _type(page: Page, field: Locator, value: str) -> None:
    field.fill(value)
    field.press("Tab")
    settled(page)


def unfold(page: Page, title: str) -> None:
    """Open a folded part."""
    page.locator("summary").filter(has_text=title).click()


def press(page: Page, name: str) -> None:
    """A button by its whole name."""
    page.get_by_role("button", name=name, exact=True).click()
    settled(page)


# --- what a person sees --------------------------------------------------------------------------


def metric(page: Page, label: str) -> Locator:
    """The figure of a card."""
    card = page.get_by_test_id("stMetric").filter(has_text=label)
    return card.get_by_test_id("stMetricValue")


def table(page: Page, index: int = 0) -> pd.DataFrame:
    """A table of the page's main part: its first column becomes the index."""
    rows = (
        page.get_by_test_id("stMain")
        .get_by_role("table")
        .nth(index)
        .evaluate("t => [...t.rows].map(r => [...r.cells].map(c => c.innerText.trim()))")
    )
    head, *body = rows
    return pd.DataFrame([row[1:] for row in body], columns=head[1:], index=[r[0] for r in body])


def figure(page: Page, title: str) -> list[dict[str, Any]]:
    """The traces that Plotly drew under a title: name, x, y and the arms of error bars."""
    drawn = page.get_by_role("figure", name=title).locator(".js-plotly-plot")
    found: list[dict[str, Any]] = drawn.first.evaluate(
        """each => each._fullData.map(t => ({
            name: t.name, x: Array.from(t.x || []), y: Array.from(t.y || []),
            above: Array.from((t.error_y || {}).array || []),
            below: Array.from((t.error_y || {}).arrayminus || [])}))"""
    )
    return found


def fits(page: Page) -> bool:
    """Whether nothing is wider than the window."""
    main = page.get_by_test_id("stMain")
    found: bool = main.evaluate("each => each.scrollWidth <= each.clientWidth")
    return found


def picture(page: Page, path: Path, most: int | None = None) -> None:
    """The page in its whole length, or its upper `most` pixels; only its main part scrolls."""
    settled(page)
    size = page.viewport_size
    assert size is not None
    height = page.evaluate("document.querySelector('[data-testid=stMain]').scrollHeight") + 20
    page.set_viewport_size({"width": size["width"], "height": min(height, most or height)})
    page.mouse.move(2, 2)
    page.evaluate("document.activeElement.blur()")  # its tooltip is no part of the page
    page.get_by_test_id("stMain").evaluate("each => each.scrollTo(0, 0)")
    page.wait_for_timeout(800)  # figures are drawn anew in the other height
    page.screenshot(path=path)
    page.set_viewport_size(size)
