"""specplan settings, alerts and load-test: what a plan hands on, printed."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from simcore.errors import SpecplanError
from simcore.report.plain import visible

if TYPE_CHECKING:
    from simcore.report.engine import EngineSettings

PlanArgument = Annotated[
    Path, typer.Argument(help="a folder that specplan plan --output wrote, or its plan.json")
]
JsonOption = Annotated[bool, typer.Option("--json", help="print one JSON object on stdout")]


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.command("settings", help=settings.__doc__)(settings)
    app.command("alerts", help=alerts.__doc__)(alerts)
    app.command("load-test", help=load_test.__doc__)(load_test)


def settings(
    plan: PlanArgument,
    engine: Annotated[str, typer.Option(help="vllm, sglang, tensorrt_llm or llama_cpp")] = "vllm",
    engine_version: Annotated[
        str | None, typer.Option(help="default: the last that settings are written for")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Print how to start an engine as a plan says, or why it cannot and the nearest that it can."""
    from simcore.planner.plan_file import read_plan
    from simcore.report.flags import ENGINES, engine_settings

    if engine not in ENGINES:
        raise SpecplanError(f"engine {engine!r}; expected one of {', '.join(ENGINES)}")
    versions = {} if engine_version is None else {engine: engine_version}
    found = engine_settings(read_plan(plan), versions)[engine]
    typer.echo(json.dumps(_as_dict(found), ensure_ascii=False) if as_json else _text(found))


def _as_dict(found: "EngineSettings") -> dict[str, object]:
    return {
        "engine": found.engine,
        "version": found.version,
        "argv": list(found.argv),
        "command": found.command,
        "refusal": found.refusal,
        "notes": list(found.notes),
        "files": {file.name: file.content for file in found.files},
    }


def _text(found: "EngineSettings") -> str:
    lines = [f"{found.engine} {found.version}", ""]
    if found.refusal is not None:
        lines += [f"Refused: {found.refusal}.", "The nearest:", ""]
    lines += [found.command, ""]
    for file in found.files:
        lines += [f"{file.name}:", "", file.content]
    return "\n".join([*lines, *(f"Note: {note}" for note in found.notes)])


def alerts(
    plan: PlanArgument,
    engine: Annotated[str, typer.Option(help="vllm or sglang")] = "vllm",
) -> None:
    """Print a plan's monitoring rules as a Prometheus rule file."""
    from simcore.planner.plan_file import read_plan
    from simcore.report.alerts import alerts_yaml

    typer.echo(alerts_yaml(read_plan(plan), engine), nl=False)


def load_test(
    plan: PlanArgument,
    dataset: Annotated[
        str | None, typer.Option(help="your own prompts, JSONL; default: random tokens")
    ] = None,
    base_url: Annotated[
        str, typer.Option(help="where the service listens")
    ] = "http://localhost:8000",
    script: Annotated[
        bool, typer.Option("--script", help="print the shell script of every run")
    ] = False,
) -> None:
    """Print the load test of a plan: servers, commands, and what would refute the plan."""
    from simcore.planner.plan_file import read_plan
    from simcore.report.load_test import load_test as make
    from simcore.report.load_test import load_test_script, load_test_text

    test = make(read_plan(plan), dataset=dataset, base_url=base_url)
    if dataset is not None and not Path(dataset).is_file():  # it may be the load generator's
        here = visible(f"no file {dataset!r} here; it must lie where the commands run")
        typer.echo(f"specplan: {here}", err=True)
    typer.echo(load_test_script(test) if script else load_test_text(test), nl=not script)
