"""specplan sensitivity and specplan uncertainty: what would change the decision."""

import json
from pathlib import Path
from typing import Annotated

import typer

from simcore.commands.crossover import check_picture
from simcore.commands.progress import progress

ScenarioArgument = Annotated[
    str, typer.Argument(help="a scenario file (YAML), or the name of a bundled scenario")
]
ProposerOption = Annotated[
    str | None, typer.Option(help="in place of the scenario's own; default: the first measured")
]
GammaOption = Annotated[
    int | None,
    typer.Option(min=1, help="draft length; default: the scenario's own, or the fastest"),
]
JsonOption = Annotated[bool, typer.Option("--json", help="print one JSON object on stdout")]


def register(app: typer.Typer) -> None:
    """Add both commands to the command line."""
    app.command("sensitivity")(sensitivity_command)
    app.command("uncertainty")(uncertainty_command)


def sensitivity_command(
    scenario: ScenarioArgument = "cpu_chat",
    proposer: ProposerOption = None,
    gamma: GammaOption = None,
    seeds: Annotated[
        int, typer.Option(min=0, max=100, help="simulations at every flip; 0: none")
    ] = 5,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="HTML file for the tornado chart, offline")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Move every input over its plausible range: what flips the decision, and where."""
    from simcore.planner.sensitivity import sensitivity
    from simcore.report.picture import write_picture
    from simcore.report.plain import visible
    from simcore.report.sensitivity_figures import tornado_figure
    from simcore.report.sensitivity_text import sensitivity_text
    from simcore.scenario_files import open_scenario

    chosen = open_scenario(scenario)
    if output is not None:
        check_picture(output)
    with progress("moving", "inputs", compiles=seeds > 0) as advance:
        found = sensitivity(
            chosen, proposer=proposer, gamma=gamma, num_seeds=seeds, progress=advance
        )
    if output is not None:
        write_picture(tornado_figure(found), output, found.notes, found.origin)
    if as_json:
        typer.echo(json.dumps(found.model_dump(mode="json"), ensure_ascii=False, allow_nan=False))
    else:
        typer.echo(visible(sensitivity_text(found)))


def uncertainty_command(
    scenario: ScenarioArgument = "cpu_chat",
    proposer: ProposerOption = None,
    gamma: GammaOption = None,
    against: Annotated[int, typer.Option(min=0, help="the other draft length; 0: off")] = 0,
    replications: Annotated[
        int, typer.Option(min=3, max=1000, help="draws of each source, and of all together")
    ] = 20,
    as_json: JsonOption = False,
) -> None:
    """Say how sure a gain is, which source of doubt weighs most, and what to measure next."""
    from simcore.planner.uncertainty import explain_uncertainty
    from simcore.report.plain import visible
    from simcore.report.sensitivity_text import uncertainty_text
    from simcore.scenario_files import open_scenario

    chosen = open_scenario(scenario)
    with progress("drawing", "simulations") as advance:
        found = explain_uncertainty(
            chosen,
            proposer=proposer,
            gamma=gamma,
            against=against,
            num_replications=replications,
            progress=advance,
        )
    if as_json:
        typer.echo(json.dumps(found.model_dump(mode="json"), ensure_ascii=False, allow_nan=False))
    else:
        typer.echo(visible(uncertainty_text(found)))
