"""`crossroads backfill`: what new subscriptions would have received from an archive."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crossroads.cli.console import (
    JsonOption,
    SchemaOption,
    examples,
    print_json,
    print_table,
    read_schema,
    warn,
)
from crossroads.cli.match import drawn
from crossroads.cli.options import (
    EventsOption,
    IncludeOption,
    MasterOption,
    OutputOption,
    PlanName,
    PlanOption,
    SinceOption,
    StrictOption,
    TimeOption,
    UntilOption,
    names_in,
)
from crossroads.errors import UsageError

if TYPE_CHECKING:
    from crossroads.model.schema import Schema
    from crossroads.pipeline.backfill import Backfill, Received

SHOWN_MAX = 20  # subscriptions on the terminal; --json has more

_EXAMPLES = examples(
    "crossroads backfill --schema stocks.toml --events archive/ --output out "
    "--filter \"symbol = 'aapl' AND high >= 10\"",
    "crossroads backfill --schema stocks.toml --events archive/ --output out "
    "--subscriptions new.csv --since 2002-01-01 --until 2002-07-01",
    "The output folder is that of crossroads match, with the time of each event.",
)


def register(app: typer.Typer) -> None:
    app.command("backfill", epilog=_EXAMPLES)(backfill)


def backfill(
    schema: SchemaOption,
    events: EventsOption,
    output: OutputOption,
    subscriptions: Annotated[
        Path | None,
        typer.Option("--subscriptions", help="New ones: columns id, subscriber, filter."),
    ] = None,
    filter: Annotated[  # noqa: A002 (the flag's name)
        str | None, typer.Option("--filter", help="Or one new filter, in quotes.")
    ] = None,
    id: Annotated[  # noqa: A002 (the flag's name)
        str, typer.Option("--id", help="What to call it in the output (with --filter).")
    ] = "new",
    since: SinceOption = None,
    until: UntilOption = None,
    time: TimeOption = None,
    include: IncludeOption = "",
    plan: PlanOption = PlanName.AUTO,
    master: MasterOption = None,
    strict: StrictOption = False,
    as_json: JsonOption = False,
) -> None:
    """Show what new subscriptions would have received from an archive, and write it."""
    if (subscriptions is None) == (filter is None):
        raise UsageError("give the new subscriptions with --subscriptions, or one with --filter")
    known = read_schema(schema)
    from crossroads.pipeline.backfill import run_backfill
    from crossroads.pipeline.job import MatchRequest
    from crossroads.pipeline.jobsummary import nothing_usable

    with _table(subscriptions, known, filter, id) as path, drawn() as reporter:
        request = MatchRequest(
            schema=schema,  # its file must not lie in the output
            subscriptions=path,
            events=events,
            output=output,
            plan=plan.value,
            master=master,
            strict=strict,
            since=since,
            until=until,
            time=time,
            include=names_in(include),
        )
        found = run_backfill(request, reporter)
    if as_json:
        print_json(_report(found))
    else:
        _print(found, output)
    problem = nothing_usable(found.summary)
    if problem is not None:
        raise problem


@contextmanager
def _table(given: Path | None, schema: Schema, text: str | None, name: str) -> Iterator[Path]:
    """The file of the new subscriptions, or one made of a filter."""
    if given is not None:
        yield given
        return
    from crossroads.pipeline.backfill import one_subscription

    assert text is not None
    with one_subscription(schema, text, name) as path:
        yield path


def _report(found: Backfill) -> dict[str, Any]:
    report = asdict(found)
    for name in ("id", "subscriber"):
        del report["all"][name]
    return report


def _print(found: Backfill, output: Path) -> None:
    counts = found.summary["counts"]
    typer.echo(
        f"{found.all.count:,} notifications, of {counts['events_matched']:,} of "
        f"{counts['events']:,} events{_span(found, found.all)}"
    )
    if counts["events_outside"]:
        typer.echo(f"{counts['events_outside']:,} events are outside the window")
    for what in ("subscriptions", "events"):
        if rejected := counts[f"{what}_rejected"]:
            typer.echo(f"{rejected:,} {what} were rejected: rejected_{what}/ has the reasons")
    if found.received:
        _print_received(found)
    if found.nothing:
        typer.echo(f"\n{found.nothing:,} would have received nothing")
    if found.samples:
        typer.echo("\nfor example")
        rows = [[one.event_id, one.subscription_id, one.reason] for one in found.samples]
        print_table(["event", "subscription", "because"], rows)
    warn(*found.summary["warnings"][:5])
    typer.echo(f"\nwritten to {output}")


def _print_received(found: Backfill) -> None:
    from crossroads.model.values import text_of

    typer.echo()
    times = ["first", "last"] if found.time else []
    rows = []
    for one in found.received[:SHOWN_MAX]:
        ends = [text_of(one.first), text_of(one.last)] if found.time else []
        rows.append([one.id, one.subscriber, f"{one.count:,}", *ends])
    print_table(["subscription", "subscriber", "notifications", *times], rows, right=(2,))
    counts = found.summary["counts"]
    more = counts["subscriptions"] - found.nothing - len(rows)
    if more > 0:
        typer.echo(f"… and {more:,} more")


def _span(found: Backfill, received: Received) -> str:
    from crossroads.model.values import text_of

    if received.first is None:
        return ""
    return f", {found.time} from {text_of(received.first)} to {text_of(received.last)}"
