"""specplan schema: the published JSON schema of a document."""

import json
from typing import Annotated, Literal

import typer


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("schema", help=schema.__doc__)(schema)


def schema(
    document: Annotated[
        Literal["plan", "scenario", "profile"], typer.Argument(help="what the schema is of")
    ],
) -> None:
    """Print the JSON schema of plan.json, of a scenario, or of a profile.json."""
    from simcore.planner.published_schema import published_schema

    typer.echo(json.dumps(published_schema(document), indent=1, ensure_ascii=False))
