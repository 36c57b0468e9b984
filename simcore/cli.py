"""The command line: specplan plan, simulate, acceptance, profiles, app, bench.

Results go to stdout, progress and errors to stderr. `--json` prints one JSON object and nothing
else on stdout. Bad input is one sentence and exit code 2.
"""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from simcore.acceptance_cli import app as acceptance_app
from simcore.errors import SpecplanError
from simcore.version import specplan_version

BAD_INPUT_EXIT_CODE = 2
DEFAULT_SCENARIO = "cpu_chat"

app = typer.Typer(
    name="specplan",
    help="Capacity planning for speculative decoding.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
app.add_typer(acceptance_app, name="acceptance")

ScenarioArgument = Annotated[
    str,
    typer.Argument(help="a scenario file (YAML), or the name of a bundled scenario"),
]
JsonOption = Annotated[bool, typer.Option("--json", help="print one JSON object on stdout")]


def main() -> None:
    """Run the command line; errors that specplan raises on purpose end with exit code 2."""
    try:
        app()
    except SpecplanError as error:
        sys.stderr.write(f"specplan: {error}\n")
        sys.exit(BAD_INPUT_EXIT_CODE)


@app.callback(invoke_without_command=True)
def _version(
    version: Annotated[bool, typer.Option("--version", help="print the version and exit")] = False,
) -> None:
    if version:
        typer.echo(f"specplan {specplan_version()}")
        raise typer.Exit


@app.command()
def plan(
    scenario: ScenarioArgument = DEFAULT_SCENARIO,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="folder for the report's files")
    ] = None,
    replications: Annotated[
        int, typer.Option(min=2, max=1000, help="seeds and resamples behind every interval")
    ] = 20,
    as_json: JsonOption = False,
) -> None:
    """Compare off with every measured draft length, decide, and write the report."""
    from simcore.planner.plan import make_plan
    from simcore.report.text import plan_text
    from simcore.report.write import check_folder, write_report
    from simcore.scenario_files import open_scenario

    chosen = open_scenario(scenario)
    if output is not None:
        check_folder(output)
    with _progress("comparing candidates", "simulations") as advance:
        made = make_plan(chosen, num_replications=replications, progress=advance)
    files = write_report(made, output) if output is not None else []
    if as_json:
        _print_json(made.model_dump(mode="json") | {"files": [str(path) for path in files]})
        return
    typer.echo(plan_text(made))
    if files:
        typer.echo(f"\nWritten to {output}: {', '.join(path.name for path in files)}")


@app.command()
def simulate(
    scenario: ScenarioArgument = DEFAULT_SCENARIO,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="folder for requests.csv and steps.csv")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Run one scenario as it stands and summarise it."""
    from simcore.metrics.summary import summarise
    from simcore.report.text import summary_text
    from simcore.scenario_files import open_scenario
    from simcore.serving.simulation import simulate as run

    chosen = open_scenario(scenario)
    with _progress("simulating", "requests") as advance:
        result = run(chosen, progress=advance)
    summary = summarise(result)
    if output is not None:
        from simcore.report.records import write_records

        write_records(result, output)
    if as_json:
        _print_json(summary.model_dump(mode="json"))
    else:
        typer.echo(summary_text(summary))


@app.command()
def profiles(as_json: JsonOption = False) -> None:
    """List the bundled profiles and what each measured."""
    from simcore.profile.store import bundled_profiles, load_profile
    from simcore.report.text import profile_lines, profile_overview

    stored = [load_profile(name) for name in bundled_profiles()]
    if as_json:
        _print_json({"profiles": [profile_overview(each) for each in stored]})
    else:
        typer.echo("\n".join(line for each in stored for line in profile_lines(each)))


@app.command()
def scenarios(as_json: JsonOption = False) -> None:
    """List the bundled scenarios: the names that plan and simulate take."""
    from simcore.scenario_files import bundled_scenarios, open_scenario

    found = {name: open_scenario(name).profile for name in bundled_scenarios()}
    if as_json:
        _print_json({"scenarios": [{"name": k, "profile": v} for k, v in found.items()]})
    else:
        typer.echo("\n".join(f"{name} (profile {profile})" for name, profile in found.items()))


@app.command()
def bench(as_json: JsonOption = False) -> None:
    """Time the simulator on the standard workload (CPU seconds, compilation apart)."""
    from simcore.bench import bench_text, run_bench

    with _progress("timing", "runs") as advance:
        found = run_bench(advance)
    if as_json:
        _print_json(found)
    else:
        typer.echo(bench_text(found))


@app.command("app")
def dashboard(
    host: Annotated[str, typer.Option(help="address to listen on")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="port to listen on")] = 8501,
) -> None:
    """Serve the dashboard."""
    import os

    # The dashboard is another program: simcore must run where streamlit is not installed. It takes
    # this process's place, so that whoever stops the one stops the other.
    command = [sys.executable, "-m", "app", "--host", host, "--port", str(port)]
    os.execv(sys.executable, command)


def _print_json(value: dict[str, Any]) -> None:
    typer.echo(json.dumps(value, ensure_ascii=False, allow_nan=False))


@contextmanager
def _progress(what: str, unit: str) -> Iterator[Any]:
    """A progress bar on stderr where that is a terminal; says so while kernels compile."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    from rich.progress import TimeRemainingColumn as Remaining

    from simcore.serving.engine import needs_compilation

    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(unit),
        Remaining(),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal) as bars:
        text = f"compiling the step kernel (once, about 10 s), then {what}"
        task = bars.add_task(text if needs_compilation() else what, total=None)

        def advance(done: int, total: int) -> None:
            bars.update(task, completed=done, total=total, description=what)

        yield advance
