"""`crossroads demo`: the main job on a workload made on the spot, from nothing to notifications."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from crossroads.cli.console import examples

if TYPE_CHECKING:
    from crossroads.model.schema import Schema

EPILOG = examples(
    "crossroads demo",
    "crossroads demo --output somewhere --events 10000 --seed 7",
)


def register(app: typer.Typer) -> None:
    app.command("demo", epilog=EPILOG)(demo)


def demo(
    output: Annotated[
        Path, typer.Option("--output", help="Folder for the workload and the result.")
    ] = Path("crossroads-demo"),
    events: Annotated[int, typer.Option("--events", help="How many quotes.")] = 115_000,
    subscriptions: Annotated[
        int, typer.Option("--subscriptions", help="How many subscriptions.")
    ] = 14_029,
    seed: Annotated[int, typer.Option("--seed", help="Same seed, same workload.")] = 0,
    master: Annotated[
        str | None, typer.Option("--master", help="A Spark master; default: this machine.")
    ] = None,
) -> None:
    """Match MEGHDOOT's stock quotes against its five kinds of subscriptions, on Spark."""
    from rich.console import Console

    from crossroads.cli.match import run_shown, show_summary
    from crossroads.lab.workloads import stocks, write_workload
    from crossroads.pipeline.job import MatchRequest, read_schema

    console = Console()
    with console.status("making the workload"):
        workload = stocks(seed, events, subscriptions)
        written = write_workload(workload, output / "workload", format="parquet", overwrite=True)
    console.print(
        f"[bold]{events:,} stock quotes[/bold] of 1998-2002, made up with seed {seed}, "
        f"and [bold]{subscriptions:,} subscriptions[/bold]:",
        highlight=False,
    )
    for text in workload.subscriptions().slice(0, 3)["filter"].to_pylist():
        console.print(f"  {text}", markup=False, highlight=False)
    console.print()
    result = output / "matches"
    request = MatchRequest(
        schema=written.schema,
        subscriptions=written.subscriptions,
        events=written.events,
        output=result,
        master=master,
    )
    summary = run_shown(request)
    show_summary(summary, result)
    _show_samples(read_schema(written.schema), written.subscriptions, written.events, result)


def _show_samples(schema: Schema, subscriptions: Path, events: Path, result: Path) -> None:
    from rich import box
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from crossroads.pipeline.samples import busiest, filters_of, sample_notifications

    console = Console()
    samples = Table("event", "subscriber", "subscription", "because", box=box.SIMPLE_HEAD)
    samples.title = "Some notifications"
    for one in sample_notifications(result, schema, subscriptions, events):
        samples.add_row(
            *map(escape, (one.event_id, one.subscriber, one.subscription_id, one.reason))
        )
    busy = Table("subscription", "filter", box=box.SIMPLE_HEAD)
    busy.title = "Busiest subscriptions"
    busy.add_column("notifications", justify="right")
    top = busiest(result)
    asked = filters_of(subscriptions, [subscription for subscription, _, _ in top])
    for subscription, _, count in top:
        busy.add_row(escape(subscription), escape(asked[subscription]), f"{count:,}")
    console.print()
    console.print(samples, highlight=False)
    console.print(busy, highlight=False)
    console.print("Why did one match, or not?  crossroads explain --help", highlight=False)
