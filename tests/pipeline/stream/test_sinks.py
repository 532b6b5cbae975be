"""What every sink promises, on real files and a real database; and where each is asked for."""

from __future__ import annotations

import io
import json
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import apsw
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from crossroads.errors import OutputError, UsageError
from crossroads.model.schema import Schema
from crossroads.pipeline.notify import NOTIFICATIONS, Notify
from crossroads.pipeline.output import write_part
from crossroads.pipeline.stream.callbacksink import CallbackSink, Told
from crossroads.pipeline.stream.consolesink import ConsoleSink
from crossroads.pipeline.stream.foldersink import FolderSink
from crossroads.pipeline.stream.sinkcolumns import json_line, notification_columns
from crossroads.pipeline.stream.sinks import Delivery, Sink, delivery_number, notification_id
from crossroads.pipeline.stream.sinkurls import SinkOptions, promise_of, sink_for
from crossroads.pipeline.stream.sqlitesink import SQLiteSink

SCHEMA = Schema.from_mapping(
    {
        "name": "quotes",
        "id": ["event"],
        "attributes": {"event": "string", "price": "double", "at": "timestamp"},
    }
)
NOTIFY = Notify(SCHEMA, include=("price", "at"))
COLUMNS = notification_columns(NOTIFY)

Pair = tuple[str, str]


def rows_of(pairs: list[Pair]) -> pa.Table:
    count = len(pairs)
    values = {
        "event_id": [event for event, _ in pairs],
        "subscription_id": [subscription for _, subscription in pairs],
        "subscriber": [f"of {subscription}" for _, subscription in pairs],
        "price": [1.5] * count,
        "at": pa.array([0] * count, pa.int64()).cast(SCHEMA.arrow.field("at").type),
        "subscription_version": [7] * count,
    }
    return pa.table(values, schema=COLUMNS)


def delivered(folder: Path, number: int, pairs: list[Pair]) -> Delivery:
    """As the stages leave it: fresh parts in a staging folder, the same each time."""
    staging = folder / f"staging-{random.randrange(1 << 60)}"
    staging.mkdir(parents=True)
    table = rows_of(pairs)
    half = len(pairs) // 2
    write_part(staging / NOTIFICATIONS, 0, table.slice(0, half), "parquet")
    write_part(staging / NOTIFICATIONS, 1, table.slice(half), "parquet")
    return Delivery(number, staging, NOTIFY, len(pairs))


@dataclass(frozen=True)
class Kind:
    make: Callable[[Path, bool], Sink]
    read: Callable[[Path], Counter[Pair]]


def folder_pairs(folder: Path) -> Counter[Pair]:
    found: Counter[Pair] = Counter()
    for part in folder.glob("out/notifications/batch=*/part-*.parquet"):
        with pq.ParquetFile(part) as file:
            rows = file.read().to_pylist()
        found.update((row["event_id"], row["subscription_id"]) for row in rows)
    return found


def sqlite_pairs(folder: Path) -> Counter[Pair]:
    connection = apsw.Connection(str(folder / "out.db"), flags=apsw.SQLITE_OPEN_READONLY)
    rows = connection.execute("SELECT event_id, subscription_id FROM notifications")
    return Counter((event, subscription) for event, subscription in rows)


KINDS = {
    "folder": Kind(lambda f, once: FolderSink(f / "out", exactly_once=once), folder_pairs),
    "sqlite": Kind(
        lambda f, once: SQLiteSink(f / "out.db", COLUMNS, exactly_once=once), sqlite_pairs
    ),
}
PAIRS = [(f"e{at}", f"s{at % 3}") for at in range(10)]
ONE, TWO, THREE = delivery_number(4), delivery_number(4, 1), delivery_number(5)


@pytest.fixture(params=sorted(KINDS))
def kind(request) -> Kind:
    return KINDS[request.param]


def test_a_delivery_handed_over_again_changes_nothing(kind, tmp_path) -> None:
    sink = kind.make(tmp_path, True)
    sink.open()
    assert not sink.has(ONE)
    sink.publish(delivered(tmp_path, ONE, PAIRS))
    sink.publish(delivered(tmp_path, ONE, PAIRS))
    assert sink.has(ONE) and not sink.has(TWO)
    sink.close()
    again = kind.make(tmp_path, True)  # as a run that was started anew
    again.open()
    assert again.has(ONE)
    again.publish(delivered(tmp_path, ONE, PAIRS))
    again.publish(delivered(tmp_path, TWO, PAIRS[:3]))
    again.publish(delivered(tmp_path, THREE, []))
    again.close()
    assert kind.read(tmp_path) == Counter(PAIRS) + Counter(PAIRS[:3])


def test_without_its_memory_a_sink_doubles(kind, tmp_path) -> None:
    """The kill campaign relies on it: a check that cannot fail proves nothing."""
    sink = kind.make(tmp_path, False)
    sink.open()
    sink.publish(delivered(tmp_path, ONE, PAIRS))
    assert not sink.has(ONE)
    sink.publish(delivered(tmp_path, ONE, PAIRS))
    sink.close()
    assert kind.read(tmp_path) == Counter(PAIRS + PAIRS)


def test_the_console_says_who_is_told_of_what(tmp_path) -> None:
    shown = io.StringIO()
    ConsoleSink(stream=shown).publish(
        delivered(tmp_path, ONE, [("e1\n\x1b[2J", "s1"), ("e2", "s2")])
    )
    assert shown.getvalue().splitlines() == [
        "of s1 ← e1\\n\\x1b[2J (s1) price=1.5 at=1970-01-01 00:00:00 subscription_version=7",
        "of s2 ← e2 (s2) price=1.5 at=1970-01-01 00:00:00 subscription_version=7",
    ]


def test_the_console_speaks_json_with_stable_ids(tmp_path) -> None:
    shown = io.StringIO()
    sink = ConsoleSink(as_json=True, stream=shown)
    sink.publish(delivered(tmp_path, ONE, PAIRS))
    sink.publish(delivered(tmp_path, ONE, PAIRS))
    lines = [json.loads(line) for line in shown.getvalue().splitlines()]
    assert len(lines) == 20 and lines[:10] == lines[10:]
    assert lines[0] == {
        "event_id": "e0",
        "subscription_id": "s0",
        "subscriber": "of s0",
        "price": 1.5,
        "at": "1970-01-01 00:00:00",
        "subscription_version": 7,
        "notification_id": notification_id("e0", "s0"),
    }


def test_a_function_is_called_once_for_each_delivery_that_has_rows(tmp_path) -> None:
    calls: list[tuple[int, int, list[str]]] = []

    def tell(told: Told) -> None:
        assert sum(table.num_rows for table in told.tables()) == len(told)
        calls.append((told.number, len(told), [row["notification_id"] for row in told]))

    sink = CallbackSink(tell)
    assert "tell" in sink.name and not sink.has(ONE)
    sink.publish(delivered(tmp_path, ONE, PAIRS))
    sink.publish(delivered(tmp_path, TWO, []))
    assert calls == [(ONE, 10, [notification_id(*pair) for pair in PAIRS])]


def test_attributes_may_have_the_names_of_our_columns() -> None:
    """Except the one by which a reader knows what it was told before."""
    schema = Schema.from_mapping(
        {
            "id": ["event_id"],
            "attributes": {"event_id": "bigint", "message_id": "string", "notification_id": "int"},
        }
    )
    columns = notification_columns(Notify(schema, include=("event_id", "message_id")))
    own = ["event_id", "subscription_id", "subscriber", "message_id", "subscription_version"]
    assert columns.names == own and columns.field("event_id").type == pa.int64()
    row = dict.fromkeys(own, "x")
    assert json.loads(json_line(row)) == row
    with pytest.raises(UsageError, match="rename the attribute"):
        notification_columns(Notify(schema, include=("notification_id",)))


# -- SQLite --------------------------------------------------------------------------------------


def test_a_locked_database_is_waited_for_and_then_named(tmp_path) -> None:
    sink = SQLiteSink(tmp_path / "out.db", COLUMNS, wait_ms=1)
    sink.open()
    other = apsw.Connection(str(tmp_path / "out.db"))
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(OutputError, match="locked by another program"):
        sink.publish(delivered(tmp_path, ONE, PAIRS))
    other.execute("ROLLBACK")
    sink.publish(delivered(tmp_path, ONE, PAIRS))
    assert sqlite_pairs(tmp_path) == Counter(PAIRS)
    sink.close()


def test_a_table_with_other_columns_is_refused_with_what_differs(tmp_path) -> None:
    other = SQLiteSink(
        tmp_path / "out.db", notification_columns(Notify(SCHEMA, include=("event",)))
    )
    other.open()
    other.close()
    with pytest.raises(OutputError, match="lacks at, price and also has event"):
        SQLiteSink(tmp_path / "out.db", COLUMNS).open()
    beside = SQLiteSink(tmp_path / "out.db", COLUMNS, table="prices")
    beside.open()
    beside.close()


def test_a_failure_in_the_middle_leaves_neither_rows_nor_number(tmp_path) -> None:
    sink = SQLiteSink(tmp_path / "out.db", COLUMNS)
    sink.open()
    broken = delivered(tmp_path, ONE, PAIRS)
    broken.parts[1].write_bytes(b"not Parquet")
    with pytest.raises(pa.ArrowInvalid):
        sink.publish(broken)
    assert not sink.has(ONE) and not sqlite_pairs(tmp_path)
    sink.publish(delivered(tmp_path, ONE, PAIRS))
    assert sqlite_pairs(tmp_path) == Counter(PAIRS)
    sink.close()


def test_two_streams_share_a_table(tmp_path) -> None:
    for stream in ("east", "west"):
        sink = SQLiteSink(tmp_path / "out.db", COLUMNS, stream=stream)
        sink.open()
        sink.publish(delivered(tmp_path, ONE, PAIRS))
        sink.close()
    assert sqlite_pairs(tmp_path) == Counter(PAIRS + PAIRS)


def test_a_file_that_is_no_database_is_left_alone(tmp_path) -> None:
    path = tmp_path / "out.db"
    path.write_bytes(b"something of somebody else, longer than a header of SQLite" * 20)
    with pytest.raises(OutputError, match="not a SQLite database"):
        SQLiteSink(path, COLUMNS).open()
    assert path.read_bytes().startswith(b"something")


# -- where to ------------------------------------------------------------------------------------

OPTIONS = SinkOptions(columns=COLUMNS, stream="quotes")


@pytest.mark.parametrize(
    ("to", "name"),
    [
        ("out", f"folder {Path.cwd() / 'out'}"),
        ("folder:out", f"folder {Path.cwd() / 'out'}"),
        ("sqlite:data/out.db", f"SQLite {Path.cwd() / 'data/out.db'}, table notifications"),
        ("sqlite:///out.db?table=told", f"SQLite {Path.cwd() / 'out.db'}, table told"),
        ("sqlite:////data/out.db", "SQLite /data/out.db, table notifications"),
        ("jdbc:postgresql://u:s3cret@h/db?user=me&password=s3cret", "jdbc:postgresql://h/db"),
        ("jdbc:oracle:thin:me/s3cret@host:1521/x", "jdbc:oracle:thin:host:1521/x"),
        ("-", "the terminal"),
        ("console:", "the terminal"),
    ],
)
def test_where_to_as_people_write_it(to, name) -> None:
    sink = sink_for(to, OPTIONS)
    assert sink.name.startswith(name)
    assert "s3cret" not in sink.name
    assert promise_of(sink).startswith("at least once" if "terminal" in name else "each")


@pytest.mark.parametrize(
    "to",
    ["ftp://host/x", "sqlite:", "sqlite:x?tabel=y", "sqlite:x?table=a;b", "console:x", "folder:"],
)
def test_what_is_no_place_is_refused_with_what_is(to) -> None:
    with pytest.raises(UsageError, match=r"use|only"):
        sink_for(to, OPTIONS)
