"""specplan capacity: the largest load within the SLO, and the fewest replicas for a load."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import ValidationError

from simcore.commands.progress import progress
from simcore.errors import ScenarioError
from simcore.validation import describe_validation_error

if TYPE_CHECKING:
    from simcore.planner.capacity_document import LoadCurve
    from simcore.planner.economics import GivenFigures
    from simcore.scenario import Scenario

DEFAULT_SCENARIO = "h100_chat"  # it states an SLO and how it speculates


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("capacity", help=capacity.__doc__)(capacity)


def capacity(
    scenario: Annotated[
        str, typer.Argument(help="a scenario file (YAML), or the name of a bundled scenario")
    ] = DEFAULT_SCENARIO,
    seeds: Annotated[
        int, typer.Option(min=2, max=1000, help="runs at every load; in doubt up to three times")
    ] = 5,
    proposer: Annotated[
        str | None, typer.Option(help="that speculates, in place of the scenario's")
    ] = None,
    num_speculative_tokens: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="its fixed draft length; default: the scenario's own "
            "speculation, or the best in closed form",
        ),
    ] = None,
    replicas_for: Annotated[
        float | None, typer.Option(help="also the fewest replicas for so many requests/s")
    ] = None,
    daily: Annotated[
        str | None,
        typer.Option(
            help="also replicas through a day: a CSV of hour or timestamp and rate_per_s, "
            "or 'example', whose peak is --replicas-for or the scenario's rate"
        ),
    ] = None,
    price_per_gpu_hour: Annotated[
        float | None, typer.Option(help="USD of one device; shown as given")
    ] = None,
    power_w: Annotated[
        float | None, typer.Option(help="of one device, busy or idle; shown as given")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="print one JSON object on stdout")
    ] = False,
) -> None:
    """The largest load within the SLO, without and with speculation, and what it costs."""
    from simcore.planner.capacity import find_capacity
    from simcore.planner.replicas import find_replicas
    from simcore.report.capacity_text import capacity_text, replicas_text
    from simcore.scenario_files import open_scenario

    chosen = open_scenario(scenario)
    demand = _demand(chosen, replicas_for, daily)  # before the search, which takes its time
    given = _given(price_per_gpu_hour, power_w)
    with progress("searching the capacity", "simulations") as advance:
        found = find_capacity(
            chosen,
            num_seeds=seeds,
            proposer=proposer,
            num_speculative_tokens=num_speculative_tokens,
            given=given,
            progress=advance,
        )
    fleets = None
    if demand is not None:
        with progress("counting replicas", "simulations") as advance:
            fleets = find_replicas(
                chosen,
                demand,
                num_seeds=seeds,
                proposer=proposer,
                num_speculative_tokens=num_speculative_tokens,
                given=given,
                one=found if chosen.deployment.replicas == 1 else None,
                progress=advance,
            )
    if as_json:
        document = found.model_dump(mode="json")
        document["replicas"] = None if fleets is None else fleets.model_dump(mode="json")
        typer.echo(json.dumps(document, ensure_ascii=False, allow_nan=False))
        return
    typer.echo(capacity_text(found))
    if fleets is not None:
        typer.echo(f"\n{replicas_text(fleets)}")


def _given(price_usd_per_hour: float | None, power_w: float | None) -> "GivenFigures":
    from simcore.planner.economics import GivenFigures

    try:
        return GivenFigures(price_usd_per_hour=price_usd_per_hour, power_w=power_w)
    except ValidationError as error:
        raise ScenarioError(describe_validation_error(error)) from None


def _demand(
    scenario: "Scenario", rate_per_s: float | None, daily: str | None
) -> "float | LoadCurve | None":
    """The rate or the day that replicas are counted for, checked; None: not asked for."""
    from simcore.planner.load_curve import EXAMPLE, example_curve, read_curve
    from simcore.planner.replicas import check_demand
    from simcore.workload.load import mean_rate_per_s

    demand: float | LoadCurve | None = rate_per_s
    if daily == EXAMPLE:
        peak_per_s = rate_per_s or mean_rate_per_s(scenario.workload)
        if peak_per_s is None:
            raise ScenarioError("the example day needs a peak; give it with --replicas-for")
        demand = example_curve(peak_per_s)
    elif daily is not None:
        if rate_per_s is not None:
            raise ScenarioError("--daily FILE states its rates; leave --replicas-for out")
        demand = read_curve(Path(daily))
    if demand is not None:
        check_demand(scenario, demand)
    return demand
