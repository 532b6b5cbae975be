"""A JDBC table, on the database that comes with Spark: Derby, inside the session's own JVM."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from crossroads.errors import OutputError, UsageError
from crossroads.model.schema import Schema
from crossroads.pipeline.notify import NOTIFICATIONS, Notify
from crossroads.pipeline.output import write_part
from crossroads.pipeline.stream.digest import MESSAGE_COLUMNS, Digest
from crossroads.pipeline.stream.digestsink import DigestSink
from crossroads.pipeline.stream.jdbcsink import JdbcSink
from crossroads.pipeline.stream.jdbcurl import PASSWORD_VARIABLE, USER_VARIABLE, JdbcAddress
from crossroads.pipeline.stream.sinkcolumns import notification_columns
from crossroads.pipeline.stream.sinks import Delivery, delivery_number

# `open` is a word of SQL: names have to be quoted wherever we write them.
SCHEMA = Schema.from_mapping(
    {"name": "quotes", "id": ["event"], "attributes": {"event": "string", "open": "double"}}
)
NOTIFY = Notify(SCHEMA, include=("open",))
COLUMNS = notification_columns(NOTIFY)
PAIRS = [(f"e{at}", f"s{at % 3}") for at in range(10)]
ONE, TWO = delivery_number(0), delivery_number(1)


def delivered(folder: Path, number: int, pairs: list[tuple[str, str]]) -> Delivery:
    staging = folder / f"staging-{random.randrange(1 << 60)}"
    staging.mkdir(parents=True)
    events, subscriptions = zip(*pairs, strict=True)
    values = [events, subscriptions, subscriptions, [1.5] * len(pairs), [7] * len(pairs)]
    table = pa.table(dict(zip(COLUMNS.names, map(list, values), strict=True)), schema=COLUMNS)
    for part in range(2):
        write_part(staging / NOTIFICATIONS, part, table.slice(part * 5, 5), "parquet")
    return Delivery(number, staging, NOTIFY, len(pairs))


@pytest.fixture
def derby(spark, tmp_path) -> Iterator[str]:
    spark._jvm.System.setProperty("derby.stream.error.file", str(tmp_path / "derby.log"))
    database = f"jdbc:derby:{tmp_path / 'db'}"
    yield f"{database};create=true"
    with pytest.raises(Exception, match="shutdown"):  # how Derby says that it did
        spark._jvm.java.sql.DriverManager.getConnection(
            f"jdbc:derby:{tmp_path / 'db'};shutdown=true"
        )


def sink_at(url: str, **settings: Any) -> JdbcSink:
    sink = JdbcSink(JdbcAddress.of(url), COLUMNS, **settings)
    sink.open()
    return sink


def told(spark: Any, url: str, table: str = "notifications") -> Counter[tuple[str, str]]:
    rows = spark.read.jdbc(url, f"(SELECT event_id, subscription_id FROM {table}) t").collect()
    return Counter((row[0], row[1]) for row in rows)


@pytest.mark.spark
def test_a_delivery_handed_over_again_changes_nothing(spark, derby, tmp_path) -> None:
    sink = sink_at(derby)
    sink.publish(delivered(tmp_path, ONE, PAIRS))
    sink.publish(delivered(tmp_path, ONE, PAIRS))
    assert sink.has(ONE) and not sink.has(TWO)
    again = sink_at(derby)
    again.publish(delivered(tmp_path, ONE, PAIRS))
    again.publish(delivered(tmp_path, TWO, PAIRS[:6]))
    assert told(spark, derby) == Counter(PAIRS) + Counter(PAIRS[:6])


@pytest.mark.spark
def test_a_crash_between_staging_and_commit_loses_and_doubles_nothing(
    spark, derby, tmp_path, monkeypatch
) -> None:
    sink = sink_at(derby)
    sink.stage(delivered(tmp_path, ONE, PAIRS))
    assert not sink.has(ONE) and not told(spark, derby)
    # and another one within the transaction, after the number is noted
    monkeypatch.setattr(JdbcSink, "_copying", lambda *_: "INSERT INTO nowhere VALUES (1)")
    with pytest.raises(OutputError, match="NOWHERE"):
        sink.publish(delivered(tmp_path, ONE, PAIRS))
    monkeypatch.undo()
    again = sink_at(derby)
    assert not again.has(ONE) and not told(spark, derby)
    again.publish(delivered(tmp_path, ONE, PAIRS))
    assert told(spark, derby) == Counter(PAIRS)


@pytest.mark.spark
def test_a_second_driver_cannot_commit_what_is_in(spark, derby, tmp_path) -> None:
    first, second = sink_at(derby), sink_at(derby)
    delivery = delivered(tmp_path, ONE, PAIRS)
    second.stage(delivery)  # found no number, and was slow
    first.publish(delivery)
    with pytest.raises(OutputError, match="duplicate key"):
        second.commit(delivery)
    assert told(spark, derby) == Counter(PAIRS)


@pytest.mark.spark
def test_without_its_memory_it_doubles(spark, derby, tmp_path) -> None:
    sink = sink_at(derby, exactly_once=False, table="plain")
    sink.publish(delivered(tmp_path, ONE, PAIRS))
    sink.publish(delivered(tmp_path, ONE, PAIRS))
    assert told(spark, derby, "plain") == Counter(PAIRS + PAIRS)


@pytest.mark.spark
def test_a_table_of_the_users_is_filled_if_it_has_the_columns(spark, derby, tmp_path) -> None:
    address = JdbcAddress.of(derby)
    with JdbcSink(address, COLUMNS)._connected() as connection:
        statement = connection.createStatement()
        statement.executeUpdate(
            "CREATE TABLE theirs (id INTEGER GENERATED ALWAYS AS IDENTITY, subscriber VARCHAR(9), "
            'event_id VARCHAR(9), subscription_id VARCHAR(9), "open" DOUBLE, '
            "subscription_version BIGINT)"
        )
        statement.executeUpdate("CREATE TABLE lacking (event_id VARCHAR(9))")
    sink_at(derby, table="theirs").publish(delivered(tmp_path, ONE, PAIRS))
    assert told(spark, derby, "theirs") == Counter(PAIRS)
    with pytest.raises(OutputError, match="lacks subscription_id, subscriber, open, "):
        sink_at(derby, table="lacking")


@pytest.mark.spark
def test_digests_go_into_a_table_too(spark, derby, tmp_path) -> None:
    inner = JdbcSink(JdbcAddress.of(derby), MESSAGE_COLUMNS, table="digests")
    sink = DigestSink(
        inner, tmp_path / "digest", Digest(0), notify=NOTIFY, staging=tmp_path / "messages"
    )
    sink.open()
    sink.publish(delivered(tmp_path, ONE, PAIRS))
    rows = spark.read.jdbc(derby, "digests").toDF(*MESSAGE_COLUMNS.names).collect()
    assert [(row["subscriber"], row["notification_count"]) for row in rows] == [
        ("s0", 4),
        ("s1", 3),
        ("s2", 3),
    ]
    events = [each["event_id"] for row in rows for each in json.loads(row["notifications"])]
    assert Counter(events) == Counter(event for event, _ in PAIRS)


@pytest.mark.spark
def test_a_missing_driver_is_named(spark) -> None:
    with pytest.raises(OutputError, match="--packages") as raised:
        sink_at("jdbc:nosuch://host/db?password=s3cret")
    assert "s3cret" not in str(raised.value)


def test_user_and_password_come_from_the_url_or_the_environment() -> None:
    environ = {USER_VARIABLE: "env", PASSWORD_VARIABLE: "hush"}
    address = JdbcAddress.of("jdbc:x://h/db?user=me&ssl=true", environ=environ)
    assert address.url == "jdbc:x://h/db?ssl=true"
    assert address.properties == {"user": "me", "password": "hush"}
    assert "hush" not in repr(address)
    assert address.hidden("cannot log in to jdbc:x://h/db?ssl=true with hush") == (
        "cannot log in to jdbc:x://h/db with …"
    )
    assert JdbcAddress.of("jdbc:x:y", environ={}).properties == {}


def test_a_table_name_is_never_sql() -> None:
    with pytest.raises(UsageError, match="--jdbc-table"):
        JdbcSink(JdbcAddress.of("jdbc:x:y"), COLUMNS, table="t; DROP TABLE u")
