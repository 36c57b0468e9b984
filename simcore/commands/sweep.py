"""specplan sweep: simulate a space of services and say which is best under each load."""

import json
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from simcore.errors import ScenarioError

if TYPE_CHECKING:
    from simcore.planner.sweep_space import SweepSpace

INTERRUPTED_EXIT_CODE = 130
RANGE_PARTS = {2: ("from", "to"), 3: ("from", "to", "num"), 4: ("from", "to", "num", "scale")}
TREE_CHOICES = {"best": False, "optimal": True}  # of a budget; for the load


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command()(sweep)


def sweep(
    scenario: Annotated[
        str, typer.Argument(help="a scenario or sweep file (YAML), or a bundled scenario's name")
    ] = "cpu_chat",
    gamma: Annotated[
        str | None, typer.Option(help="draft lengths: 0:8 (each from 0 to 8), or 0,2,4; 0 is off")
    ] = None,
    rate: Annotated[
        str | None,
        typer.Option(help="requests/s: 1:20:10 (10 values), 1:20:10:log, or 1,2,5"),
    ] = None,
    proposer: Annotated[str | None, typer.Option(help="proposers with commas")] = None,
    policy: Annotated[str | None, typer.Option(help="policies with commas: fixed,goodput")] = None,
    tree: Annotated[
        str | None,
        typer.Option(help="chain, WxD, best:NODES:DEPTH, optimal:NODES:DEPTH; with commas"),
    ] = None,
    axis: Annotated[
        list[str] | None,
        typer.Option("--set", help="any field: deployment.max_num_seqs=16,32; repeatable"),
    ] = None,
    adaptive: Annotated[
        bool, typer.Option("--adaptive", help="estimate first, then race for the best")
    ] = False,
    objective: Annotated[
        str | None, typer.Option(help="column that tells the best; default: e2e_mean_s")
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(min=1, max=1000, help="runs of each; default 3; adaptive: at most")
    ] = None,
    requests: Annotated[int | None, typer.Option(min=1, help="requests of each run")] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="processes; default: one a core")] = None,
    dask: Annotated[
        str | None, typer.Option(help="address of a running Dask scheduler: tcp://host:8786")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="folder for the tables and the store of runs"),
    ] = None,
    store: Annotated[
        Path | None, typer.Option(help="file that keeps the runs; default: OUTPUT/runs.duckdb")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="print one JSON object on stdout")
    ] = False,
) -> None:
    """Simulate many services under many loads; go on where an earlier sweep stopped."""
    from simcore.commands.progress import progress
    from simcore.planner.sweep import sweep as run
    from simcore.report.plain import visible
    from simcore.report.sweep_text import sweep_text
    from simcore.report.sweep_write import STORE_FILE, check_sweep_folder, write_sweep

    changes: dict[str, Any] = {"objective": objective, "seeds": seeds}
    changes |= {"method": "adaptive"} if adaptive else {}
    axes = _axes(gamma, rate, proposer, policy, tree, axis or [])
    space = _space(scenario, axes, changes, requests)
    if output is not None:
        check_sweep_folder(output)
        store = store or output / STORE_FILE
    if dask is not None:  # a lost cluster is told in one sentence, by an error of ours
        logging.getLogger("distributed.client").setLevel(logging.CRITICAL)
    counts = (0, 0)

    def tell(done: int, total: int) -> None:
        nonlocal counts
        counts = done, total
        advance(done, total)

    try:
        with progress("simulating configurations", "runs") as advance:
            found = run(space, store=store, jobs=jobs, dask=dask, progress=tell)
    except KeyboardInterrupt:
        typer.echo(f"specplan: {_stopped(counts, store)}", err=True)
        raise typer.Exit(INTERRUPTED_EXIT_CODE) from None
    files = write_sweep(found, output) if output is not None else []
    if as_json:
        raw = found.as_json() | {"files": [str(path) for path in files]}
        typer.echo(json.dumps(raw, ensure_ascii=False, allow_nan=False))
        return
    typer.echo(visible(sweep_text(found)))
    if files:
        typer.echo(f"\nWritten to {output}: {', '.join(path.name for path in files)}")


def _stopped(counts: tuple[int, int], store: Path | None) -> str:
    done, total = counts
    kept = (
        f"they are kept in {store}, and the same command goes on from there"
        if store is not None
        else "nothing is kept without --output or --store"
    )
    return f"stopped with {done:,} of {total:,} runs done; {kept}"


def _space(
    name: str, axes: dict[str, Any], changes: dict[str, Any], requests: int | None
) -> "SweepSpace":
    """The sweep file with the options in place of its own fields, or a scenario with axes."""
    from simcore.planner.sweep_space import parse_sweep
    from simcore.scenario import read_yaml
    from simcore.scenario_files import bundled_scenarios, open_scenario

    path, raw, folder = Path(name), dict[str, Any](), Path()
    if name not in bundled_scenarios() and path.is_file():
        content = read_yaml(path, "a scenario or a sweep")
        if isinstance(content, dict) and "axes" in content:
            raw, folder = content, path.parent
    if not raw:
        raw = {"scenario": open_scenario(name), "axes": {}}
        if not axes:
            raise ScenarioError(
                "nothing to vary; give --gamma, --rate, --proposer, --policy, --tree, --set, or a "
                "sweep file with axes"
            )
    raw = raw | {key: value for key, value in changes.items() if value is not None}
    if isinstance(raw["axes"], dict):
        raw["axes"] = raw["axes"] | axes
    space = parse_sweep(raw, name, folder)
    if requests is None:
        return space
    fewer = space.scenario.with_(**{"workload.num_requests": requests})
    return space.model_copy(update={"scenario": fewer})


def _axes(
    gamma: str | None,
    rate: str | None,
    proposer: str | None,
    policy: str | None,
    tree: str | None,
    others: list[str],
) -> dict[str, Any]:
    """Axes of the options, in the order in which tables are best read."""
    from simcore.planner.sweep_grid import GAMMA, POLICY, PROPOSER
    from simcore.planner.sweep_space import LOAD, TREE

    found: dict[str, Any] = {}
    if rate is not None:
        found[LOAD] = _numbers("--rate", rate)
    if proposer is not None:
        found[PROPOSER] = proposer.split(",")
    if gamma is not None:
        found[GAMMA] = _numbers("--gamma", gamma)
    if tree is not None:
        found[TREE] = [_tree(each) for each in tree.split(",")]
    if policy is not None:
        found[POLICY] = policy.split(",")
    for each in others:
        name, equals, text = each.partition("=")
        if not equals:
            raise ScenarioError(f"--set {each!r}; expected FIELD=VALUE,VALUE")
        found[name] = _values(each, text)
    return found


def _values(option: str, text: str) -> list[Any]:
    """YAML values with commas, or a list of them in brackets."""
    import yaml

    try:
        found: list[Any] = yaml.safe_load(text if text.startswith("[") else f"[{text}]")
    except yaml.YAMLError:
        raise ScenarioError(
            f"--set {option!r}; expected values with commas, or a YAML list"
        ) from None
    return found


def _numbers(option: str, text: str) -> Any:
    """`a,b,c`, or `from:to[:num[:log]]`; without num every whole number between."""
    try:
        if ":" not in text:
            return [_number(each) for each in text.split(",")]
        parts = text.split(":")
        span: dict[str, Any] = dict(zip(RANGE_PARTS[len(parts)], parts, strict=True))
        ends = [_number(span["from"]), _number(span["to"])]
        if "num" not in span:
            return _whole_numbers(option, int(span["from"]), int(span["to"]))
        return span | {"from": ends[0], "to": ends[1], "num": int(span["num"])}
    except (KeyError, ValueError):
        raise ScenarioError(
            f"{option} {text!r}; expected values with commas (1,2,5) or FROM:TO[:NUM[:log]]"
        ) from None


def _whole_numbers(option: str, first: int, last: int) -> list[int]:
    if last < first:
        raise ScenarioError(
            f"{option} {first}:{last}; expected rising ends, as {last}:{first} for each number "
            "between"
        )
    return list(range(first, last + 1))


def _number(text: str) -> int | float:
    return int(text) if text.strip().lstrip("-").isdecimal() else float(text)


def _tree(text: str) -> Any:
    kind, *numbers = text.split(":")
    if kind not in TREE_CHOICES:
        return text
    try:
        nodes, depth = map(int, numbers)
    except ValueError:
        raise ScenarioError(
            f"--tree {text!r}; expected {kind}:NODES:DEPTH, as {kind}:16:5"
        ) from None
    return {"nodes": nodes, "depth": depth, "optimal": TREE_CHOICES[kind]}
