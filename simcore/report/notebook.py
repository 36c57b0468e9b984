"""Results in a notebook: tables instead of a page of fields; plain text in a terminal.

IPython's formatters know types by name. So the results themselves, which lie below the reports,
need not know how they are shown, and nothing is loaded before something is shown.
"""

import sys
from typing import Any, Protocol

SHOWN = {  # type -> the module that defines it
    "BestTree": "simcore.planner.tree_choice",
    "Capacity": "simcore.planner.capacity_document",
    "Comparison": "simcore.planner.comparison",
    "CycleStatistics": "simcore.acceptance.statistics",
    "CycleSurvival": "simcore.planner.speedup",
    "LoadEstimate": "simcore.planner.load_estimate",
    "Plan": "simcore.planner.document",
    "ReplicaPlan": "simcore.planner.capacity_document",
    "ReplicatedSummary": "simcore.metrics.replicated",
    "Scenario": "simcore.scenario",
    "SimulationResult": "simcore.serving.simulation",
    "StoredProfile": "simcore.profile.store",
    "Summary": "simcore.metrics.summary",
    "SweepResult": "simcore.planner.sweep_result",
}


class Printer(Protocol):
    """The part of IPython's pretty printer that is used."""

    def text(self, text: str) -> None:
        """Print this."""


def show_in_notebook() -> None:
    """Where IPython runs, have it show results as `overview` has them; else do nothing."""
    ipython = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if ipython is not None:
        register(ipython.display_formatter.formatters)


def register(formatters: Any) -> None:
    """Teach IPython's formatters, by MIME type, every type of SHOWN."""
    for name, module in SHOWN.items():
        formatters["text/html"].for_type_by_name(module, name, html_of)
        formatters["text/plain"].for_type_by_name(module, name, _print)


def html_of(result: object) -> str:
    """The result as HTML, every value escaped. Raises TypeError for what is no result."""
    from simcore.report.overview import overview  # noqa: PLC0415 - not before something is shown
    from simcore.report.render import render_overview_html  # noqa: PLC0415 - likewise

    return render_overview_html(overview(result))


def text_of(result: object) -> str:
    """The result as plain text, for a terminal. Raises TypeError for what is no result."""
    from simcore.report.overview import overview  # noqa: PLC0415 - not before something is shown
    from simcore.report.overview_text import overview_text  # noqa: PLC0415 - likewise

    return overview_text(overview(result))


def _print(result: object, printer: Printer, cycle: bool) -> None:
    printer.text(text_of(result))
