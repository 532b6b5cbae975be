"""`crossroads advise`: which plan and mapping for this data, what each would cost, and why."""

from __future__ import annotations

from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import crossroads
from crossroads.cli.console import (
    JsonOption,
    LateStatus,
    SchemaOption,
    examples,
    print_json,
    print_table,
    read_schema,
    write_page,
)
from crossroads.errors import UsageError

if TYPE_CHECKING:
    from crossroads.pipeline.advice import Advice
    from crossroads.pipeline.advicepage import Origin

PAGE = Path("advice.html")
TABLE_WIDTH = 132  # a line of the table stays a line, also in a file or a narrow window

_EXAMPLES = examples(
    "crossroads advise --schema stocks.toml --subscriptions subscriptions.parquet "
    "--events quotes.parquet",
    "crossroads advise … --cores 64 --memory 16 --cluster    [dim]for machines elsewhere[/dim]",
    "crossroads advise … --json    [dim]for programs; a page only if --output is given[/dim]",
)


def register(app: typer.Typer) -> None:
    app.command(epilog=_EXAMPLES)(advise)


def advise(
    schema: SchemaOption,
    subscriptions: Annotated[
        Path,
        typer.Option("--subscriptions", help="File or folder with columns id, subscriber, filter."),
    ],
    events: Annotated[
        Path,
        typer.Option(
            "--events", help="File or folder: CSV, JSON lines (also with .gz) or Parquet."
        ),
    ],
    cores: Annotated[
        int | None,
        typer.Option("--cores", min=1, help="Cores that will work; default: this machine's."),
    ] = None,
    memory: Annotated[
        float | None,
        typer.Option(
            "--memory",
            help="GiB that one machine can spare for an index; by default half of what is free.",
        ),
    ] = None,
    cluster: Annotated[
        bool, typer.Option("--cluster", help="For workers who do not see these paths.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option("--output", help=f"Where to write the page; default: {PAGE}.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Foresee the cost of every plan and mapping from a sample, and recommend one; with a page.

    Nothing is matched, and Spark is not started.
    """
    if memory is not None and not 0 < memory < inf:
        raise UsageError(f"--memory must be a number above 0, not {memory:g}")
    known = read_schema(schema)
    page = output if output is not None or as_json else PAGE
    from crossroads.pipeline import advice as advising
    from crossroads.pipeline.machine import spare_memory, usable_cores

    spare = spare_memory() if memory is None else int(memory * 2**30)
    with LateStatus("looking at both sides") as status:
        found = advising.advise(
            known,
            subscriptions,
            events,
            cores=cores or usable_cores(),
            memory=spare,
            local=not cluster,
            say=status.say,
        )
    origin = _origin(schema, subscriptions, events)
    if page is not None:
        from crossroads.pipeline.advicepage import advice_page

        write_page(page, advice_page(found, origin), "--output")
    if as_json:
        print_json(_report(found, origin, page))
    else:
        _print(found)
        typer.echo(f"\nThe page with charts: {page}")


def _origin(schema: Path, subscriptions: Path, events: Path) -> Origin:
    from datetime import UTC, datetime

    from crossroads.pipeline.advicepage import Origin

    today = datetime.now(UTC).date().isoformat()
    paths = str(schema), str(subscriptions), str(events)
    return Origin(crossroads.__version__, today, *paths)


def _report(found: Advice, origin: Origin, page: Path | None) -> dict[str, Any]:
    return {
        "version": origin.version,
        "made": origin.made,
        "inputs": {
            "schema": origin.schema,
            "subscriptions": origin.subscriptions,
            "events": origin.events,
        },
        "page": None if page is None else str(page),
        **found.to_json(),
    }


# -- for people ------------------------------------------------------------------------------------

_HEADINGS = (
    "plan and mapping", "cells", "cells/sub", "cells/event", "candidates", "skew", "shuffled",
    "index", "predicted",
)  # fmt: skip


def _print(found: Advice) -> None:
    from crossroads.pipeline.advicepage import WARM, estimate_texts, sampled_text, side_text

    here = found.situation
    typer.echo(f"subscriptions: {side_text(here.subscriptions)}")
    typer.echo(f"events: {side_text(here.events)}")
    typer.echo(f"sampled: {sampled_text(found)}\n")
    rows = [estimate_texts(one) for one in found.estimates]
    print_table(_HEADINGS, rows, right=range(1, len(_HEADINGS)), width=TABLE_WIDTH)
    typer.echo(f"\n{WARM}")
    refused = [f"{one.name}: {one.refused}" for one in found.estimates if one.refused]
    if refused:
        typer.echo("\nOut of the question:")
        for line in refused:
            typer.echo(f"  {line}")
    if found.notes:
        typer.echo("\nFitted to the data:")
        for line in found.notes:
            typer.echo(f"  {line}")
    typer.echo(f"\n{found.recommendation}\n\n  crossroads match … {found.flags}")
    if found.growth is not None:
        typer.echo(
            f"\nBeyond about {found.growth.subscriptions:,} subscriptions like these, one machine "
            f"cannot hold\ntheir index any more; then:\n\n  crossroads match … {found.growth.flags}"
        )
    _print_expensive(found)


def _print_expensive(found: Advice) -> None:
    from crossroads.pipeline.wording import share_text

    expenses, sampled = found.expenses, found.sampled_subscriptions
    if not expenses.most:
        typer.echo("\nNo sampled subscription stands out as expensive.")
        return
    typer.echo(f"\nExpensive subscriptions, of {sampled:,} sampled:")
    for reason, count in expenses.counts.items():
        typer.echo(f"  {reason}: {count:,} ({share_text(count / sampled)})")
    for one in expenses.most:
        typer.echo(f"\n  {one.id}: {one.filter}")
        for why in one.why:
            typer.echo(f"    {why.text}; {why.help}")
