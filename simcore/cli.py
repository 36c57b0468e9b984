"""The command line: plan, simulate, compare, diff, acceptance, tree, import and more.

Results go to stdout, progress and errors to stderr. `--json` prints one JSON object and nothing
else on stdout. Bad input is one sentence and exit code 2.
"""

import json
import sys
from contextlib import nullcontext
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from simcore.commands import (
    acceptance,
    capacity,
    crossover,
    diff,
    estimate,
    import_files,
    schema,
    sensitivity,
    settings,
    sweep,
    tree,
)
from simcore.commands.progress import progress
from simcore.errors import ScenarioError, SpecplanError
from simcore.report.plain import visible
from simcore.version import specplan_version

if TYPE_CHECKING:
    from simcore.scenario import Scenario

BAD_INPUT_EXIT_CODE = 2
MOST_OF_A_NAME = 80  # characters, in an error
DEFAULT_SCENARIO = "cpu_chat"

app = typer.Typer(
    name="specplan",
    help="Capacity planning for speculative decoding.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
app.add_typer(acceptance.commands, name="acceptance")
app.add_typer(tree.commands, name="tree")

capacity.register(app)
crossover.register(app)
diff.register(app)
estimate.register(app)
import_files.register(app)
schema.register(app)
sensitivity.register(app)
settings.register(app)
sweep.register(app)

ScenarioArgument = Annotated[
    str,
    typer.Argument(help="a scenario file (YAML), or the name of a bundled scenario"),
]
JsonOption = Annotated[bool, typer.Option("--json", help="print one JSON object on stdout")]


class EqualLoad(StrEnum):
    """What a comparison holds equal."""

    OFFERED = "offered"
    ADMITTED = "admitted"


def main() -> None:
    """Run the command line; errors that specplan raises on purpose end with exit code 2."""
    try:
        app()
    except SpecplanError as error:
        sys.stderr.write(f"specplan: {visible(str(error))}\n")
        sys.exit(BAD_INPUT_EXIT_CODE)
    except OSError as error:  # such as a name that is too long for the file system
        if error.filename is None:
            raise
        name = visible(str(error.filename))[:MOST_OF_A_NAME]
        sys.stderr.write(f"specplan: {name}: {error.strerror}; expected another file or folder\n")
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
    quick: Annotated[
        bool, typer.Option("--quick", help="fixed draft lengths only: no policies, no regret")
    ] = False,
    capacity: Annotated[
        bool, typer.Option("--capacity", help="also the largest load within the SLO, off and on")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Compare off, draft lengths and policies, recommend one, and write the report."""
    from simcore.planner.plan import make_plan
    from simcore.report.text import plan_text
    from simcore.report.write import check_folder, write_report
    from simcore.scenario_files import open_scenario

    chosen = open_scenario(scenario)
    if output is not None:
        check_folder(output)
    with progress("comparing candidates", "simulations") as advance:
        made = make_plan(
            chosen,
            num_replications=replications,
            with_policies=not quick,
            with_capacity=capacity,
            progress=advance,
        )
    files = write_report(made, output) if output is not None else []
    if as_json:
        _print_json(made.model_dump(mode="json") | {"files": [str(path) for path in files]})
        return
    typer.echo(visible(plan_text(made)))
    if files:
        typer.echo(f"\nWritten to {output}: {', '.join(path.name for path in files)}")


@app.command()
def simulate(
    scenario: ScenarioArgument = DEFAULT_SCENARIO,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="folder for requests.csv, steps.csv, policy_changes.csv; with several seeds, one "
            "sub-folder each",
        ),
    ] = None,
    seeds: Annotated[
        int, typer.Option(min=1, max=1000, help="runs, under the scenario's seed and the next ones")
    ] = 1,
    cycles: Annotated[
        bool, typer.Option("--cycles", help="also write cycles.csv, every cycle of every request")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Run one scenario as it stands and summarise it; over several seeds, with intervals."""
    if cycles and (output is None or seeds > 1):
        raise ScenarioError("--cycles writes cycles.csv of one run; give --output, and one seed")
    if seeds > 1:
        _simulate_seeds(scenario, output, seeds, as_json)
        return
    from simcore.metrics.summary import summarise
    from simcore.report.text import summary_text
    from simcore.scenario_files import open_scenario
    from simcore.serving.simulation import simulate as run

    if output is not None:
        from simcore.report.records import check_records_folder

        check_records_folder(output)  # before the run, which may be long
    chosen = open_scenario(scenario)
    with progress("simulating", "requests") as advance:
        result = run(chosen, progress=advance, record_cycles=cycles)
    summary = summarise(result)
    if output is not None:
        from simcore.report.records import write_records

        write_records(result, output)
    if as_json:
        _print_json(summary.model_dump(mode="json"))
    else:
        typer.echo(visible(summary_text(summary)))


def _simulate_seeds(scenario: str, output: Path | None, seeds: int, as_json: bool) -> None:
    from simcore.metrics.replicated import simulate_seeds
    from simcore.report.records import seed_folders
    from simcore.report.replicated_text import replicated_text
    from simcore.scenario_files import open_scenario

    chosen = open_scenario(scenario)
    with (
        seed_folders(output) if output is not None else nullcontext() as keep,
        progress(f"simulating {seeds} seeds", "requests") as advance,
    ):
        found = simulate_seeds(chosen, seeds, progress=advance, on_result=keep)
    if as_json:
        _print_json(found.model_dump(mode="json"))
        return
    typer.echo(visible(replicated_text(found)))
    if output is not None:
        names = ", ".join(f"seed_{seed}" for seed in found.seeds)
        typer.echo(f"\nWritten to {output}, the records of one seed each: {names}")


@app.command()
def compare(
    scenarios: Annotated[
        list[str], typer.Argument(help="scenario files or names; the first is the reference")
    ],
    proposer: Annotated[
        list[str] | None, typer.Option(help="with --gammas: in place of the scenario's; repeatable")
    ] = None,
    gammas: Annotated[
        str | None, typer.Option(help="one scenario at these draft lengths, 0 is off: 0,2,4")
    ] = None,
    at: Annotated[
        EqualLoad, typer.Option(help="what is equal: the offered load, or the rate admitted")
    ] = EqualLoad.OFFERED,
    rate: Annotated[
        float | None, typer.Option(help="requests/s; default: the workload's, or the lowest served")
    ] = None,
    seeds: Annotated[int, typer.Option(min=2, max=1000, help="runs of each, paired by seed")] = 10,
    as_json: JsonOption = False,
) -> None:
    """Compare services under the same requests, at equal offered load or admitted rate."""
    from simcore.planner.compare import compare as run
    from simcore.report.comparison_text import comparison_text

    chosen = _compared(scenarios, tuple(proposer or ()), gammas)
    with progress(f"comparing {len(chosen)} services", "simulations") as advance:
        found = run(chosen, at=at.value, rate_per_s=rate, num_seeds=seeds, progress=advance)
    if as_json:
        _print_json(found.model_dump(mode="json"))
    else:
        typer.echo(visible(comparison_text(found)))


def _compared(
    names: list[str], proposers: tuple[str, ...], gammas: str | None
) -> "dict[str, Scenario]":
    """Label -> scenario: one a file, or one a draft length."""
    from simcore.planner.compare import draft_lengths
    from simcore.scenario_files import open_scenario

    opened = [open_scenario(name) for name in names]
    if gammas is None:
        if proposers:
            raise ScenarioError(
                "--proposer goes with --gammas; give it the draft lengths, as 0,2,4"
            )
        given = [each.name for each in opened]
        unique = len(set(given)) == len(given)
        numbered = [f"{number}: {name}" for number, name in enumerate(given, start=1)]
        return dict(zip(given if unique else numbered, opened, strict=True))
    if len(opened) > 1:
        raise ScenarioError(f"--gammas varies one scenario; got {len(opened)}")
    parts = gammas.split(",")
    if not all(part.strip().isdecimal() for part in parts):
        raise ScenarioError(f"--gammas {gammas!r}; expected draft lengths with commas, as 0,2,4")
    return draft_lengths(opened[0], proposers, tuple(int(part) for part in parts))


@app.command()
def profiles(as_json: JsonOption = False) -> None:
    """List the bundled profiles and what each measured."""
    from simcore.profile.store import bundled_profiles, load_profile
    from simcore.report.text import profile_lines, profile_overview

    stored = [load_profile(name) for name in bundled_profiles()]
    if as_json:
        _print_json({"profiles": [profile_overview(each) for each in stored]})
    else:
        lines = [line for each in stored for line in profile_lines(each)]
        typer.echo(visible("\n".join(lines)))


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

    with progress("timing", "runs") as advance:
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
