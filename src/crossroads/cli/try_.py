"""`crossroads try`: a dry-run of one filter over some events, before anybody subscribes with it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from crossroads.cli.console import (
    JsonOption,
    LateStatus,
    SchemaOption,
    examples,
    json_safe,
    print_json,
    print_table,
    read_schema,
    warn,
)
from crossroads.errors import EventError

if TYPE_CHECKING:
    from crossroads.pipeline.dryrun import DryRun

_EXAMPLES = examples(
    "crossroads try \"symbol = 'aapl' AND high >= 10\" --schema stocks.toml --events quotes.csv",
    'crossroads try "close > open" --schema stocks.toml --events quotes/ --limit 3 --json',
)


def register(app: typer.Typer) -> None:
    app.command("try", epilog=_EXAMPLES)(try_filter)


def try_filter(
    filter: Annotated[  # noqa: A002 (its name in the help)
        str, typer.Argument(metavar="FILTER", help="The filter, in quotes.")
    ],
    schema: SchemaOption,
    events: Annotated[
        Path, typer.Option("--events", help="CSV, JSON lines or Parquet: a file or a folder.")
    ],
    limit: Annotated[
        int, typer.Option("--limit", min=0, help="How many of the matching events to show.")
    ] = 10,
    as_json: JsonOption = False,
) -> None:
    """Show how many events a filter matches, the first ones, and what each predicate lets through.

    Every valid row counts; unlike a match, nothing is said about events that repeat an id.
    """
    known = read_schema(schema)
    from crossroads.model.parse import parse
    from crossroads.pipeline.dryrun import dry_run

    wanted = parse(filter, known)
    with LateStatus("reading events") as status:
        found = dry_run(
            wanted,
            known,
            events,
            examples=limit,
            progress=lambda rows: status.say(f"{rows:,} events read"),
        )
    if as_json:
        report = {"filter": filter, **asdict(found)}
        report["share"] = found.matched / found.events if found.events else None
        for example in report["examples"]:
            example["values"] = json_safe(example["values"])
        print_json(report)
    else:
        _print(found)
    if not found.events and found.rejected:
        raise EventError(
            f"{events} has no usable event",
            hint=f"{found.rejected:,} were rejected, the first because {found.rejects[0].reason}",
        )


def _print(found: DryRun) -> None:
    typer.echo(
        f"{found.matched:,} of {found.events:,} events match{_share(found.matched, found.events)}"
    )
    if found.rejected:
        typer.echo(f"{found.rejected:,} events were rejected, for example")
        for reject in found.rejects:
            typer.echo(f"  {reject.file}:{reject.line}: {reject.reason}")
    if len(found.predicates) > 1:
        _print_predicates(found)
    if found.examples:
        _print_examples(found)
    warn(*found.warnings)


def _print_predicates(found: DryRun) -> None:
    typer.echo()
    joined = any(each.without is not None for each in found.predicates)
    headings = ["predicate", "alone", "", *(["match without it"] if joined else [])]
    rows = [
        [
            each.text,
            f"{each.alone:,}",
            _share(each.alone, found.events).strip(" ()"),
            *(["" if each.without is None else f"{each.without:,}"] if joined else []),
        ]
        for each in found.predicates
    ]
    print_table(headings, rows, right=(1, 2, 3))


def _print_examples(found: DryRun) -> None:
    from crossroads.model.values import text_of

    typer.echo()
    names = list(found.examples[0].values)
    rows = [[each.id, *(text_of(each.values[name]) for name in names)] for each in found.examples]
    print_table(["event", *names], rows)
    more = found.matched - len(found.examples)
    if more:
        typer.echo(f"… and {more:,} more")


def _share(part: int, whole: int) -> str:
    """Few of many must not look like none, nor nearly all like all."""
    if not whole:
        return ""
    percent = 100 * part / whole
    if part and percent < 0.01:
        return " (under 0.01%)"
    if part < whole and percent > 99.99:
        return " (over 99.99%)"
    return f" ({percent:.2f}%)" if percent < 10 or percent > 99 else f" ({percent:.1f}%)"
