"""specplan diff: what changed between two plans, or two scenarios."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from simcore.planner.document import Plan
    from simcore.scenario import Scenario

SideArgument = Annotated[
    str,
    typer.Argument(help="a plan.json, a folder with one or with a scenario.yaml, or a scenario"),
]


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("diff", help=diff.__doc__)(diff)


def diff(
    a: SideArgument,
    b: SideArgument,
    as_json: Annotated[
        bool, typer.Option("--json", help="print one JSON object on stdout")
    ] = False,
) -> None:
    """Show what differs between two plans: what was asked, and what came out."""
    from simcore.planner.document import Plan
    from simcore.planner.plan_diff import diff_plans, diff_scenarios
    from simcore.report.diff_text import diff_text

    one, other = _open(a), _open(b)
    if isinstance(one, Plan) and isinstance(other, Plan):
        found = diff_plans(one, other)
    else:
        found = diff_scenarios(_scenario(one), _scenario(other))
    if as_json:
        typer.echo(json.dumps(found.model_dump(mode="json"), ensure_ascii=False, allow_nan=False))
    else:
        typer.echo(diff_text(found))


def _scenario(side: "Plan | Scenario") -> "Scenario":
    from simcore.planner.document import Plan

    return side.scenario if isinstance(side, Plan) else side


def _open(text: str) -> "Plan | Scenario":
    """A plan where there is one; else a scenario by file, by folder or by name."""
    from simcore.planner.plan_file import PLAN_FILE, read_plan
    from simcore.scenario_files import open_scenario

    path = Path(text)
    if path.is_dir() and not (path / PLAN_FILE).exists() and (path / "scenario.yaml").exists():
        return open_scenario(str(path / "scenario.yaml"))
    if path.is_dir() or path.suffix == ".json":
        return read_plan(path)
    return open_scenario(text)
