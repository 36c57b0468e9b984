"""No text of a profile or a scenario becomes markup, a formula or a command in what is written."""

import csv
import io
import re
import shlex
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path

import pandas as pd
import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from simcore.planner.document import Plan
from simcore.planner.plan_file import read_plan
from simcore.report import render
from simcore.report.flags import engine_settings, shell_script
from simcore.report.plain import INVISIBLE, one_line, spreadsheet_text, visible
from simcore.report.records import write_records
from simcore.report.render import render_html, render_markdown
from simcore.report.table import escape_markdown
from simcore.report.tables_csv import candidates_csv, load_curve_csv
from simcore.report.units import NOTHING
from simcore.scenario import dump_scenario
from tests.report.hostile import TEXTS, planted

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "h100_chat"
FRAGMENTS = (
    *("<b>", "</td></tr></table>", "<script>", "</script>", "<!--", "-->", "<img src=x onerror=a>"),
    *("&lt;", "&#60;", "]]>", '"', "'", '" onload="x', "<a href='http://x'>", "{{ 7 * 7 }}"),
    *("{% if %}", "|", "\\|", "\\", "`", "``` ", "*", "**a**", "_a_", "__", "~~a~~", "# ", "> "),
    *(
        "- ",
        "+ ",
        "1. ",
        "2) ",
        "---",
        "===",
        "- - -",
        "[a](http://x)",
        "![a](x)",
        "[^1]",
        "<http://x>",
    ),
    *(
        "https://x.example/",
        "www.x.example",
        "a@x.example",
        "$x$",
        "\n",
        "\r\n",
        "\t",
        "    ",
        "\n\n",
    ),
    *(
        "!!python/object/apply:os.system",
        "&anchor",
        "*anchor",
        "<<: ",
        ": ",
        "# c",
        "%YAML",
        "? ",
        "null",
    ),
    *("~", "yes", "1e3", "\x00", "\x1b[2J", "\x7f", "\x85", "\u202e", "\u2066", "\u2028", "\ufeff"),
    *(
        "$(id)",
        "; id",
        "&& id",
        "> /tmp/x",
        "=1+1",
        "+1",
        "-1",
        "@SUM(1)",
        "＝1",
        "%{x}",
        "%{customdata[0]}",
    ),
)
# 120 characters is the longest name of a scenario.
HOSTILE = (
    st.lists(st.sampled_from(FRAGMENTS) | st.text(max_size=6), min_size=1, max_size=6)
    .map(lambda parts: "".join(parts)[:120])
    .filter(bool)
)
# One page takes a while to draw: fewer pages than texts.
FEW = settings(max_examples=12)


class Structure(HTMLParser):
    """All that is not text: elements with their attributes, ends, comments, declarations."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.parts: list[object] = []
        self.words: dict[str, list[str]] = {}
        self._open: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        # An aria-label may hold a caption, with the name of a proposer.
        kept = [(name, None if name == "aria-label" else value) for name, value in attrs]
        self.parts.append((tag, tuple(kept)))
        self._open.append(tag)

    def handle_endtag(self, tag):
        self.parts.append(f"/{tag}")
        if tag in self._open:
            while self._open.pop() != tag:
                pass

    def handle_data(self, data):
        if self._open:
            self.words.setdefault(self._open[-1], []).append(data)

    def handle_comment(self, data):
        self.parts.append(("comment", data))

    def handle_decl(self, decl):
        self.parts.append(("declaration", decl))

    def handle_pi(self, data):
        self.parts.append(("instruction", data))

    def text(self, tag: str) -> str:
        return " ".join("".join(self.words[tag]).split())


@dataclass(frozen=True, repr=False)  # a plan in words is too long to read
class Held:
    """A plan, and what becomes of it with one harmless word for every free text."""

    plan: Plan
    page: list[object]
    markdown: list[tuple[str, str, str]]


@pytest.fixture(scope="module")
def held(plan) -> Held:
    # A search takes too long here; the committed example's is of the same scenario.
    plan = plan.model_copy(update={"capacity": read_plan(EXAMPLE).capacity})
    assert None not in (plan.recommendation, plan.crossover, plan.sensitivity, plan.capacity)
    calm = planted(plan, "harmless")
    return Held(plan, page_of(calm).parts, structure(tokens_of(markdown_of(calm))))


@pytest.fixture(autouse=True, scope="module")
def without_plotly():
    """Four megabytes of script, the same on every page."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(render, "get_plotlyjs", lambda: "")
        yield


def page_of(plan: Plan) -> Structure:
    return Structure(render_html(plan, engine_settings(plan)))


def markdown_of(plan: Plan) -> str:
    return render_markdown(plan, engine_settings(plan))


@FEW
@given(text=HOSTILE)
@example(text="</script><script>alert(1)</script>")
@example(text="\x00")
def test_a_page_of_hostile_text_has_the_structure_of_a_harmless_one(held, text):
    found = page_of(planted(held.plan, text))
    assert found.parts == held.page
    shown = " ".join(visible(text).split()) or (NOTHING if not text.strip() else "")
    assert found.text("h1") == f"Speculation plan: {shown}".strip()
    assert not INVISIBLE.search(found.text("td"))


def tokens_of(markdown: str) -> list[Token]:
    return MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(markdown)


def structure(tokens: list[Token]) -> list[tuple[str, str, str]]:
    """Blocks and inline elements of a document, without its text."""
    found = []
    for token in tokens:
        if token.type not in ("text", "text_special", "softbreak"):
            found.append((token.type, token.tag, token.info if token.type == "fence" else ""))
        found += structure(token.children or [])
    return found


def shown_text(inline: Token) -> str:
    return "".join(child.content for child in inline.children or [])


@FEW
@given(text=HOSTILE)
@example(text="--- | `x` \n# y")
@example(text="1. x")
def test_markdown_of_hostile_text_has_the_structure_of_a_harmless_one(held, text):
    tokens = tokens_of(markdown_of(planted(held.plan, text)))
    assert structure(tokens) == held.markdown
    heading = tokens[1]
    assert shown_text(heading) == f"Speculation plan: {one_line(text) or NOTHING}"


@given(text=HOSTILE)
def test_escaped_markdown_reads_as_the_text_itself_in_a_list_a_cell_and_a_paragraph(text):
    escaped, shown = escape_markdown(text), one_line(text) or NOTHING
    for frame in ("{}\n", "- {}\n", "| a | b |\n| --- | --- |\n| x | {} |\n"):
        tokens = tokens_of(frame.format(escaped))
        assert structure(tokens) == structure(tokens_of(frame.format("harmless")))
        inline = [token for token in tokens if token.type == "inline"][-1]
        assert shown_text(inline) == shown
    # GitHub makes links of these without any sign around them.
    assert not re.search(r"://|\bwww\.|(?<!\\)@", escaped, re.IGNORECASE)


@given(text=HOSTILE)
@example(text="a\x85b")
@example(text="a\r\u2028b")
def test_a_scenario_of_hostile_text_is_the_same_after_yaml(held, text):
    scenario = planted(held.plan, text).scenario
    assert yaml.safe_load(dump_scenario(scenario)) == scenario.model_dump(mode="json")


@given(text=HOSTILE)
@example(text="a\rb")
def test_a_table_of_hostile_text_keeps_its_columns_and_holds_no_formula(held, text):
    hostile = planted(held.plan, text)
    for table in (candidates_csv(hostile), load_curve_csv(hostile)):
        header, *rows = csv.reader(io.StringIO(table, newline=""))
        assert {len(row) for row in rows} == {len(header)}
        for row in rows:
            cells = dict(zip(header, row, strict=True))
            assert cells["proposer"] in ("off", spreadsheet_text(text))
            assert cells["profile"] == spreadsheet_text(text)
            assert not [cell for cell in row if is_formula(cell)]


def is_formula(cell: str) -> bool:
    """What a spreadsheet would run; a negative number is none."""
    if not cell.startswith(("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")):
        return False
    return not re.fullmatch(r"-\d+(\.\d+)?(e-?\d+)?", cell)


@given(text=HOSTILE)
def test_a_script_of_hostile_text_holds_comments_one_command_and_nothing_else(held, text):
    known = (
        r"#.*|set -euo pipefail|echo 'refused: [^']*' >&2|exit 1|exec [a-z][a-z-]+ .*"
        r"|case \"\$0\" in \*/\*\) cd -- \"\$\{0%/\*\}\" ;; esac"
    )
    for each in engine_settings(planted(held.plan, text)).values():
        assert shlex.split(each.command) == list(each.argv)
        script = shell_script(each)
        assert all(re.fullmatch(known, line) for line in script.removesuffix("\n").split("\n"))
        for line in script.splitlines():
            if line.startswith(("#", "echo")) and not line.startswith("#!"):
                assert not re.search(r"[`$\\;&|<>]", line.removesuffix(" >&2").replace(";", ""))


@pytest.mark.parametrize("name", ["=cmd|' /C calc'!A0", "+x", "\tx", 'a,"b"\nc'])
def test_the_records_of_a_domain_of_hostile_name_hold_no_formula(tmp_path, name, recorded_profile):
    from simcore import simulate
    from tests.factories import make_scenario

    result = simulate(make_scenario(recorded_profile, **{"workload.num_requests": 5}))
    result.requests["domain"] = name  # as a profile with such a domain would give
    write_records(result, tmp_path / "out")
    table = pd.read_csv(tmp_path / "out" / "requests.csv")
    assert set(table["domain"]) == {spreadsheet_text(name)}
    assert not any(is_formula(cell) for cell in table["domain"])


@given(text=HOSTILE | st.sampled_from(TEXTS))
def test_what_is_invisible_is_shown_and_nothing_else_changes(text):
    shown = visible(text)
    assert not INVISIBLE.search(shown)
    assert visible(shown) == shown
    if not INVISIBLE.search(text):
        assert shown == text
