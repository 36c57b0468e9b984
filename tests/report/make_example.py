"""Make docs/examples/h100_chat again: the report of one scenario, and its pictures by Chromium.

Run with `make example`. The pictures are the report's own figures, and the top of its page.
"""

import sys
from pathlib import Path
from urllib.parse import unquote

from playwright.sync_api import Page, sync_playwright

from simcore import make_plan, open_scenario
from simcore.report.render import figures_of
from simcore.report.write import write_report

NAME = "h100_chat"
FOLDER = Path(__file__).parents[2] / "docs" / "examples" / NAME
PICTURES = FOLDER.parent / f"{NAME}_pictures"
CHROMIUM = "/usr/bin/chromium"
WIDTH, TOP = 1280, 1000
AS_SVG = """(name) => Plotly.toImage(
    document.getElementById('figure-' + name), {format: 'svg', width: 960, height: 540})"""
SVG_PREFIX = "data:image/svg+xml,"


def main() -> None:
    """Plan, write the report, and take its pictures."""
    plan = make_plan(open_scenario(NAME), with_capacity=True)
    write_report(plan, FOLDER)
    PICTURES.mkdir(exist_ok=True)
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": WIDTH, "height": TOP})
        page.goto((FOLDER / "report.html").as_uri())
        page.wait_for_function("document.querySelectorAll('.js-plotly-plot .main-svg').length > 0")
        page.screenshot(path=PICTURES / "report.png")
        for name in figures_of(plan):
            (PICTURES / f"{name}.svg").write_text(_svg(page, name), encoding="utf-8")
        if len(sys.argv) > 1:  # on paper, to look at
            page.pdf(path=Path(sys.argv[1]), prefer_css_page_size=True)
        browser.close()


def _svg(page: Page, name: str) -> str:
    """One figure on white, as text."""
    text = unquote(page.evaluate(AS_SVG, name).removeprefix(SVG_PREFIX))
    head, _, rest = text.partition(">")
    return f'{head}><rect width="100%" height="100%" fill="white"/>{rest}\n'


if __name__ == "__main__":
    main()
