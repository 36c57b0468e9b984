"""The folder of a plan: complete, self-contained, escaped, and whole or absent."""

import csv
import html
import json
import re
from html.parser import HTMLParser

import pytest

from simcore.errors import SpecplanError
from simcore.planner.document import Plan
from simcore.report import write
from simcore.report.write import FILES, write_report
from simcore.scenario import load_scenario


class Page(HTMLParser):
    """Elements, visible text and structure of a page; scripts and styles apart."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self._inside: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag in ("script", "style"):
            self._inside.append(tag)

    def handle_endtag(self, tag):
        if self._inside and self._inside[-1] == tag:
            self._inside.pop()

    def handle_data(self, data):
        if not self._inside:
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


@pytest.fixture(scope="module")
def folder(plan, tmp_path_factory):
    target = tmp_path_factory.mktemp("report") / "plan"
    write_report(plan, target)
    return target


@pytest.fixture(scope="module")
def page(folder):
    return Page((folder / "report.html").read_text(encoding="utf-8"))


def test_the_report_writes_exactly_its_files(plan, tmp_path):
    written = write_report(plan, tmp_path / "plan")
    expected = sorted((*FILES, "ways.parquet"))
    assert sorted(path.name for path in written) == expected
    assert sorted(path.name for path in (tmp_path / "plan").iterdir()) == expected
    assert [path.name for path in tmp_path.iterdir()] == ["plan"]


def test_the_page_loads_nothing_from_elsewhere(page):
    for tag, attributes in page.tags:
        assert "src" not in attributes
        assert tag not in ("link", "iframe", "object", "embed", "base")
    policies = [each for tag, each in page.tags if tag == "meta" and "http-equiv" in each]
    assert "default-src 'none'" in policies[0]["content"]


def test_the_plotly_library_is_inline_once(folder):
    text = (folder / "report.html").read_text(encoding="utf-8")
    assert len(re.findall(r"plotly\.js v\d", text)) == 1
    assert text.startswith("<!DOCTYPE html>")


def test_the_page_states_decision_interval_contract_source_and_seed(page, plan):
    low, high = plan.speedup.interval
    for fact in (
        f"Speculate with {plan.decision.proposer}, γ = {plan.decision.num_speculative_tokens}",
        f"95 % interval {low:.3f} to {high:.3f}",
        plan.scenario.contract.value,
        "published profile llama31_8b_h100",
        f"seed {plan.scenario.seed}",
        plan.profile.sha256,
        "arXiv 2601.11580",
        "specplan plan scenario.yaml --output DIR --replications 2",
    ):
        assert fact in page.text, fact
    for caveat in plan.caveats:
        assert " ".join(caveat.split()) in page.text


def test_the_page_is_marked_up_for_a_screen_reader(page):
    tags = [tag for tag, _ in page.tags]
    attributes = dict(page.tags)
    assert attributes["html"]["lang"] == "en"
    assert tags.count("h1") == 1
    assert tags.count("caption") == tags.count("table") > 0
    assert tags.count("figure") == tags.count("figcaption") == 6
    assert all(each.get("aria-label") for tag, each in page.tags if tag == "figure")
    assert all(each.get("scope") for tag, each in page.tags if tag == "th")


def test_markdown_holds_every_candidate_and_missing_length(folder, plan):
    text = (folder / "report.md").read_text(encoding="utf-8")
    for each in plan.candidates[1:]:
        assert f"| {each.proposer}, γ = {each.num_speculative_tokens} |" in text
    assert "holds γ = \\[1, 3, 5, 7\\] only for gsm8k" in text
    assert text.index("interval") < text.index("## Why")


def test_plan_json_reads_back_equal(folder, plan):
    assert Plan.model_validate_json((folder / "plan.json").read_text(encoding="utf-8")) == plan


def test_scenario_yaml_reads_back_equal(folder, plan):
    assert load_scenario(folder / "scenario.yaml") == plan.scenario


def test_the_tables_hold_the_plans_numbers_with_their_origin(folder, plan):
    with (folder / "candidates.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["speedup"]) for row in rows] == [
        each.speedup.value for each in plan.candidates
    ]
    assert {row["profile_source"] for row in rows} == {"published"}
    with (folder / "load_curve.csv").open(encoding="utf-8") as file:
        curve = list(csv.DictReader(file))
    assert [float(row["rate_per_s"]) for row in curve] == [
        point.rate_per_s for point in plan.break_even.curve
    ]


def test_a_cell_cannot_be_a_spreadsheet_formula(plan):
    raw = json.loads(plan.model_dump_json())
    raw["candidates"][1]["proposer"] = "=HYPERLINK(1)"
    text = write.candidates_csv(Plan.model_validate_json(json.dumps(raw)))
    assert "\n'=HYPERLINK(1)," in text


def test_hostile_text_adds_no_element_to_the_page(hostile_plan, hostile_text, page):
    text = write.render_files(hostile_plan)["report.html"]
    hostile = Page(text)
    assert {tag for tag, _ in hostile.tags} == {tag for tag, _ in page.tags}
    assert not any(name.startswith("on") for _, each in hostile.tags for name in each)
    assert " ".join(hostile_text.split()) in hostile.text
    if html.escape(hostile_text) != hostile_text and "<" in hostile_text:
        assert hostile_text not in text


def test_hostile_text_adds_no_structure_to_the_markdown(hostile_plan, plan):
    hostile = write.render_files(hostile_plan)["report.md"]
    headings = re.findall(r"^#+ ", hostile, flags=re.MULTILINE)
    calm = write.render_files(plan)["report.md"]
    assert headings == re.findall(r"^#+ ", calm, flags=re.MULTILINE)
    for sign in ("<script", "<img"):
        assert sign not in hostile
    assert not re.search(r"(?<!\\)\]\(", hostile)
    assert _row_widths(hostile) == _row_widths(calm)
    assert hostile.count("```") == calm.count("```")


def _row_widths(markdown: str) -> list[int]:
    """The different numbers of cells in the rows of all tables."""
    rows = [line for line in markdown.splitlines() if line.startswith("| ")]
    # As a set: the hostile profile has fewer notes than the plan of the fixture.
    return sorted({len(re.split(r"(?<!\\)\|", row)) for row in rows})


def test_hostile_text_stays_out_of_the_scripts(hostile_plan, hostile_text):
    texts = write.render_files(hostile_plan)
    for name in ("vllm.sh", "sglang.sh", "tensorrt_llm.sh", "llama_cpp.sh", "load_test.sh"):
        assert hostile_text not in texts[name]
        assert "`" not in texts[name]
        assert "$(" not in texts[name]


def test_a_scenario_with_hostile_text_reads_back_equal(hostile_plan, tmp_path):
    write_report(hostile_plan, tmp_path / "plan")
    assert load_scenario(tmp_path / "plan" / "scenario.yaml") == hostile_plan.scenario


def test_a_renderer_that_fails_leaves_nothing_behind(plan, tmp_path, monkeypatch):
    def fail(*_):
        raise RuntimeError("no ink")

    monkeypatch.setattr(write, "load_curve_csv", fail)
    with pytest.raises(RuntimeError, match="no ink"):
        write_report(plan, tmp_path / "plan")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("existed", [False, True])
def test_a_move_that_fails_leaves_the_folder_as_it_was(plan, tmp_path, monkeypatch, existed):
    folder = tmp_path / "plan"
    if existed:
        write_report(plan, folder)
        (folder / "report.md").write_text("earlier", encoding="utf-8")
    rename = type(folder).rename

    def fail_into_place(self, target):
        if target == folder and not self.name.endswith("-old"):
            raise OSError("disk full")
        return rename(self, target)

    monkeypatch.setattr(type(folder), "rename", fail_into_place)
    with pytest.raises(SpecplanError, match="disk full"):
        write_report(plan, folder)
    assert [path.name for path in tmp_path.iterdir()] == (["plan"] if existed else [])
    if existed:
        assert (folder / "report.md").read_text(encoding="utf-8") == "earlier"


def test_an_earlier_plan_is_replaced(plan, tmp_path):
    folder = tmp_path / "plan"
    write_report(plan, folder)
    (folder / "report.md").write_text("earlier", encoding="utf-8")
    write_report(plan, folder)
    assert "earlier" not in (folder / "report.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("beside", [False, True])
def test_a_folder_of_something_else_is_refused_and_kept(plan, tmp_path, beside):
    if beside:
        write_report(plan, tmp_path / "plan")
    kept = tmp_path / "plan" / "notes.txt"
    kept.parent.mkdir(exist_ok=True)
    kept.write_text("mine", encoding="utf-8")
    with pytest.raises(SpecplanError, match="notes.txt" if beside else "holds no plan"):
        write_report(plan, tmp_path / "plan")
    assert kept.read_text(encoding="utf-8") == "mine"


def test_a_file_in_place_of_the_folder_is_refused(plan, tmp_path):
    (tmp_path / "plan").write_text("mine", encoding="utf-8")
    with pytest.raises(SpecplanError, match="is a file"):
        write_report(plan, tmp_path / "plan")
