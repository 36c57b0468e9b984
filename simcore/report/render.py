"""Fill the templates: HTML with every value escaped, Markdown likewise."""

from collections.abc import Mapping
from functools import cache

import jinja2
import plotly.graph_objects as go
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from simcore.planner.document import Plan
from simcore.report.figures import candidates_figure, load_figure
from simcore.report.flags import EngineSettings
from simcore.report.overview import Overview
from simcore.report.plain import visible
from simcore.report.table import Ready, escape_markdown, markdown_table
from simcore.report.units import NOTHING
from simcore.report.view import view_of

PRINT_TEXT_COLOUR = "#333333"  # the page is white


def render_html(plan: Plan, settings: Mapping[str, EngineSettings]) -> str:
    """The report as one page that needs nothing else, not even a network."""
    template = _environment(autoescape=True).get_template("report.html.j2")
    figures = {"candidates": candidates_figure(plan), "load": load_figure(plan)}
    text = template.render(
        plan=plan,
        view=view_of(plan),
        settings=settings,
        plotly_js=Markup(get_plotlyjs()),
        figures={name: _figure_html(name, figure) for name, figure in figures.items()},
    )
    return text.strip() + "\n"


def render_overview_html(overview: Overview) -> str:
    """A result for a notebook: a fragment of a page."""
    template = _environment(autoescape=True).get_template("overview.html.j2")
    return template.render(overview=overview).strip() + "\n"


def render_markdown(plan: Plan, settings: Mapping[str, EngineSettings]) -> str:
    """The report without its pictures."""
    template = _environment(autoescape=False).get_template("report.md.j2")
    text = template.render(
        plan=plan, view=view_of(plan), settings=settings, table=markdown_table, code=_code_span
    )
    return text.rstrip() + "\n"


@cache
def _environment(*, autoescape: bool) -> jinja2.Environment:
    """Templates of this package; where HTML's escaping is off, Markdown's is on."""
    return jinja2.Environment(
        loader=jinja2.PackageLoader("simcore.report"),
        autoescape=autoescape,
        finalize=_shown if autoescape else escape_markdown,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _shown(value: object) -> object:
    """A value of a page before its escaping; Markup passes."""
    return value if isinstance(value, Markup) else visible(str(value)) or NOTHING


def _figure_html(name: str, figure: go.Figure) -> Markup:
    figure.update_layout(font={"color": PRINT_TEXT_COLOUR})
    text = figure.to_html(
        full_html=False,
        include_plotlyjs=False,
        div_id=f"figure-{name}",
        default_height=f"{figure.layout.height}px",
        config={"displaylogo": False, "responsive": True},
    )
    return Markup(text)  # Plotly escapes what it writes into its script


def _code_span(text: str) -> Ready:
    """A command on a line of its own, in a fence that no text inside can close."""
    fence = "```"
    while fence in text:
        fence += "`"
    return Ready(f"{fence}sh\n{visible(text)}\n{fence}")
