"""`crossroads schema infer`: a first schema from a file, to be corrected by a person."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    schema = typer.Typer(no_args_is_help=True, help="Make schemas.")
    schema.callback()(_keep_as_group)
    schema.command("infer")(infer)
    app.add_typer(schema, name="schema")


def _keep_as_group() -> None:
    """Make schemas."""
    # typer would drop the word `infer` from a group of one command


def infer(
    file: Annotated[
        Path, typer.Argument(help="CSV, JSON lines or Parquet (a folder of them works too).")
    ],
    id: Annotated[  # noqa: A002
        str | None,
        typer.Option("--id", help="The attributes that identify an event: date,symbol"),
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", help="Name of the schema; by default the file's.")
    ] = None,
) -> None:
    """Print a TOML schema for the events of FILE, with remarks on what is uncertain."""
    from crossroads.model.infer import infer as infer_schema
    from crossroads.pipeline.sampling import read_sample

    sample = read_sample(file)
    asked = [part.strip() for part in id.split(",") if part.strip()] if id else []
    inferred = infer_schema(
        sample.columns,
        sample.count,
        name=name or file.name.split(".")[0] or "events",
        typed=sample.typed,
        id=asked,
    )
    typer.echo(inferred.to_toml(), nl=False)
