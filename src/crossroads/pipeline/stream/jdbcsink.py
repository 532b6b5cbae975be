"""A table of any database that speaks JDBC, exactly once with nothing but portable SQL.

1. Spark's own JDBC writer fills a table beside the target, by several connections at once. Whatever
   a run that was killed left in it is dropped first, and nobody reads it.
2. One transaction over one connection copies it into the target and notes the delivery's number.

A crash before the commit leaves the target as it was; after it, the number says that all is there.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from crossroads.errors import CrossroadsError, OutputError, UsageError
from crossroads.pipeline.failures import plainly
from crossroads.pipeline.session import existing_session
from crossroads.pipeline.stream.jdbcurl import JdbcAddress
from crossroads.pipeline.stream.sinks import Delivery

TABLE = "notifications"
DELIVERIES = "crossroads_deliveries"
# Long enough for ids, and comparable and indexable everywhere, which the long texts that Spark
# would choose are not (CLOB in Derby, Oracle and DB2).
ID_TYPE = "VARCHAR(1024)"
IDS = ("event_id", "subscription_id", "subscriber", "message_id")
# NUMERIC and not BIGINT: Oracle has none.
CREATE_DELIVERIES = (
    "CREATE TABLE {table} (stream_name VARCHAR(255) NOT NULL, "
    "delivery_number NUMERIC(19) NOT NULL, row_count NUMERIC(19) NOT NULL, "
    "committed_ms NUMERIC(19) NOT NULL, PRIMARY KEY (stream_name, delivery_number))"
)
TABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_$]*(\.[A-Za-z_][A-Za-z0-9_$]*){0,2}")


class JdbcSink:
    """`stream` names whose deliveries these are: several streams may write to one table."""

    def __init__(
        self,
        address: JdbcAddress,
        columns: pa.Schema,
        *,
        table: str = TABLE,
        stream: str = "stream",
        exactly_once: bool = True,
    ) -> None:
        if not TABLE_NAME.fullmatch(table):
            raise UsageError(
                f"{table!r} cannot be a table", hint="use --jdbc-table NAME or SCHEMA.NAME"
            )
        self.address = address
        self.columns = columns
        self.table = table
        self.stream = stream
        self.exactly_once = exactly_once
        schema, dot, _ = table.rpartition(".")
        self.deliveries = f"{schema}{dot}{DELIVERIES}"
        # Of this stream alone: two that fill one staging table would mix their rows.
        own = hashlib.blake2b(stream.encode(), digest_size=4).hexdigest()
        self.staging = f"{table}_staging_{own}"
        self._targets: list[str] = []  # columns of the target, as it spells them
        self._staged: list[str] = []

    @property
    def name(self) -> str:
        return f"{self.address.shown}, table {self.table}"

    def open(self) -> None:
        with self._explaining(), self._connected() as connection:
            facts = connection.getMetaData()
            self._staged = [_natural(name, facts) for name in self.columns.names]
            found = _columns_of(connection, self.table)
            if found is None:
                # Through Spark, which knows each database's types.
                self._write(self._empty(), self.table, "append")
                found = _columns_of(connection, self.table) or []
            self._targets = self._matched(found)
            if self.exactly_once and _columns_of(connection, self.deliveries) is None:
                _update(connection, CREATE_DELIVERIES.format(table=self.deliveries))

    def has(self, number: int) -> bool:
        if not self.exactly_once:
            return False
        query = f"SELECT 1 FROM {self.deliveries} WHERE stream_name = ? AND delivery_number = ?"
        with self._explaining(), self._connected() as connection:
            statement = connection.prepareStatement(query)
            statement.setString(1, self.stream)
            statement.setLong(2, number)
            return bool(statement.executeQuery().next())

    def publish(self, delivery: Delivery) -> None:
        if not delivery.rows or self.has(delivery.number):
            return
        if self.exactly_once:
            self.stage(delivery)
            self.commit(delivery)
        else:
            with self._explaining():
                self._write(self._rows(delivery), self.table, "append")

    def stage(self, delivery: Delivery) -> None:
        """Step 1, as often as need be."""
        with self._explaining():
            self._write(self._rows(delivery), self.staging, "overwrite")

    def commit(self, delivery: Delivery) -> None:
        """Step 2. If another driver was first, its number is there, and this one is refused."""
        now_ms = time.time_ns() // 1_000_000  # for people who look; nothing depends on it
        numbers = f"{delivery.number}, {delivery.rows}, {now_ms}"
        note = (
            f"INSERT INTO {self.deliveries} (stream_name, delivery_number, row_count, "
            f"committed_ms) VALUES (?, {numbers})"
        )
        with self._explaining(), self._connected() as connection:
            connection.setAutoCommit(False)
            try:
                _update(connection, note, self.stream)
                copied = _update(connection, self._copying(connection))
                if copied != delivery.rows:
                    raise OutputError(
                        f"{self.staging} has {copied} rows and not {delivery.rows}",
                        hint="something else writes to it; stop that, then start again",
                    )
                connection.commit()
            except BaseException:
                connection.rollback()
                raise

    def close(self) -> None:
        """A connection lives for one step only: a stream runs longer than most servers keep one."""

    # -- through Spark ---------------------------------------------------------------------------

    @property
    def _spark(self) -> SparkSession:
        session = existing_session()
        assert session is not None, "the stream's session is started before its sink is opened"
        return session

    def _rows(self, delivery: Delivery) -> DataFrame:
        frame = self._spark.read.parquet(*map(str, delivery.parts))
        return frame.select(*[f"`{name}`" for name in self.columns.names])

    def _empty(self) -> DataFrame:
        return self._spark.createDataFrame(self.columns.empty_table())

    def _write(self, frame: DataFrame, table: str, mode: str) -> None:
        """`append` creates a table that is missing, `overwrite` creates it in any case."""
        names = self._targets if table == self.table and self._targets else self._staged
        spelled = zip(self.columns.names, self._staged, strict=True)
        ids = ", ".join(f"`{spelling}` {ID_TYPE}" for name, spelling in spelled if name in IDS)
        writer = frame.toDF(*names).write
        if names == self._staged:  # the types are those of its columns, or Spark refuses
            writer = writer.option("createTableColumnTypes", ids)
        writer.jdbc(self.address.url, table, mode=mode, properties=self.address.properties)

    # -- through one connection ------------------------------------------------------------------

    @contextmanager
    def _connected(self) -> Iterator[Any]:
        """By Spark's own way to connect: it finds drivers that were added with `--packages`."""
        jvm: Any = self._spark._jvm
        settings = jvm.PythonUtils.toScalaMap(self.address.properties)
        options = jvm.org.apache.spark.sql.execution.datasources.jdbc.JDBCOptions(
            self.address.url, self.table, settings
        )
        dialect = jvm.org.apache.spark.sql.jdbc.JdbcDialects.get(self.address.url)
        connection = dialect.createConnectionFactory(options).apply(-1)  # -1: on the driver
        try:
            yield connection
        finally:
            connection.close()

    def _matched(self, found: list[str]) -> list[str]:
        by_name = {name.lower(): name for name in found}
        lacking = [name for name in self.columns.names if name.lower() not in by_name]
        if lacking:
            raise OutputError(
                f"table {self.table} of {self.address.shown} lacks {', '.join(lacking)}",
                hint="add the columns, or choose another table with --jdbc-table",
            )
        return [by_name[name.lower()] for name in self.columns.names]

    def _copying(self, connection: Any) -> str:
        mark = connection.getMetaData().getIdentifierQuoteString().strip()
        into, out_of = (
            ", ".join(f"{mark}{name}{mark}" for name in names)
            for names in (self._targets, self._staged)
        )
        return f"INSERT INTO {self.table} ({into}) SELECT {out_of} FROM {self.staging}"

    @contextmanager
    def _explaining(self) -> Iterator[None]:
        try:
            with plainly():
                yield
        except CrossroadsError as error:
            cause = error.__cause__
            if isinstance(cause, Py4JJavaError | PySparkException):
                raise self._explained(cause) from cause
            raise

    def _explained(self, error: Exception) -> OutputError:
        text = self.address.hidden(_message_of(error))
        hint = "the stream can be started again: nothing is lost"
        if "No suitable driver" in text or "ClassNotFound" in text:
            hint = "give Spark the database's driver: --packages GROUP:NAME:VERSION"
        return OutputError(f"{self.address.shown}: {text}", hint=hint)


def _message_of(error: Exception) -> str:
    if isinstance(error, Py4JJavaError):
        thrown = error.java_exception
        text = f"{thrown.getClass().getSimpleName()}: {thrown.getMessage()}"
    else:
        text = str(error)
    return (text.strip().splitlines() or [type(error).__name__])[0]


def _natural(name: str, facts: Any) -> str:
    """As the database spells a name that is not quoted, so that people need not quote it either."""
    if facts.storesUpperCaseIdentifiers():
        return name.upper()
    return name.lower() if facts.storesLowerCaseIdentifiers() else name


def _columns_of(connection: Any, table: str) -> list[str] | None:
    """The columns of a table as it spells them; None if there is no such table."""
    statement = connection.createStatement()
    try:
        facts = statement.executeQuery(f"SELECT * FROM {table} WHERE 1 = 0").getMetaData()
    except Py4JJavaError:
        return None  # or it may not be read: then creating it says why
    finally:
        statement.close()
    return [str(facts.getColumnName(at + 1)) for at in range(facts.getColumnCount())]


def _update(connection: Any, sql: str, *texts: str) -> int:
    statement = connection.prepareStatement(sql)
    try:
        for at, text in enumerate(texts, 1):
            statement.setString(at, text)
        return int(statement.executeUpdate())
    finally:
        statement.close()
