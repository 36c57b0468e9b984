"""specplan map: where speculation pays, over two inputs at once."""

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from simcore.commands.progress import progress
from simcore.errors import ScenarioError

if TYPE_CHECKING:
    from simcore.planner.crossover_document import CrossoverMap


class Kind(StrEnum):
    """What the axes are."""

    LOAD_GAMMA = "load_gamma"
    BATCH_ACCEPTANCE = "batch_acceptance"
    CONTEXT_GAMMA = "context_gamma"
    BUDGET_LOAD = "budget_load"


class Latency(StrEnum):
    """Whose ratio the map shows."""

    E2E = "e2e"
    TPOT = "tpot"


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("map")(map_command)


def map_command(
    scenario: Annotated[
        str, typer.Argument(help="a scenario file (YAML), or the name of a bundled scenario")
    ] = "cpu_chat",
    kind: Annotated[Kind, typer.Option(help="the two inputs, across and up")] = Kind.LOAD_GAMMA,
    metric: Annotated[Latency, typer.Option(help="whose mean is compared")] = Latency.E2E,
    proposer: Annotated[
        str | None, typer.Option(help="in place of the scenario's own; default: the first measured")
    ] = None,
    columns: Annotated[int, typer.Option(min=2, max=200, help="points across")] = 20,
    simulate: Annotated[
        bool, typer.Option("--simulate", help="simulate every cell in place of the closed form")
    ] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="HTML file for the picture, offline")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="print one JSON object on stdout")
    ] = False,
) -> None:
    """Map the speed-up over off: load, draft length, batch, acceptance, context or tree size."""
    from simcore.planner.crossover import crossover_map
    from simcore.profile.store import load_profile
    from simcore.report.map_text import map_text
    from simcore.report.plain import visible
    from simcore.scenario_files import open_scenario

    chosen = open_scenario(scenario)
    if output is not None:
        check_picture(output)
    stored = load_profile(chosen.profile)
    with progress("mapping", "columns", compiles=simulate) as advance:
        found = crossover_map(
            stored,
            chosen,
            kind.value,
            metric=metric.value,
            proposer=proposer,
            num_columns=columns,
            simulated=simulate,
            progress=advance,
        )
    if output is not None:
        _write(found, output)
    if as_json:
        typer.echo(json.dumps(found.model_dump(mode="json"), ensure_ascii=False, allow_nan=False))
    else:
        typer.echo(visible(map_text(found)))


def check_picture(path: Path) -> None:
    """Refuse before the work what cannot be written after it."""
    if path.suffix.lower() not in (".html", ".htm"):
        raise ScenarioError(f"--output {path}; expected a file that ends with .html")
    if not path.parent.is_dir() or path.is_dir():
        raise ScenarioError(f"--output {path}: no such folder; make {path.parent} first")


def _write(found: "CrossoverMap", path: Path) -> None:
    from simcore.report.map_figures import crossover_figure
    from simcore.report.picture import write_picture

    write_picture(crossover_figure(found), path, found.notes, found.origin)
