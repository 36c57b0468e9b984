"""Results show in a notebook as escaped tables; sp.figures has every figure of the app."""

import ast
import dataclasses
import inspect
import re
import subprocess
import sys
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path
from typing import get_type_hints

import plotly.graph_objects as go
import pytest
from IPython.core.formatters import DisplayFormatter
from pydantic import BaseModel

import simcore as sp
from simcore.acceptance.statistics import summarise_cycles
from simcore.report.notebook import SHOWN, html_of, register, show_in_notebook, text_of
from simcore.report.overview import overview
from simcore.report.units import rate, seconds
from tests.acceptance.recordings import lists_of
from tests.factories import make_scenario
from tests.report.hostile import TEXTS

ROOT = Path(__file__).parents[2]
INPUTS = {"Case", "LoadBasis", "SweepSpace"}  # of further calls
# Parts of a figure, a file, a text or a picture of their own.
OTHERS = {"CrossoverMap", "Estimate", "LoadTest", "PlanDiff", "Sensitivity", "Uncertainty"}
ALLOWED_TAGS = {
    *("div", "p", "strong", "table", "caption", "thead", "tbody", "tr", "th", "td", "ul", "li"),
}


class Page(HTMLParser):
    """Tags and text of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        assert not any(name.startswith("on") for name, _ in attrs)

    def handle_data(self, data):
        self.words.append(data)


@pytest.fixture(scope="module")
def service(recorded_profile):
    lengths = {"kind": "fixed", "prompt_tokens": 20, "output_tokens": 30}
    return make_scenario(
        recorded_profile,
        **{
            "workload.lengths": lengths,
            "workload.num_requests": 40,
            "slo.ttft_s": 0.5,
            "slo.goodput_fraction": 0.8,
            "speculation.proposer": "ngram",
            "speculation.num_speculative_tokens": 4,
            "deployment.max_num_seqs": 4,
        },
    )


@pytest.fixture(scope="module")
def results(service, recorded_profile, plan):
    stored = recorded_profile
    run = sp.simulate(service, stored=stored)
    capacity = sp.find_capacity(service, stored=stored, num_seeds=2)
    space = sp.SweepSpace(
        scenario=service, axes={"speculation.num_speculative_tokens": (0, 2)}, seeds=2
    )
    profiles = {service.profile: stored}
    found = [
        service,
        stored,
        run,
        sp.summarise(run),
        sp.simulate_seeds(service, 2, stored=stored),
        sp.estimate_load(stored, service),
        sp.estimate_survival(stored, service, "ngram")[4],
        summarise_cycles(lists_of([5, 4, 3, 0, 7], [0, 1, 2, 0, 0]).cycles(2)),
        sp.compare(sp.draft_lengths(service, ("ngram",), (0, 4)), num_seeds=2, profiles=profiles),
        capacity,
        sp.find_replicas(service, 2.0, stored=stored, num_seeds=2, one=capacity),
        sp.sweep(space, jobs=1, profiles=profiles),
        plan,
        sp.best_tree(stored, "ngram", num_nodes=4, depth=4),
    ]
    return {type(each).__name__: each for each in found}


@pytest.fixture(scope="module")
def formatter():
    made = DisplayFormatter()
    register(made.formatters)
    return made


def test_every_type_is_where_ipython_will_look_for_it(results):
    assert set(results) == set(SHOWN)
    for name, module in SHOWN.items():
        assert type(results[name]) is getattr(import_module(module), name)
        assert type(results[name]).__module__ == module


@pytest.mark.parametrize("name", SHOWN)
def test_ipython_shows_a_table_in_a_notebook_and_text_in_a_terminal(name, results, formatter):
    data, _ = formatter.format(results[name])
    assert "<table" in data["text/html"]
    assert data["text/plain"].startswith(overview(results[name]).heading)
    assert data["text/plain"] == text_of(results[name])


@pytest.mark.parametrize("name", SHOWN)
def test_a_page_holds_every_cell_and_every_note_and_only_tables_and_words(name, results):
    result = results[name]
    page = Page(html_of(result))
    assert page.tags <= ALLOWED_TAGS
    found = overview(result)
    words = [found.heading, *found.basis, *found.notes]
    for table in found.tables:
        assert all(len(row) == len(table.header) for row in table.rows)
        words += [cell for row in table.rows for cell in row]
    assert {" ".join(word.split()) for word in words if word} <= {
        " ".join(word.split()) for word in page.words
    }


def test_numbers_carry_their_units_and_intervals(results):
    summary, capacity = results["Summary"], results["Capacity"]
    assert seconds(summary.tpot.p95_s) in html_of(summary)
    assert rate(capacity.on.max_rate_per_s) in html_of(capacity)
    low, high = results["Plan"].speedup.interval
    assert f"95 % interval {low:.3f} to {high:.3f}" in html_of(results["Plan"])
    mean = results["ReplicatedSummary"].metrics["e2e.mean_s"]
    assert f"{seconds(mean.low)} to {seconds(mean.high)}" in html_of(results["ReplicatedSummary"])


@pytest.mark.parametrize("name", ["Summary", "ReplicatedSummary", "Comparison", "Capacity", "Plan"])
def test_a_result_names_the_source_of_its_numbers(name, results):
    profile = "h100" if name == "Plan" else results["StoredProfile"].profile.name
    source = "published" if name == "Plan" else results["StoredProfile"].profile.source.value
    text = text_of(results[name])
    assert profile in text
    assert source in text


@pytest.mark.parametrize("text", TEXTS)
def test_a_hostile_name_stays_text(text, service, hostile_profile):
    named = service.with_(name=text)
    stored = hostile_profile(text)
    for result in (named, stored, sp.simulate(named, stored=stored)):
        page = Page(html_of(result))
        assert page.tags <= ALLOWED_TAGS
        assert any(" ".join(text.split()) in " ".join(each.split()) for each in page.words)


@pytest.fixture
def hostile_profile(recorded_profile):
    def with_title(text: str) -> sp.StoredProfile:
        profile = recorded_profile.profile.model_copy(update={"title": text})
        return dataclasses.replace(recorded_profile, profile=profile)

    return with_title


def test_what_no_one_knows_how_to_show_is_refused():
    with pytest.raises(TypeError, match="int has no overview"):
        html_of(1)


def test_every_result_of_a_public_function_is_shown():
    for name in sp.__all__:
        function = getattr(sp, name)
        if not inspect.isfunction(function):
            continue
        kind = inspect.signature(function).return_annotation
        if isinstance(kind, type) and kind.__module__.startswith("simcore."):
            is_data = issubclass(kind, BaseModel) or dataclasses.is_dataclass(kind)
            assert is_data
            assert kind.__name__ in {*SHOWN, *INPUTS, *OTHERS}, f"sp.{name}"


def test_without_a_notebook_nothing_of_it_is_loaded():
    program = (
        "import sys, simcore; simcore.open_scenario; "
        "print([n for n in ('IPython', 'plotly', 'simcore.report.overview') if n in sys.modules])"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, check=True, capture_output=True, text=True
    )
    assert run.stdout.strip() == "[]"
    show_in_notebook()  # IPython is there, and no shell runs


def test_in_ipython_results_are_shown_from_the_import_on():
    program = (
        "from IPython.core.interactiveshell import InteractiveShell; "
        "shell = InteractiveShell.instance(); import simcore as sp; "
        "data, _ = shell.display_formatter.format(sp.open_scenario('cpu_chat')); "
        "print('<table' in data['text/html'], data['text/plain'].split(chr(10))[0])"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, check=True, capture_output=True, text=True
    )
    assert run.stdout.strip() == "True Scenario cpu_chat"


def figures_of_the_app() -> set[str]:
    """Names of functions that the dashboard takes from the reports to draw with."""
    return {
        alias.name
        for path in (ROOT / "app").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("simcore.report")
        for alias in node.names
        if alias.name.endswith("_figure")
    }


def test_every_figure_of_the_app_is_one_of_sp_figures():
    found = figures_of_the_app()
    assert len(found) >= 15
    assert found <= set(sp.figures.__all__)
    assert all(callable(getattr(sp.figures, name)) for name in found)


def test_every_drawing_of_the_app_is_of_a_figure_that_is_found_so():
    drawn = {
        ast.unparse(node.args[0])
        for path in (ROOT / "app").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "show_figure"
    }
    named = {each.split("(")[0] for each in drawn}
    assert named - {"figure"} <= figures_of_the_app()  # `figure`: one that may be None


DRAWERS = re.compile(
    r"st\.\w*_chart\b|st\.(?:pyplot|graphviz_chart|map)\b|\bgo\.(?!Figure\b)|add_(?:trace|scatter|bar)"
)


def test_the_app_draws_in_one_place_and_makes_no_figure_itself():
    found = {
        (path.name, each)
        for path in (ROOT / "app").rglob("*.py")
        for each in DRAWERS.findall(path.read_text(encoding="utf-8"))
    }
    assert found == {("figure.py", "st.plotly_chart")}
    made = [
        path.name
        for path in (ROOT / "app").rglob("*.py")
        if re.search(r"go\.Figure\(|new_figure|plotly\.express", path.read_text(encoding="utf-8"))
    ]
    assert made == []


@pytest.mark.parametrize("name", sp.figures.__all__)
def test_a_figure_is_a_function_that_returns_a_plotly_figure(name):
    returned = get_type_hints(getattr(sp.figures, name))["return"]
    assert returned in (go.Figure, go.Figure | None)
