"""The options of `crossroads stream` that no other command has."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

_WHERE = "Where events come from and notifications go"
_LIMITS = "What is taken"
_OPERATING = "Operating it"


class StreamFormat(StrEnum):
    PARQUET = "parquet"
    JSONL = "jsonl"


class DeliveryName(StrEnum):
    EXACTLY_ONCE = "exactly-once"
    AT_LEAST_ONCE = "at-least-once"


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
TriggerOption = Annotated[
    str, typer.Option("--trigger", help="How often a batch begins, like 250ms or 5s.")
]
AvailableNowOption = Annotated[
    bool, typer.Option("--available-now", help="Take everything that is there, then end.")
]
StreamFormatOption = Annotated[
    StreamFormat, typer.Option("--format", help="Of the parts in an output folder.")
]
RejectsOption = Annotated[
    Path | None,
    typer.Option(
        "--rejects",
        help="Folder for what cannot be used; by default the output folder, else the checkpoint.",
        rich_help_panel=_WHERE,
    ),
]
ArchiveOption = Annotated[
    Path | None,
    typer.Option(
        "--archive",
        help="Folder to which files of --events are moved when their batch is done.",
        rich_help_panel=_WHERE,
    ),
]
JdbcTableOption = Annotated[
    str, typer.Option("--jdbc-table", help="Of a jdbc: output.", rich_help_panel=_WHERE)
]
JdbcDriverOption = Annotated[
    str | None,
    typer.Option(
        "--jdbc-driver", help="Class of the JDBC driver, if asked for.", rich_help_panel=_WHERE
    ),
]
PackagesOption = Annotated[
    str,
    typer.Option(
        "--packages",
        help="Maven coordinates of what Spark needs besides (JDBC drivers, another Kafka "
        "connector), with commas.",
        rich_help_panel=_WHERE,
    ),
]
JarsOption = Annotated[
    str,
    typer.Option(
        "--jars",
        help="The same as files or folders of .jar files, with commas.",
        rich_help_panel=_WHERE,
    ),
]
EventTimeOption = Annotated[
    str | None,
    typer.Option(
        "--event-time", help="The attribute that says when an event was.", rich_help_panel=_LIMITS
    ),
]
MaxDelayOption = Annotated[
    str | None,
    typer.Option(
        "--max-delay",
        help="Events that are so much older than the latest one are rejects.",
        rich_help_panel=_LIMITS,
    ),
]
DuplicateWindowOption = Annotated[
    str,
    typer.Option(
        "--duplicate-window",
        help="An event id that comes again within this time notifies once; 0, 10m, unlimited.",
        rich_help_panel=_LIMITS,
    ),
]
MaxRecordBytesOption = Annotated[
    int,
    typer.Option("--max-record-bytes", help="Larger records are rejects.", rich_help_panel=_LIMITS),
]
AloneBytesOption = Annotated[
    int,
    typer.Option(
        "--alone-bytes",
        help="Smaller batches are matched in the driver, without a Spark job; 0: none.",
        rich_help_panel=_LIMITS,
    ),
]
DigestDelayOption = Annotated[
    str | None,
    typer.Option(
        "--digest-delay",
        help="Hold notifications back for at most so long and send one message per subscriber.",
        rich_help_panel=_LIMITS,
    ),
]
DigestSizeOption = Annotated[
    int | None,
    typer.Option(
        "--digest-size",
        help="Send it as soon as it has so many notifications; 1,000 if not said.",
        rich_help_panel=_LIMITS,
    ),
]
DeliveryOption = Annotated[
    DeliveryName,
    typer.Option(
        "--delivery",
        help="at-least-once spares sinks the memory of what they have; crashes then double.",
        rich_help_panel=_LIMITS,
    ),
]
MetricsOption = Annotated[
    int | None,
    typer.Option(
        "--metrics",
        help="Port on this machine for Prometheus.",
        min=1,
        max=65_535,
        rich_help_panel=_OPERATING,
    ),
]
LogOption = Annotated[
    Path | None,
    typer.Option(
        "--log",
        help="File for JSON lines: a line per batch, change and warning. - for stderr.",
        rich_help_panel=_OPERATING,
    ),
]
EndAsJsonOption = Annotated[
    bool,
    typer.Option(
        "--json",
        help="Notifications on the terminal, and the end, as JSON.",
        rich_help_panel=_OPERATING,
    ),
]
