"""README and docs/ as they are written: links, blocks, commands."""

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
# What write_report wrote is not a page of ours.
PAGES = [
    ROOT / "README.md",
    *(path for path in sorted(DOCS.rglob("*.md")) if DOCS / "examples" not in path.parents),
]
LINK = re.compile(r"\]\((?!\w+:)([^)#\s]*)(#[^)\s]*)?\)")
IMAGE = re.compile(r'<img src="([^"]+)"[^>]* alt="[^"]+">')
BLOCK = re.compile(r"^( *)```(\w+)\n(.*?)^\1```", re.S | re.M)
QUOTED = re.compile(r"`((?:\.venv/bin/)?(?:specplan|python -m calibration) [^`]+)`")
PLACEHOLDER = re.compile(r"\b[A-Z]{2,}\b|…|\.\.\.")


def text_of(page: Path) -> str:
    """What stands on a page."""
    return page.read_text(encoding="utf-8")


def links(page: Path) -> Iterator[tuple[str, str]]:
    """(file, section) of every link and picture to something of ours; either may be empty."""
    for file, section in LINK.findall(_without_blocks(text_of(page))):
        yield file, section.removeprefix("#")
    for file in IMAGE.findall(text_of(page)):
        yield file, ""


def sections(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", _without_blocks(text_of(page)), re.M)
    words = (re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", each).lower() for each in headings)
    return {re.sub(r"[^\w\- ]", "", each).replace(" ", "-") for each in words}


def blocks(page: Path, *kinds: str) -> Iterator[str]:
    """The code of a page, without the indentation of the list that it stands in."""
    for indent, kind, code in BLOCK.findall(text_of(page)):
        if kind in kinds:
            yield re.sub(rf"^{indent}", "", code, flags=re.M)


def commands(page: Path) -> Iterator[str]:
    """Every command of ours on a page, in blocks or between backticks, one line each."""
    text = re.sub(r" *\\\n\s*", " ", text_of(page))
    lines = re.findall(r"^ *(?:\.venv/bin/)?((?:specplan|python -m calibration) .*)$", text, re.M)
    for line in lines + QUOTED.findall(_without_blocks(text)):
        command = re.split(r"\s{2,}|\s+#|\s[>|]\s", line.strip())[0]
        yield command.removeprefix(".venv/bin/")


def _without_blocks(text: str) -> str:
    return re.sub(r"^( *)```.*?^\1```", "", text, flags=re.S | re.M)
