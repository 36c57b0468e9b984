"""specplan estimate: every measured draft length under the scenario's load, in closed form."""

import json
from typing import Annotated

import typer

from simcore.commands.progress import progress


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("estimate")(estimate_command)


def estimate_command(
    scenario: Annotated[
        str, typer.Argument(help="a scenario file (YAML), or the name of a bundled scenario")
    ] = "cpu_chat",
    rate: Annotated[
        float | None, typer.Option(help="requests/s; default: the scenario's own load")
    ] = None,
    proposer: Annotated[
        list[str] | None, typer.Option(help="only these proposers; may be repeated")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="print one JSON object on stdout")
    ] = False,
) -> None:
    """Estimate off and every measured draft length under load, without simulating."""
    from simcore.planner.estimate_table import estimate_table
    from simcore.report.load_text import load_text
    from simcore.scenario_files import open_scenario

    chosen = open_scenario(scenario)
    with progress("estimating", "points", compiles=False) as advance:
        found = estimate_table(chosen, tuple(proposer or ()), rate, progress=advance)
    if as_json:
        typer.echo(json.dumps(found.model_dump(mode="json"), ensure_ascii=False, allow_nan=False))
    else:
        typer.echo(load_text(found))
