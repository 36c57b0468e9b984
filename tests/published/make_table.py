"""Make the study's table of docs/validation.md anew: `python -m tests.published.make_table`."""

import datetime
import re
import sys
import tempfile
from pathlib import Path

from tests.conftest import SHARED
from tests.published.table import (
    FOLDER,
    PAGE,
    render,
    replace_table,
    replay_all,
    replay_with_runaways,
)


def main() -> None:
    """Replay the study, rewrite the table and its date."""
    folder = SHARED / "data" / FOLDER
    if not folder.is_dir():
        sys.exit(f"no {FOLDER} among the outside measurements: set SPECPLAN_SHARED to their folder")
    with tempfile.TemporaryDirectory() as work:
        replayed = replay_all(folder, Path(work))
        table = render(replayed, replay_with_runaways(folder, Path(work)), folder)
    page = replace_table(PAGE.read_text(encoding="utf-8"), table)
    today = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    page = re.sub(r"(?<=made on )\d{4}-\d{2}-\d{2}", today, page)
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
