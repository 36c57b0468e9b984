"""Make the pictures of docs/images again: every page of the dashboard in the midst of the story.

Run with `make pictures`. To look at other windows:
`python -m tests.app.pictures FOLDER --width 1920 --scheme dark --whole`.
"""

import argparse
import io
import tempfile
from collections.abc import Callable
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page

from app import link
from simcore.scenario_files import open_scenario
from tests.app import story
from tests.app.browser import picture, visitor
from tests.app.served import chromium, served

IMAGES = Path(__file__).parents[2] / "docs" / "images"
SEEDS = 4
BUSY = {"workload.arrivals.rate_per_s": 1.4, "workload.num_requests": 500}  # off nears its end
COLOURS = 256  # a palette keeps each file small
HEIGHTS = {  # pixels of the docs' pictures; the others are shown in their whole length
    "calibrate": 1970,  # to the end of the import
    "speculate": 2190,  # to the map
    "serve": 2330,  # to the latencies
    "compare": 1028,  # the figure
    "truth": 1290,  # the first engine
}


def play(page: Page, address: str, keep: Callable[[str], None]) -> None:
    """The story, with a picture of every page."""
    busy = open_scenario(story.WORKLOAD).with_(**BUSY)
    story.open_dashboard(page, f"{address}/?{link.PARAMETER}={link.encode(busy)}")
    story.turn_to(page, "Calibrate")
    story.upload_metrics(page, story.METRICS)
    story.preview_import(page)
    keep("calibrate")
    story.use_import(page)
    story.turn_to(page, "Speculate")
    story.choose_recorded_domain(page)
    story.choose_tree(page, 2, 4)
    keep("speculate")
    story.turn_to(page, "Serve")
    story.simulate(page)
    keep("serve")
    story.turn_to(page, "Compare")
    story.compare(page, ("ngram γ=8",), SEEDS)
    keep("compare")
    story.turn_to(page, "Capacity")
    story.find_capacity(page, SEEDS)
    keep("capacity")
    story.turn_to(page, "Decide")
    story.simulate_curve(page)
    story.make_plan(page, SEEDS)
    keep("decide")
    story.turn_to(page, "Report")
    page.wait_for_timeout(2_000)  # the preview's figures
    keep("report")
    story.turn_to(page, "Truth")
    keep("truth")


def main() -> None:
    """Play the story once, in the window that was asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.app.pictures", description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=IMAGES)
    parser.add_argument("--width", type=int, default=1280)
    parser.add_argument("--scheme", choices=("light", "dark"), default="light")
    parser.add_argument("--whole", action="store_true", help="every page in its whole length")
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as data,
        served(Path(data)) as address,
        chromium() as browser,
    ):
        page = visitor(browser, asked.width, asked.scheme).new_page()

        def keep(name: str) -> None:
            path = asked.folder / f"{name}.png"
            picture(page, path, None if asked.whole else HEIGHTS.get(name))
            _shrink(path)

        play(page, address, keep)


def _shrink(path: Path) -> None:
    """The same picture in a palette that covers all of its colours, however rare."""
    with Image.open(io.BytesIO(path.read_bytes())) as whole:
        small = whole.convert("RGB").quantize(
            COLOURS, Image.Quantize.MAXCOVERAGE, kmeans=1, dither=0
        )
    small.save(path, optimize=True)


if __name__ == "__main__":
    main()
