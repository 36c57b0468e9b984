"""Links lead somewhere, commands can be typed, and numbers are those of the program."""

import ast
import re
import shlex

import pytest
import typer

import simcore as sp
from calibration.cli import app as calibration_app
from simcore.acceptance.survival import iid_mean_emitted_tokens
from simcore.cli import app as specplan_app
from tests.docs.pages import DOCS, PAGES, ROOT, blocks, commands, links, sections, text_of
from tests.docs.truth_rows import truth_rows

INDEX = DOCS / "README.md"
README = ROOT / "README.md"
PROGRAMS = {
    "specplan": typer.main.get_command(specplan_app),
    "calibration": typer.main.get_command(calibration_app),
}
NUMBER = re.compile(r"\d+(?:\.\d+)?")


def relative(page):
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_every_link_and_picture_leads_to_a_file_and_a_section_of_it(page):
    for file, section in links(page):
        target = (page.parent / file).resolve() if file else page
        assert target.exists(), file
        if section:
            assert section in sections(target), f"{file}#{section}"


def test_the_index_names_every_page():
    named = {(INDEX.parent / file).resolve() for file, _ in links(INDEX) if file}
    assert {*PAGES, *DOCS.glob("*.ipynb")} - named - {README, INDEX} == set()


def test_the_readme_leads_to_all_four_kinds_and_to_every_guide():
    named = {(ROOT / file).resolve() for file, _ in links(README) if file}
    assert {*(DOCS / "how-to").iterdir()} <= named
    for kind in ("tutorial.md", "reference/glossary.md", "background/acceptance.md"):
        assert DOCS / kind in named


def test_every_picture_is_on_a_page_and_says_what_it_shows():
    shown, words = set(), []
    for page in PAGES:
        for alt, file in re.findall(r"!\[([^]]*)\]\(([^)]+)\)", text_of(page)):
            shown.add((page.parent / file).resolve())
            words.append(alt)
    assert {*(DOCS / "images").iterdir()} - shown == set()
    assert all(words)


SOURCES = [
    path
    for folder in ("app", "calibration", "simcore", "tests")
    for pattern in ("*.py", "*.j2", "*.yaml")
    for path in (ROOT / folder).rglob(pattern)
]


def test_every_page_that_code_names_is_there():
    files = [*SOURCES, ROOT / "Makefile", ROOT / "CHANGELOG.md"]
    named = {
        (str(path.relative_to(ROOT)), page)
        for path in files
        for page in re.findall(r"docs/[\w/-]+\.(?:md|json|ipynb|prom|png)\b", text_of(path))
    }
    assert len(named) > 50
    assert sorted(each for each in named if not (ROOT / each[1]).exists()) == []


def typed():
    return sorted({(relative(page), command) for page in PAGES for command in commands(page)})


@pytest.mark.parametrize(("page", "command"), typed())
def test_a_command_that_a_page_shows_can_be_typed(page, command):
    words = shlex.split(command)
    program = PROGRAMS["specplan" if words[0] == "specplan" else "calibration"]
    words = words[1:] if words[0] == "specplan" else words[3:]
    while hasattr(program, "commands") and words and not words[0].startswith("-"):
        program, words = program.commands[words[0]], words[1:]
    known = {option for each in program.params for option in each.opts + each.secondary_opts}
    options = [word.split("=")[0] for word in words if re.match(r"--?[a-z]", word)]
    assert set(options) <= known
    if "[" not in command and words and words[-1] not in known:  # whole, not only named
        program.make_parser(typer.Context(program)).parse_args(words)


def test_commands_are_found_in_blocks_and_in_sentences():
    found = {command for _, command in typed()}
    assert len(found) > 60
    assert "specplan plan --output out" in found
    assert any(command.startswith("python -m calibration measure") for command in found)


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_python_on_a_page_is_python_and_its_names_are_there(page):
    for code in blocks(page, "python"):
        if page.name == "python.md":  # signatures
            continue
        for node in ast.walk(ast.parse(code)):
            if isinstance(node, ast.Attribute) and ast.unparse(node.value) in ("sp", "simcore"):
                assert hasattr(sp, node.attr), node.attr
            if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "sp.figures":
                assert node.attr in sp.figures.__all__


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_names_of_the_interface_in_sentences_are_there(page):
    for name in re.findall(r"`sp\.(?!figures)(\w+)", text_of(page)):
        assert name in sp.__all__, name


def test_the_readmes_table_of_errors_is_what_the_page_truth_shows():
    for row in truth_rows():
        assert row in text_of(README)


def test_the_readmes_further_errors_stand_on_the_page_that_is_linked():
    part = text_of(README).split("## What it measures")[1].split("\n## ")[0]
    for item in re.findall(r"^- (.*?)(?=^- |\Z|\n\n)", part, re.S | re.M):
        numbers = [each for each in NUMBER.findall(re.sub(r"\(.*?\)", "", item)) if "." in each]
        page = (ROOT / re.findall(r"\]\(([^)#]+)", item)[0]).read_text(encoding="utf-8")
        assert all(number in page for number in numbers), item


@pytest.fixture(scope="module")
def imported(tmp_path_factory):
    """Survival by the counters of the tutorial, and its one rate."""
    folder = tmp_path_factory.mktemp("tutorial") / "own"
    own = sp.import_profile(
        [DOCS / "examples" / "vllm_metrics.prom"],
        folder,
        into="smollm2_135m_cpu",
        proposer="ngram",
        sampling={"temperature": 0.0},
        domain="my_service",
    )
    scenario = sp.open_scenario("cpu_chat")
    scenario = scenario.with_(**{"workload.domains": {"my_service": 1.0}})
    return own, sp.estimate_survival(own, scenario, "ngram")[4]


def test_the_tutorials_numbers_are_those_of_its_file(imported):
    own, survival = imported
    text = " ".join(text_of(DOCS / "tutorial.md").split())
    shares = ", ".join(f"{100 * share:.1f} %" for share in survival.survival[:3])
    assert f"{shares} and {100 * survival.survival[3]:.1f} %" in text
    assert f"**{survival.mean_emitted_tokens:.2f} tokens**" in text
    promised = iid_mean_emitted_tokens(survival.acceptance_rate, 4)
    assert f"α = {survival.acceptance_rate:.3f}, so {promised:.2f} tokens a cycle" in text
    counts = own.profile.acceptance[-1].counts[4]
    assert f"Of {counts.num_drafts:,} drafts" in text
    assert counts.num_drafts / counts.num_cycles == pytest.approx(2 / 3, abs=0.02)
    assert promised / survival.mean_emitted_tokens == pytest.approx(4 / 3, abs=0.03)
