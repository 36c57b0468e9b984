"""One figure as a page of its own: offline, in light and dark, with where it comes from."""

import html
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import plotly.graph_objects as go

from simcore.folders import whole_file
from simcore.report.style import TEXT_CSS, label

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 1.5rem auto;
  padding: 0 1rem; background: #fff; color: #222; }}
@media (prefers-color-scheme: dark) {{ body {{ background: #0e1117; color: #ddd; }} }}
@media print {{ body {{ background: #fff; color: #000; }} }}
{text_css}
</style></head><body>
{figure}
<ul>{notes}</ul>
<p>{origin}</p>
</body></html>
"""


def write_picture(
    figure: go.Figure, path: Path, notes: Sequence[str], origin: Mapping[str, Any]
) -> None:
    """Write `figure` with its notes and origin to `path`, whole or not at all.

    Raises SpecplanError where it cannot be written.
    """
    drawn = figure.to_html(
        full_html=False,
        include_plotlyjs=True,
        default_height=f"{figure.layout.height}px",
        config={"displaylogo": False, "responsive": True},
    )
    page = PAGE.format(
        text_css=TEXT_CSS,
        title=html.escape(str(figure.layout.title.text)),
        figure=drawn,
        notes="".join(f"<li>{label(note)}</li>" for note in notes),
        origin=label(origin_line(origin)),
    )
    whole_file(path, page)


def origin_line(origin: Mapping[str, Any]) -> str:
    """Scenario, profile with its source, contract, seed and version, in one line."""
    return (
        f"Scenario {origin['scenario']}, profile {origin['profile']} "
        f"({origin['profile_source']}), contract {origin['contract']}, seed {origin['seed']}, "
        f"specplan {origin['specplan_version']}"
    )
