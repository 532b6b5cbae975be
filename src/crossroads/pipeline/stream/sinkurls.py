"""Where to, as people write it on the command line → the sink.

out/            folder:out        a folder of Parquet or JSON-lines parts
kafka://host:9092/topic           a topic, keyed by subscriber
sqlite:out.db?table=NAME          a table of a SQLite file
jdbc:postgresql://host/db         a table of any database with a JDBC driver
-               console:          a line per notification
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl

import pyarrow as pa

from crossroads.errors import UsageError
from crossroads.pipeline.stream.consolesink import ConsoleSink
from crossroads.pipeline.stream.foldersink import FolderSink
from crossroads.pipeline.stream.sinks import Sink
from crossroads.pipeline.stream.sqlitesink import TABLE, SQLiteSink

FORMS = "a folder, kafka://HOST:PORT/TOPIC, sqlite:FILE, jdbc:… or console:"
# Two letters at least: C:\out is a folder.
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(.*)", re.DOTALL)
EXACTLY_ONCE = "each notification arrives exactly once, also across crashes"
AT_LEAST_ONCE = (
    "at least once: after a crash the last batch may come again, under the same notification ids"
)


@dataclass(frozen=True)
class SinkOptions:
    """What a sink has to know of its stream, and what was said beside the URL."""

    columns: pa.Schema  # of the rows it will be given
    stream: str  # whose deliveries these are: the same as long as the checkpoint is
    exactly_once: bool = True  # False: a plain sink, as a test of the tests
    as_json: bool = False  # on the console
    jdbc_table: str = TABLE
    jdbc_driver: str | None = None


def sink_for(to: str, options: SinkOptions) -> Sink:
    """The sink, not yet opened. What cannot be understood is a UsageError with what can."""
    found = _SCHEME.fullmatch(to)
    scheme, rest = (found[1].lower(), found[2]) if found else ("folder", to)
    match scheme:
        case _ if to == "-" or (scheme == "console" and not rest):
            return ConsoleSink(as_json=options.as_json)
        case "folder":
            return FolderSink(
                _path(rest, to), stream=options.stream, exactly_once=options.exactly_once
            )
        case "sqlite":
            return _sqlite(rest, to, options)
        case "jdbc":
            return _jdbc(to, options)
        case "kafka":
            return _kafka(to, options)
    raise UsageError(f"{to!r} is no place for notifications", hint=f"use {FORMS}")


def promise_of(sink: Sink) -> str:
    """What the operator may rely on; said when the stream starts."""
    return EXACTLY_ONCE if sink.exactly_once else AT_LEAST_ONCE


def _path(text: str, to: str) -> Path:
    if not text:
        raise UsageError(f"{to!r} names no file or folder", hint=f"use {FORMS}")
    return Path(text)


def _sqlite(rest: str, to: str, options: SinkOptions) -> SQLiteSink:
    """`///` may come before the path, as database URLs have it: a fourth slash is the path's."""
    path, _, query = rest.partition("?")
    settings = dict(parse_qsl(query))
    if unknown := sorted(settings.keys() - {"table"}):
        raise UsageError(
            f"{to!r}: {unknown[0]!r} is no setting", hint="the only one is ?table=NAME"
        )
    return SQLiteSink(
        _path(path.removeprefix("///"), to),
        options.columns,
        table=settings.get("table", TABLE),
        stream=options.stream,
        exactly_once=options.exactly_once,
    )


# Imported where they are asked for: they bring Spark's Java side and a Kafka client with them.


def _jdbc(to: str, options: SinkOptions) -> Sink:
    from crossroads.pipeline.stream.jdbcsink import JdbcSink
    from crossroads.pipeline.stream.jdbcurl import JdbcAddress

    return JdbcSink(
        JdbcAddress.of(to, driver=options.jdbc_driver),
        options.columns,
        table=options.jdbc_table,
        stream=options.stream,
        exactly_once=options.exactly_once,
    )


def _kafka(to: str, options: SinkOptions) -> Sink:
    from crossroads.pipeline.stream.kafkasink import KafkaSink

    return KafkaSink(to, stream=options.stream, exactly_once=options.exactly_once)
