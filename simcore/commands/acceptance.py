"""`specplan acceptance`: look at recorded acceptance, fit models to it, compare two recordings."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from simcore.commands.progress import progress
from simcore.errors import AcceptanceError

if TYPE_CHECKING:
    from simcore.acceptance.lists import AcceptanceLists

USUAL_GAMMAS = (1, 3, 5, 7)

commands = typer.Typer(help="Recorded acceptance: show, fit, drift.", no_args_is_help=True)

FileArgument = Annotated[
    Path,
    typer.Argument(help="Parquet, JSON lines or JSON, one row a request; or a profile's folder"),
]
ColumnOption = Annotated[str | None, typer.Option(help="column of lists, one list a request")]
CountsOption = Annotated[
    Literal["accepted", "emitted"] | None,
    typer.Option(help="what the lists count: accepted drafts, or emitted tokens (one more)"),
]
PerOption = Annotated[
    Literal["position", "cycle"] | None,
    typer.Option(help="one entry an output position, or one a cycle as it ran"),
]
ProposedOption = Annotated[
    str | None, typer.Option(help="column of lists: drafts that the proposer had")
]
RecordOption = Annotated[int | None, typer.Option(help="record of a profile")]
StartOption = Annotated[
    int, typer.Option(min=0, help="first output position of the walk; the simulator's is 1")
]
GammasOption = Annotated[
    str | None,
    typer.Option(help="draft lengths, comma-separated; default: 1,3,5,7, or those of the cycles"),
]
RunawayOption = Annotated[
    int, typer.Option(min=1, help="outputs of at least so many tokens are runaways")
]
JsonOption = Annotated[bool, typer.Option("--json", help="print one JSON object on stdout")]


@commands.command()
def show(
    file: FileArgument,
    column: ColumnOption = None,
    counts: CountsOption = None,
    per: PerOption = None,
    proposed: ProposedOption = None,
    record: RecordOption = None,
    start: StartOption = 0,
    gammas: GammasOption = None,
    as_json: JsonOption = False,
) -> None:
    """Tokens a cycle, survival, memory and spread between requests, at each draft length."""
    from simcore.acceptance.statistics import summarise_cycles
    from simcore.report.acceptance_text import statistics_text

    lists = _read(file, column=column, counts=counts, per=per, proposed=proposed, record=record)
    found = {
        gamma: summarise_cycles(lists.cycles(gamma, start=start))
        for gamma in _gammas(gammas, lists.gammas())
    }
    if as_json:
        by_gamma = {str(gamma): each.model_dump(mode="json") for gamma, each in found.items()}
        _print_json({"gammas": by_gamma, "num_requests": lists.num_requests})
    else:
        typer.echo(statistics_text(found, lists.num_requests))


@commands.command()
def fit(
    train: FileArgument,
    gamma: Annotated[int, typer.Option(min=1, help="the draft length to fit at")],
    test: Annotated[
        Path | None, typer.Option(help="file to predict; it has the same columns")
    ] = None,
    column: ColumnOption = None,
    counts: CountsOption = None,
    per: PerOption = None,
    proposed: ProposedOption = None,
    record: RecordOption = None,
    start: StartOption = 0,
    gammas: GammasOption = None,
    runaway_tokens: RunawayOption = 8_000,
    resamples: Annotated[
        int, typer.Option(min=0, max=1000, help="refits behind the intervals; 0: none")
    ] = 20,
    as_json: JsonOption = False,
) -> None:
    """Fit every model at one draft length and say what it gets wrong about other requests."""
    from simcore.acceptance.comparison import compare_models
    from simcore.report.acceptance_text import comparison_text

    def read(path: Path) -> "AcceptanceLists":
        return _read(path, column=column, counts=counts, per=per, proposed=proposed, record=record)

    requests, others = read(train), None if test is None else read(test)
    with progress("fitting", "fits", compiles=False) as advance:
        found = compare_models(
            requests,
            others,
            gamma,
            _gammas(gammas, None if others is None else others.gammas()),
            start=start,
            runaway_tokens=runaway_tokens,
            num_resamples=resamples,
            progress=advance,
        )
    if as_json:
        _print_json(found.model_dump(mode="json"))
    else:
        typer.echo(comparison_text(found))


@commands.command()
def drift(
    first: FileArgument,
    second: FileArgument,
    column: ColumnOption = None,
    counts: CountsOption = None,
    per: PerOption = None,
    proposed: ProposedOption = None,
    record: RecordOption = None,
    start: StartOption = 0,
    gammas: GammasOption = None,
    second_record: Annotated[
        int | None, typer.Option(help="record of the second trace table; default: as --record")
    ] = None,
    draft_cost: Annotated[
        float,
        typer.Option(min=0.0, help="drafting and verifying one token more, in plain decode steps"),
    ] = 0.05,
    runaway_tokens: RunawayOption = 8_000,
    as_json: JsonOption = False,
) -> None:
    """Which positions moved from the first recording to the second, and the best draft length."""
    from simcore.acceptance.drift import compare_recordings
    from simcore.report.acceptance_text import drift_text

    a, b = (
        _read(path, column=column, counts=counts, per=per, proposed=proposed, record=chosen)
        for path, chosen in (
            (first, record),
            (second, record if second_record is None else second_record),
        )
    )
    found = compare_recordings(
        a,
        b,
        _gammas(gammas, _shared(a.gammas(), b.gammas())),
        draft_cost=draft_cost,
        start=start,
        runaway_tokens=runaway_tokens,
    )
    if as_json:
        _print_json(found.model_dump(mode="json"))
    else:
        typer.echo(drift_text(found))


def _read(path: Path, *, record: int | None, **options: Any) -> "AcceptanceLists":
    """Lists of a file, or of one record of a profile or import folder."""
    if path.is_dir():
        from simcore.recorded_lists import lists_of_record

        return lists_of_record(path, record)
    from simcore.acceptance.reading import read_lists

    return read_lists(path, record=record, **options)


def _gammas(text: str | None, own: Sequence[int] | None) -> list[int]:
    """The draft lengths asked for; left open, those that cycles ran at, or the usual ones."""
    if text is None:
        return list(own or USUAL_GAMMAS)
    try:
        return sorted({int(part) for part in text.split(",")})
    except ValueError:
        raise AcceptanceError(
            f"--gammas {text!r}; expected draft lengths with commas between, as in 1,3,5,7"
        ) from None


def _shared(a: Sequence[int] | None, b: Sequence[int] | None) -> Sequence[int] | None:
    """Draft lengths that two recordings answer at; None: any."""
    if a is None or b is None:
        return b if a is None else a
    return sorted(set(a) & set(b))


def _print_json(value: dict[str, Any]) -> None:
    typer.echo(json.dumps(value, ensure_ascii=False, allow_nan=False))
