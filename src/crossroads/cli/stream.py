"""`crossroads stream`: keep matching, on events that arrive and subscriptions that change."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from crossroads.cli.console import SchemaOption, examples
from crossroads.cli.options import (
    CellsOption,
    IncludeOption,
    MappingOption,
    MasterOption,
    PlanName,
    PlanOption,
    names_in,
)

if TYPE_CHECKING:
    from crossroads.pipeline.stream.request import StreamRequest

EPILOG = examples(
    "crossroads stream --schema s.toml --subscriptions subs/ --events in/ --output out "
    "--checkpoint state",
    "crossroads stream … --available-now    [dim]take what is there, then end[/dim]",
    "crossroads stream … --events kafka://localhost:9092/orders --output "
    "kafka://localhost:9092/matches",
    "crossroads stream … --output sqlite:matches.db    [dim]or jdbc:…, or - for the terminal[/dim]",
    "crossroads stream … --event-time time --max-delay 10m    [dim]later ones are rejects[/dim]",
    "crossroads stream … --digest-delay 5s --digest-size 1000    "
    "[dim]one message per subscriber[/dim]",
    "crossroads stream … --metrics 9100 --log stream.jsonl    [dim]to operate it[/dim]",
    "Ctrl-C or SIGTERM finishes the batch, commits it and exits 0; start again with the same "
    "--checkpoint to go on. Each notification arrives once, whatever was killed when; on the "
    "terminal it may come twice. The runbook is docs/streaming.md.",
    "Exit codes: 0 stopped or all read; 1 failed; 2 usage.",
)


class StreamFormat(StrEnum):
    PARQUET = "parquet"
    JSONL = "jsonl"


class DeliveryName(StrEnum):
    EXACTLY_ONCE = "exactly-once"
    AT_LEAST_ONCE = "at-least-once"


_WHERE = "Where events come from and notifications go"
_LIMITS = "What is taken"
_OPERATING = "Operating it"

SubscriptionsOption = Annotated[
    Path,
    typer.Option(
        "--subscriptions",
        help="A file, compared whenever it changes; or a folder of change files in the order of "
        "their names, with op (upsert, remove, pause, resume), id, subscriber, filter, "
        "valid_until.",
    ),
]
EventsOption = Annotated[
    str,
    typer.Option(
        "--events",
        help="A folder to which files are added (CSV, JSON lines, Parquet), or "
        "kafka://HOST:PORT/TOPIC with JSON or CloudEvents.",
    ),
]
OutputOption = Annotated[
    str,
    typer.Option(
        "--output",
        help="A folder, kafka://HOST:PORT/TOPIC, sqlite:FILE, jdbc:…, or - for the terminal.",
    ),
]
CheckpointOption = Annotated[
    Path, typer.Option("--checkpoint", help="Folder with all that the stream has to remember.")
]


def register(app: typer.Typer) -> None:
    app.command("stream", epilog=EPILOG)(stream)


def stream(
    schema: SchemaOption,
    subscriptions: SubscriptionsOption,
    events: EventsOption,
    output: OutputOption,
    checkpoint: CheckpointOption,
    trigger: Annotated[
        str, typer.Option("--trigger", help="How often a batch begins, like 250ms or 5s.")
    ] = "250ms",
    available_now: Annotated[
        bool, typer.Option("--available-now", help="Take everything that is there, then end.")
    ] = False,
    plan: PlanOption = PlanName.AUTO,
    mapping: MappingOption = None,
    cells: CellsOption = None,
    include: IncludeOption = "",
    format: Annotated[  # noqa: A002 (the flag's name)
        StreamFormat, typer.Option("--format", help="Of the parts in an output folder.")
    ] = StreamFormat.PARQUET,
    master: MasterOption = None,
    rejects: Annotated[
        Path | None,
        typer.Option(
            "--rejects",
            help="Folder for what cannot be used; by default the output folder, else the "
            "checkpoint.",
            rich_help_panel=_WHERE,
        ),
    ] = None,
    archive: Annotated[
        Path | None,
        typer.Option(
            "--archive",
            help="Folder to which files of --events are moved when their batch is done.",
            rich_help_panel=_WHERE,
        ),
    ] = None,
    jdbc_table: Annotated[
        str, typer.Option("--jdbc-table", help="Of a jdbc: output.", rich_help_panel=_WHERE)
    ] = "notifications",
    jdbc_driver: Annotated[
        str | None,
        typer.Option(
            "--jdbc-driver", help="Class of the JDBC driver, if asked for.", rich_help_panel=_WHERE
        ),
    ] = None,
    packages: Annotated[
        str,
        typer.Option(
            "--packages",
            help="Maven coordinates of what Spark needs besides (JDBC drivers, another Kafka "
            "connector), with commas.",
            rich_help_panel=_WHERE,
        ),
    ] = "",
    jars: Annotated[
        str,
        typer.Option(
            "--jars",
            help="The same as files or folders of .jar files, with commas.",
            rich_help_panel=_WHERE,
        ),
    ] = "",
    event_time: Annotated[
        str | None,
        typer.Option(
            "--event-time",
            help="The attribute that says when an event was.",
            rich_help_panel=_LIMITS,
        ),
    ] = None,
    max_delay: Annotated[
        str | None,
        typer.Option(
            "--max-delay",
            help="Events that are so much older than the latest one are rejects.",
            rich_help_panel=_LIMITS,
        ),
    ] = None,
    duplicate_window: Annotated[
        str,
        typer.Option(
            "--duplicate-window",
            help="An event id that comes again within this time notifies once; 0, 10m, unlimited.",
            rich_help_panel=_LIMITS,
        ),
    ] = "10m",
    max_record_bytes: Annotated[
        int,
        typer.Option(
            "--max-record-bytes", help="Larger records are rejects.", rich_help_panel=_LIMITS
        ),
    ] = 1 << 20,
    digest_delay: Annotated[
        str | None,
        typer.Option(
            "--digest-delay",
            help="Hold notifications back for at most so long and send one message per subscriber.",
            rich_help_panel=_LIMITS,
        ),
    ] = None,
    digest_size: Annotated[
        int | None,
        typer.Option(
            "--digest-size",
            help="Send it as soon as it has so many notifications; 1,000 if not said.",
            rich_help_panel=_LIMITS,
        ),
    ] = None,
    delivery: Annotated[
        DeliveryName,
        typer.Option(
            "--delivery",
            help="at-least-once spares sinks the memory of what they have; crashes then double.",
            rich_help_panel=_LIMITS,
        ),
    ] = DeliveryName.EXACTLY_ONCE,
    metrics: Annotated[
        int | None,
        typer.Option(
            "--metrics",
            help="Port on this machine for Prometheus.",
            min=1,
            max=65_535,
            rich_help_panel=_OPERATING,
        ),
    ] = None,
    log: Annotated[
        Path | None,
        typer.Option(
            "--log",
            help="File for JSON lines: a line per batch, change and warning. - for stderr.",
            rich_help_panel=_OPERATING,
        ),
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Notifications on the terminal, and the end, as JSON.")
    ] = False,
) -> None:
    """Match events as they arrive with subscriptions that change, on Spark, each pair once."""
    from crossroads.errors import UsageError
    from crossroads.pipeline.stream.request import (
        DIGEST_SIZE,
        Digesting,
        StreamRequest,
        duration_ms,
    )

    if digest_size is not None and digest_delay is None:
        raise UsageError(
            "--digest-size goes with --digest-delay",
            hint="how long a notification may wait for others, for example 5s",
        )
    digest = None
    if digest_delay is not None:
        delay_ms = duration_ms(digest_delay, "--digest-delay")
        digest = Digesting(
            delay_ms=delay_ms, size=DIGEST_SIZE if digest_size is None else digest_size
        )
    request = StreamRequest(
        schema=schema,
        subscriptions=subscriptions,
        events=events,
        output=output,
        checkpoint=checkpoint,
        trigger_ms=duration_ms(trigger, "--trigger"),
        available_now=available_now,
        plan=plan.value,
        mapping=mapping,
        cells=cells,
        include=names_in(include),
        format=format.value,
        master=master,
        rejects=rejects,
        event_time=event_time,
        max_delay_ms=None if max_delay is None else duration_ms(max_delay, "--max-delay"),
        duplicate_window_ms=duration_ms(duplicate_window, "--duplicate-window"),
        record_bytes_max=max_record_bytes,
        archive=archive,
        digest=digest,
        delivery=delivery.value,
        jdbc_table=jdbc_table,
        jdbc_driver=jdbc_driver,
        console_json=json,
        packages=names_in(packages),
        jars=names_in(jars),
    )
    _run(request, metrics, log, json)


def _run(request: StreamRequest, metrics: int | None, log: Path | None, as_json: bool) -> None:
    from crossroads.cli.streamscreen import Screen
    from crossroads.pipeline.stream.operating import operated

    silent = log is not None and str(log) == "-"  # stderr is for JSON then
    with Screen(request, as_json=as_json, silent=silent) as screen:
        summary = operated(request, screen, metrics_port=metrics, log=log)
    screen.end(summary)
