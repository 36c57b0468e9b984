"""The page benchmark's own logic; what it measures is asserted nowhere."""

import pytest

from tests.app.laps import GOALS_S, bench_text, missed, next_direction, spread

QUICK, SLOW = spread([0.1, 0.1, 0.1]), spread([0.1, 2.5, 2.5])


def _found(slider=QUICK, result=QUICK):
    laps = {"page": QUICK, "first_picture": slider, "all_pictures": slider}
    still = {"page": QUICK, "first_picture": None, "all_pictures": None}
    return {
        "start": {"first_picture": SLOW},
        "sliders": {"decide": {"γ": laps, "load": still}},
        "reruns": {"profile": {"decide": {"γ": QUICK}, "report": {}}},
        "simulation": {"result": result, "other_tab": QUICK},
    }


def test_a_spread_is_the_median_and_the_95th_percentile():
    found = spread([float(each) for each in range(101)])
    assert found == {"median_s": 50.0, "p95_s": 95.0, "laps": 101}


def test_what_takes_longer_than_its_goal_in_the_median_misses_it():
    assert missed(_found()) == []
    misses = missed(_found(slider=SLOW, result=SLOW))
    assert [each.partition(":")[0] for each in misses] == ["simulation", "decide, γ"]
    assert f"goal {GOALS_S['slider']:g} s" in misses[1]


def test_the_text_names_every_slider_and_ends_with_the_goals():
    lines = bench_text(_found()).splitlines()
    assert "decide, load: picture no picture changes; page 100 ms (p95 100, 3 laps)" in lines
    assert lines[-1] == "every goal is met"
    assert bench_text(_found(slider=SLOW)).splitlines()[-2] == "misses its goal:"


def test_a_slider_goes_on_to_its_end_and_then_back():
    at, direction, seen = 1, 1, []
    for _ in range(6):
        direction = next_direction(at, 0, 2, direction)
        at += direction
        seen.append(at)
    assert seen == [2, 1, 0, 1, 2, 1]


def test_without_a_chromium_the_benchmark_is_one_sentence(monkeypatch, capsys):
    from tests.app import page_bench

    monkeypatch.setattr(page_bench, "CHROMIUM", None)
    monkeypatch.setattr(page_bench, "RESULT", None)  # nothing is written
    page_bench.main(["--write"])
    assert "chromium on PATH" in capsys.readouterr().out


def test_a_rerun_is_timed_for_every_slider_of_a_page(own_data):
    pytest.importorskip("streamlit")
    from tests.app.rerun_bench import time_reruns

    found = time_reruns("llama31_8b_h100", pages=("serve",), num_rounds=1)
    assert {"Draft length γ (tokens; 0: off)", "Load (requests/s)"} <= set(found["serve"])
    assert all(len(laps) == 1 and laps[0] > 0.0 for laps in found["serve"].values())


PICTURE = """
<div data-testid=stApp data-test-script-state=running><p id=text></p><div id=place></div></div>
<script>
  const app = document.querySelector("[data-testid=stApp]");
  const picture = "<div class=js-plotly-plot><svg><path d='M0 0'/></svg></div>";
  addEventListener("keydown", (event) => {
    if (event.key === "t") document.getElementById("text").textContent = "other";
    if (event.key === "p") document.getElementById("place").innerHTML = picture;
    if (event.key === "m") document.querySelector("path").setAttribute("d", "M1 1");
    app.dataset.testScriptState = "running";
    app.dataset.testScriptState = "notRunning";
  });
</script>
"""


@pytest.mark.browser
def test_the_stopwatch_sees_pictures_and_nothing_else(tmp_path):
    pytest.importorskip("playwright")
    from tests.app.served import CHROMIUM, chromium

    if CHROMIUM is None:
        pytest.skip("no chromium on PATH; apt-get install chromium")
    from tests.app.stopwatch import Tab

    (tmp_path / "page.html").write_text(PICTURE, encoding="utf-8")
    with chromium() as browser:
        tab = Tab(browser)
        tab.page.goto((tmp_path / "page.html").as_uri())
        laps = {}
        for key in ("t", "p", "m"):  # text, a new picture, a moved line in it
            tab.start()
            tab.page.keyboard.press(key)
            tab.wait()
            laps[key] = tab.lap()
        tab.close()
    assert laps["t"].all_pictures_s is None
    assert laps["t"].finished_s >= 0.0
    assert laps["p"].all_pictures_s >= laps["p"].first_picture_s > 0.0
    assert laps["m"].all_pictures_s > 0.0
