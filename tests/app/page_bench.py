"""How long a visitor waits: `python -m tests.app.page_bench`, with --write into docs/.

A real server, a real Chromium with a new profile each time, the workload that the page opens with.
Sliders are moved by keyboard, a step a time and in turns, through values that were not seen before
as far as their scales go. "Picture" is painted: the frame after the last change of a Plotly figure
has been shown. Reruns are the pages' scripts alone, without server and browser.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from simcore.bench import environment
from simcore.profile.store import bundled_profiles
from tests.app.laps import GOALS_S, Spread, bench_text, spread
from tests.app.served import CHROMIUM, chromium, served

COMMAND = "python -m tests.app.page_bench --write"
RESULT = Path(__file__).parents[2] / "docs" / "page_benchmarks.json"
NUM_STARTS, NUM_VISITS, NUM_MOVES, NUM_SIMULATIONS = 3, 4, 10, 4
NUM_BUSY_MOVES = 12
ESTIMATE_PAGES = {"decide": "", "speculate": "speculate"}  # page -> its address
NUM_REQUESTS, MANY_REQUESTS = 5_000, 500_000
SIMULATED = "stopwatch.first !== null && document.querySelectorAll('.js-plotly-plot').length >= 4"
DRAFT_LENGTH = "Draft length γ (tokens; 0: off)"
BETWEEN_MS = 100  # moves in one tab while another computes

# --- measuring -----------------------------------------------------------------------------------


def run_bench(tell: Callable[[str], None]) -> dict[str, Any]:
    """All of it, in about two minutes."""
    tell("reruns of the pages' scripts")
    found: dict[str, Any] = {"goals_s": GOALS_S, "reruns": _reruns()}
    with chromium() as browser:
        tell("starts of the server")
        found["start"] = _cold_starts(browser)
        with _server() as address:
            tell("first pictures of new visitors")
            found["start"] |= _first_pictures(browser, address)
            tell("sliders")
            found["sliders"] = {
                page: _sliders(browser, f"{address}/{path}")
                for page, path in ESTIMATE_PAGES.items()
            }
            tell("simulations")
            found["simulation"] = _simulations(browser, address)
        made_by = environment(COMMAND, ("streamlit", "plotly", "playwright", "numba", "numpy"))
        found["made_by"] = made_by | {"browser": f"Chromium {browser.version}"}
    return found


@contextmanager
def _server() -> Iterator[str]:
    with tempfile.TemporaryDirectory() as data, served(Path(data)) as address:
        yield address


def _reruns() -> dict[str, Any]:
    from tests.app.rerun_bench import time_reruns

    with tempfile.TemporaryDirectory() as data:
        os.environ["SPECPLAN_DATA"] = data
        return {
            profile: {
                page: {label: spread(laps) for label, laps in sliders.items()}
                for page, sliders in time_reruns(profile).items()
            }
            for profile in bundled_profiles()
        }


def _cold_starts(browser: Any) -> dict[str, Spread]:
    """From the start of the process; compiled code lies on disk already."""
    from tests.app.stopwatch import Tab

    answers, pictures = [], []
    for _ in range(NUM_STARTS):
        began_s = time.perf_counter()
        with _server() as address:
            answers.append(time.perf_counter() - began_s)
            tab = Tab(browser)
            picture_s = tab.open(address).first_picture_s
            assert picture_s is not None
            pictures.append(answers[-1] + picture_s)
            tab.close()
    return {
        "server_answers": spread(answers),
        "process_start_to_first_picture": spread(pictures),
    }


def _first_pictures(browser: Any, address: str) -> dict[str, Spread]:
    """New visitors with nothing in their browser's cache; then again with what it keeps."""
    from tests.app.stopwatch import Tab

    visits: dict[str, list[float]] = {"first_picture": [], "first_picture_again": []}
    for visit in range(NUM_VISITS + 1):
        tab = Tab(browser)
        for laps in visits.values():
            picture_s = tab.open(address).first_picture_s
            assert picture_s is not None
            if visit:  # the first visitor made what the server keeps
                laps.append(picture_s)
        tab.close()
    return {name: spread(laps) for name, laps in visits.items()}


def _sliders(browser: Any, address: str) -> dict[str, dict[str, Spread | None]]:
    """slider -> its laps; every slider is moved once a round."""
    from tests.app.stopwatch import Lap, Tab

    tab = Tab(browser)
    tab.open(address)
    tab.page.get_by_text("Acceptance model").first.click()  # holds a slider
    tab.page.get_by_role("slider", name="Requests that cannot speculate").wait_for()
    labels = tab.slider_labels()
    laps: dict[str, list[Lap]] = {label: [] for label in labels}
    directions = dict.fromkeys(labels, 1)
    for move in range(NUM_MOVES + 1):
        for label in labels:
            if not tab.has_slider(label):
                continue  # at γ = 0 some go
            lap, directions[label] = tab.move(label, directions[label])
            if move:
                laps[label].append(lap)
    tab.close()
    return {
        label: {
            "page": _spread([each.finished_s for each in seen]),
            "first_picture": _spread([each.first_picture_s for each in seen]),
            "all_pictures": _spread([each.all_pictures_s for each in seen]),
        }
        for label, seen in laps.items()
    }


def _spread(seconds: Sequence[float | None]) -> Spread | None:
    came = [each for each in seconds if each is not None]
    return spread(came) if came else None


def _simulations(browser: Any, address: str) -> dict[str, Spread]:
    """Press Simulate on the page Serve; meanwhile another visitor moves γ on the first page."""
    from tests.app.stopwatch import Tab

    tab, other = Tab(browser), Tab(browser)
    other.open(address)
    tab.page.goto(f"{address}/serve")
    results = []
    for seed in range(NUM_SIMULATIONS + 1):
        _ask(tab, NUM_REQUESTS, seed)
        results.append(_simulate(tab))
    beside, direction = [], 1
    for seed in range(NUM_SIMULATIONS):
        _ask(tab, NUM_REQUESTS, NUM_SIMULATIONS + 1 + seed)
        _press(tab)
        while not tab.is_over(SIMULATED):
            lap, direction = other.move(DRAFT_LENGTH, direction, BETWEEN_MS)
            beside.append(lap.all_pictures_s)
    _ask(tab, MANY_REQUESTS, 0)
    _press(tab)
    busy = []
    for _ in range(NUM_BUSY_MOVES):
        lap, direction = other.move(DRAFT_LENGTH, direction, BETWEEN_MS)
        if tab.is_over(SIMULATED):
            break
        busy.append(lap.all_pictures_s)
    found = {
        "first_result": spread(results[:1]),
        "result": spread(results[1:]),
        "other_tab": _spread(beside),
        "other_tab_beside_many": _spread(busy),
    }
    tab.close()
    other.close()
    return {name: laps for name, laps in found.items() if laps is not None}


def _ask(tab: Any, num_requests: int, seed: int) -> None:
    """Another seed each time: pictures that stay the same are not painted again."""
    if not tab.page.get_by_role("spinbutton", name="Seed").is_visible():
        tab.page.get_by_text("Workload details").click()
    for name, value in (("Requests to simulate", num_requests), ("Seed", seed)):
        field = tab.page.get_by_role("spinbutton", name=name)
        if field.input_value() != str(value):
            tab.start()
            field.fill(str(value))
            field.press("Enter")
            tab.wait()


def _press(tab: Any) -> None:
    tab.start()
    tab.page.get_by_role("button", name="Simulate", exact=True).click()


def _simulate(tab: Any) -> float:
    _press(tab)
    tab.wait(SIMULATED)
    painted_s = tab.lap().all_pictures_s
    assert painted_s is not None
    return float(painted_s)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the figures, or say why there are none."""
    parser = argparse.ArgumentParser(prog="python -m tests.app.page_bench")
    parser.add_argument("--write", action="store_true", help="also into docs/page_benchmarks.json")
    options = parser.parse_args(arguments)
    out, err = sys.stdout.write, sys.stderr.write
    if CHROMIUM is None or find_spec("playwright") is None or find_spec("streamlit") is None:
        out("No page was timed: it takes streamlit, playwright and a chromium on PATH.\n")
        return
    found = run_bench(lambda what: err(f"timing {what} …\n") and None)
    out(bench_text(found) + "\n")
    if options.write:
        RESULT.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
