"""Write docs/reference: a part of `make docs`."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.docs.command_page import command_page
from tests.docs.python_page import python_page
from tests.docs.schema_page import schema_page

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
PAGES: dict[str, Callable[[], str]] = {
    "scenario-fields.md": partial(schema_page, "scenario"),
    "profile-fields.md": partial(schema_page, "profile"),
    "plan-fields.md": partial(schema_page, "plan"),
    "python.md": python_page,
    "command-line.md": command_page,
}


def main() -> None:
    """Write every page."""
    REFERENCE.mkdir(exist_ok=True)
    for name, make in PAGES.items():
        (REFERENCE / name).write_text(make(), encoding="utf-8")


if __name__ == "__main__":
    main()
