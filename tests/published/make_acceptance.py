"""The tables of docs/background/acceptance.md anew: `python -m tests.published.make_acceptance`."""

import datetime
import re
import sys
import tempfile
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path

from simcore.version import specplan_version
from tests.conftest import SHARED
from tests.published.halvings import halve_all, halving_lines
from tests.published.speedups import eagle_rows, ngram_rows, speedup_lines
from tests.published.table import FOLDER

PAGE = Path(__file__).parents[2] / "docs" / "background" / "acceptance.md"


def main() -> None:
    """Halve, replay, rewrite both tables and their date (some minutes)."""
    folder = SHARED / "data" / FOLDER
    if not folder.is_dir():
        sys.exit(f"no {FOLDER} among the outside measurements: set SPECPLAN_SHARED to their folder")
    page = with_part(PAGE.read_text(encoding="utf-8"), "halvings", halving_lines(halve_all(folder)))
    with tempfile.TemporaryDirectory() as work:
        rows = speedup_lines(eagle_rows(folder, Path(work)), ngram_rows(folder, Path(work)))
        page = with_part(page, "speed-up", rows)
    today = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    stamp = f"{today} under {_versions()}"
    page = re.sub(r"(?<=made on )\d{4}-\d{2}-\d{2} under [^()]*?(?= with)", stamp, page)
    PAGE.write_text(page, encoding="utf-8")


def _versions() -> str:
    """What the figures may depend on."""
    names = ("numpy", "scipy")
    return ", ".join(["specplan " + specplan_version(), *(f"{n} {version(n)}" for n in names)])


def with_part(page: str, name: str, lines: Iterable[str]) -> str:
    """The page with one generated part made anew."""
    begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->\n"
    before, rest = page.split(begin)
    _, after = rest.split(end)
    return before + begin + "".join(line + "\n" for line in lines) + end + after


if __name__ == "__main__":
    main()
