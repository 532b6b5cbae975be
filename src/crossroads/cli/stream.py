"""`crossroads stream`: keep matching, on events that arrive and subscriptions that change."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

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
from crossroads.cli.streamoptions import (
    AloneBytesOption,
    ArchiveOption,
    AvailableNowOption,
    CheckpointOption,
    DeliveryName,
    DeliveryOption,
    DigestDelayOption,
    DigestSizeOption,
    DuplicateWindowOption,
    EndAsJsonOption,
    EventsOption,
    EventTimeOption,
    JarsOption,
    JdbcDriverOption,
    JdbcTableOption,
    LogOption,
    MaxDelayOption,
    MaxRecordBytesOption,
    MetricsOption,
    OutputOption,
    PackagesOption,
    RejectsOption,
    StreamFormat,
    StreamFormatOption,
    SubscriptionsOption,
    TriggerOption,
)

if TYPE_CHECKING:
    from crossroads.pipeline.stream.request import Digesting, StreamRequest

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


def register(app: typer.Typer) -> None:
    app.command("stream", epilog=EPILOG)(stream)


def stream(
    schema: SchemaOption,
    subscriptions: SubscriptionsOption,
    events: EventsOption,
    output: OutputOption,
    checkpoint: CheckpointOption,
    trigger: TriggerOption = "250ms",
    available_now: AvailableNowOption = False,
    plan: PlanOption = PlanName.AUTO,
    mapping: MappingOption = None,
    cells: CellsOption = None,
    include: IncludeOption = "",
    format: StreamFormatOption = StreamFormat.PARQUET,  # noqa: A002 (the flag's name)
    master: MasterOption = None,
    rejects: RejectsOption = None,
    archive: ArchiveOption = None,
    jdbc_table: JdbcTableOption = "notifications",
    jdbc_driver: JdbcDriverOption = None,
    packages: PackagesOption = "",
    jars: JarsOption = "",
    event_time: EventTimeOption = None,
    max_delay: MaxDelayOption = None,
    duplicate_window: DuplicateWindowOption = "10m",
    max_record_bytes: MaxRecordBytesOption = 1 << 20,
    alone_bytes: AloneBytesOption = 1 << 20,
    digest_delay: DigestDelayOption = None,
    digest_size: DigestSizeOption = None,
    delivery: DeliveryOption = DeliveryName.EXACTLY_ONCE,
    metrics: MetricsOption = None,
    log: LogOption = None,
    json: EndAsJsonOption = False,
) -> None:
    """Match events as they arrive with subscriptions that change, on Spark, each pair once."""
    from crossroads.pipeline.stream.request import StreamRequest, duration_ms

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
        alone_bytes=alone_bytes,
        archive=archive,
        digest=_digest(digest_delay, digest_size),
        delivery=delivery.value,
        jdbc_table=jdbc_table,
        jdbc_driver=jdbc_driver,
        console_json=json,
        packages=names_in(packages),
        jars=names_in(jars),
    )
    _run(request, metrics, log, json)


def _digest(delay: str | None, size: int | None) -> Digesting | None:
    from crossroads.errors import UsageError
    from crossroads.pipeline.stream.request import DIGEST_SIZE, Digesting, duration_ms

    if delay is not None:
        delay_ms = duration_ms(delay, "--digest-delay")
        return Digesting(delay_ms=delay_ms, size=DIGEST_SIZE if size is None else size)
    if size is not None:
        raise UsageError(
            "--digest-size goes with --digest-delay",
            hint="how long a notification may wait for others, for example 5s",
        )
    return None


def _run(request: StreamRequest, metrics: int | None, log: Path | None, as_json: bool) -> None:
    from crossroads.cli.streamscreen import Screen
    from crossroads.pipeline.stream.operating import operated

    silent = log is not None and str(log) == "-"  # stderr is for JSON then
    with Screen(request, as_json=as_json, silent=silent) as screen:
        summary = operated(request, screen, metrics_port=metrics, log=log)
    screen.end(summary)
