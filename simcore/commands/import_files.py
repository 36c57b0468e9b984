"""specplan import: what engines and load generators already measured, into a profile."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from pydantic import ValidationError

from simcore.errors import EngineFileError, ProfileError
from simcore.validation import describe_validation_error

if TYPE_CHECKING:
    from simcore.profile.importers import ImportOptions
    from simcore.profile.schema import Identity

ProposerKind = Literal["ngram", "suffix", "lookahead", "layer_skip", "draft_model", "eagle"]
TraceCounts = Literal["accepted", "emitted"]
TracePer = Literal["position", "cycle"]


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("import", help=import_command.__doc__)(import_command)


def _list_kinds(wanted: bool) -> None:
    if not wanted:
        return
    from simcore.profile.importers import IMPORTERS

    for kind, each in IMPORTERS.items():
        typer.echo(f"{kind} ({each.written_for}): {each.gives}")
    raise typer.Exit


def import_command(
    kind: Annotated[str, typer.Argument(help="auto, or a kind of docs/reference/importers.md")],
    files: Annotated[list[Path], typer.Argument(help="the files; scrapes oldest first")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="folder of the profile to write")
    ] = None,
    into: Annotated[
        str | None, typer.Option(help="a profile to merge into, by name or folder; not changed")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="show, and write nothing")] = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="take the place of a record that is there")
    ] = False,
    identity: Annotated[
        Path | None,
        typer.Option(help="the profile's identity as JSON (docs/reference/profile-format.md)"),
    ] = None,
    domain: Annotated[str, typer.Option(help="what the requests were about")] = "all",
    proposer: Annotated[
        str | None, typer.Option(help="who drafted, as the profile names it")
    ] = None,
    proposer_kind: Annotated[ProposerKind | None, typer.Option(help="of a new proposer")] = None,
    gamma: Annotated[int | None, typer.Option(help="drafts asked for in every cycle")] = None,
    temperature: Annotated[float | None, typer.Option(help="of sampling; 0: greedy")] = None,
    top_k: Annotated[int, typer.Option(help="0: all tokens")] = 0,
    top_p: Annotated[float, typer.Option(help="1: all tokens")] = 1.0,
    target: Annotated[str | None, typer.Option(help="the target model's name")] = None,
    target_revision: Annotated[str | None, typer.Option(help="of its weights")] = None,
    target_dtype: Annotated[str | None, typer.Option(help="numbers that it computes in")] = None,
    target_quantization: Annotated[str | None, typer.Option(help="of its stored weights")] = None,
    draft: Annotated[str | None, typer.Option(help="the draft model's name")] = None,
    draft_revision: Annotated[str | None, typer.Option(help="of its weights")] = None,
    draft_dtype: Annotated[str | None, typer.Option(help="numbers that it computes in")] = None,
    draft_quantization: Annotated[str | None, typer.Option(help="of its stored weights")] = None,
    engine_version: Annotated[str | None, typer.Option(help="of the program that counted")] = None,
    num_requests: Annotated[
        int | None,
        typer.Option("--requests", help="that counters are of, where the engine counts none"),
    ] = None,
    context: Annotated[
        tuple[int, int] | None, typer.Option(help="tokens that the context lay between")
    ] = None,
    column: Annotated[str | None, typer.Option(help="of a trace: the list to read")] = None,
    counts: Annotated[TraceCounts | None, typer.Option(help="of a trace: what it counts")] = None,
    per: Annotated[TracePer | None, typer.Option(help="of a trace: one entry a ..")] = None,
    proposed: Annotated[str | None, typer.Option(help="of a trace: the list of drafts")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="print one JSON object on stdout")
    ] = False,
    kinds: Annotated[
        bool,
        typer.Option(
            "--kinds", help="list the kinds and exit", is_eager=True, callback=_list_kinds
        ),
    ] = False,
) -> None:
    """Read what an engine or a load generator measured, and keep it as a profile."""
    del kinds  # its callback has listed them and ended
    said = {
        "domain": domain,
        "proposer": proposer,
        "proposer_kind": proposer_kind,
        "gamma": gamma,
        "sampling": _sampling(temperature, top_k, top_p),
        "target": target,
        "target_revision": target_revision,
        "target_dtype": target_dtype,
        "target_quantization": target_quantization,
        "draft": draft,
        "draft_revision": draft_revision,
        "draft_dtype": draft_dtype,
        "draft_quantization": draft_quantization,
        "engine_version": engine_version,
        "num_requests": num_requests,
        "context_tokens": context,
        "column": column,
        "accepted_or_emitted": counts,
        "per": per,
        "proposed_column": proposed,
    }
    if (output is None) != dry_run:
        raise EngineFileError(
            "say where to write the profile with --output, or --dry-run to write nothing"
        )
    from simcore.profile.import_profile import checked_options

    _run(kind, files, checked_options(said), output, into, identity, replace, as_json)


def _run(
    kind: str,
    paths: list[Path],
    options: "ImportOptions",
    output: Path | None,
    into: str | None,
    identity: Path | None,
    replace: bool,
    as_json: bool,
) -> None:
    from datetime import UTC, datetime

    from simcore.profile.import_profile import profile_name, with_known_kind
    from simcore.profile.import_summary import describe_reading, missing_to_plan, summary_lines
    from simcore.profile.importers import open_files, read_files
    from simcore.profile.merge import merge, write_merge

    files = open_files(paths)
    options = with_known_kind(options, into)
    kind, reading = read_files(kind, files, options)
    described = describe_reading(kind, reading)
    merged = None
    if output is not None:
        merged = merge(
            reading,
            options,
            name=profile_name(output),
            date=datetime.now(UTC).date().isoformat(),
            files=tuple(file.name for file in files),
            into=into,
            identity=_identity(identity),
            replace_records=replace,
        )
        write_merge(merged, output)
        described["notes"] += merged.notes
    missing = missing_to_plan(reading, merged.profile if merged else None)
    if as_json:
        written = None if output is None else str(output)
        typer.echo(
            json.dumps(described | {"missing": missing, "written": written}, ensure_ascii=False)
        )
        return
    typer.echo("\n".join(summary_lines(described, missing)))
    if output is not None:
        typer.echo(f"Written to {output}")


def _sampling(temperature: float | None, top_k: int, top_p: float) -> dict[str, Any] | None:
    if temperature is None:
        return None
    return {"temperature": temperature, "top_k": top_k, "top_p": top_p}


def _identity(path: Path | None) -> "Identity | None":
    from simcore.profile.schema import Identity

    if path is None:
        return None
    try:
        return Identity.model_validate_json(path.read_bytes())
    except OSError as error:
        raise ProfileError(f"cannot read {path}: {error.strerror}; expected an identity") from None
    except ValidationError as error:
        raise ProfileError(f"{path}: {describe_validation_error(error)}") from None
