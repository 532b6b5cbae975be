"""A SQLite table: the rows of a delivery and its number, in one transaction.

    notifications             a row per notification
    crossroads_deliveries     which deliveries of which stream are in it

Through apsw, which brings a SQLite of its own: write-ahead logging has a bug in that of many
systems.
"""

from __future__ import annotations

import re
import time
from pathlib import Path

import apsw
import pyarrow as pa

from crossroads.errors import OutputError, UsageError
from crossroads.pipeline.stream.sinkcolumns import plain_columns
from crossroads.pipeline.stream.sinks import Delivery

TABLE = "notifications"
DELIVERIES = "crossroads_deliveries"
DELIVERY_COLUMNS = {
    "stream_name": "TEXT",
    "delivery_number": "INTEGER",
    "row_count": "INTEGER",
    "committed_ms": "INTEGER",
}
WAIT_MS = 10_000  # for another program that writes; a reader never makes us wait
IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class SQLiteSink:
    """`stream` names whose deliveries these are: several streams may write to one table."""

    def __init__(
        self,
        path: Path,
        columns: pa.Schema,
        *,
        table: str = TABLE,
        stream: str = "stream",
        exactly_once: bool = True,
        wait_ms: int = WAIT_MS,
    ) -> None:
        if not IDENTIFIER.fullmatch(table) or table.lower() == DELIVERIES:
            raise UsageError(
                f"{table!r} cannot be the table of notifications",
                hint="use letters, digits and _, for example ?table=notifications",
            )
        self.path = path.absolute()
        self.columns = columns
        self.table = table
        self.stream = stream
        self.exactly_once = exactly_once
        self.wait_ms = wait_ms
        self._connection: apsw.Connection | None = None

    @property
    def name(self) -> str:
        return f"SQLite {self.path}, table {self.table}"

    def open(self) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = apsw.Connection(str(self.path))
            self._connection.set_busy_timeout(self.wait_ms)
            self._connection.pragma("journal_mode", "wal")
            # In WAL mode the default would lose the last transactions in a power cut.
            self._connection.pragma("synchronous", "full")
            with self._writing() as connection:
                self._create(connection)
        except (OSError, apsw.Error) as error:
            self.close()
            raise self._explained(error) from error
        except OutputError:
            self.close()
            raise

    def has(self, number: int) -> bool:
        if not self.exactly_once:
            return False
        try:
            return self._is_in(self._opened, number)
        except apsw.Error as error:
            raise self._explained(error) from error

    def publish(self, delivery: Delivery) -> None:
        if not delivery.rows:
            return
        try:
            with self._writing() as connection:
                if self.exactly_once:
                    # Asked within the transaction that writes: no other driver can come between.
                    if self._is_in(connection, delivery.number):
                        return
                    self._remember(connection, delivery)
                self._insert(connection, delivery)
        except apsw.Error as error:
            raise self._explained(error) from error

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    @property
    def _opened(self) -> apsw.Connection:
        assert self._connection is not None, "open() comes first"
        return self._connection

    def _writing(self) -> _Transaction:
        return _Transaction(self._opened)

    def _is_in(self, connection: apsw.Connection, number: int) -> bool:
        found = connection.execute(
            f"SELECT 1 FROM {DELIVERIES} WHERE stream_name = ? AND delivery_number = ?",
            (self.stream, number),
        )
        return found.fetchone() is not None

    def _remember(self, connection: apsw.Connection, delivery: Delivery) -> None:
        now_ms = time.time_ns() // 1_000_000  # for people who look; nothing depends on it
        connection.execute(
            f"INSERT INTO {DELIVERIES} ({', '.join(DELIVERY_COLUMNS)}) VALUES (?, ?, ?, ?)",
            (self.stream, delivery.number, delivery.rows, now_ms),
        )

    def _insert(self, connection: apsw.Connection, delivery: Delivery) -> None:
        names = self.columns.names
        marks = ", ".join("?" * len(names))
        statement = f"INSERT INTO {self.table} ({', '.join(map(quoted, names))}) VALUES ({marks})"
        for table in delivery.tables():
            rows = zip(*plain_columns(table.select(names)), strict=True)
            connection.executemany(statement, rows)

    # -- tables --------------------------------------------------------------------------------

    def _create(self, connection: apsw.Connection) -> None:
        wanted = {field.name: sqlite_type(field.type) for field in self.columns}
        _create_or_compare(connection, self.table, wanted, self.path)
        if self.exactly_once:
            key = "PRIMARY KEY (stream_name, delivery_number)"
            _create_or_compare(connection, DELIVERIES, DELIVERY_COLUMNS, self.path, key)

    def _explained(self, error: Exception) -> OutputError:
        if isinstance(error, apsw.BusyError | apsw.LockedError):
            return OutputError(
                f"{self.path} is locked by another program, for more than "
                f"{self.wait_ms / 1000:g} s",
                hint="end that program's transaction, then start again: nothing is lost",
            )
        if isinstance(error, apsw.NotADBError):
            return OutputError(f"{self.path} is not a SQLite database", hint="choose another file")
        return OutputError(
            f"cannot write to {self.path}: {error}", hint="check its permissions and the free space"
        )


class _Transaction:
    """One that holds the right to write from its beginning, so that it waits there or nowhere."""

    def __init__(self, connection: apsw.Connection) -> None:
        self.connection = connection

    def __enter__(self) -> apsw.Connection:
        self.connection.execute("BEGIN IMMEDIATE")
        return self.connection

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            self.connection.execute("COMMIT" if kind is None else "ROLLBACK")
        except apsw.Error:
            # A full disk may have ended the transaction already; what was raised first is told.
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK")
            if kind is None:
                raise


def _create_or_compare(
    connection: apsw.Connection, table: str, wanted: dict[str, str], path: Path, key: str = ""
) -> None:
    found = {str(row[1]).lower() for row in connection.execute(f"PRAGMA table_info({table})")}
    if not found:
        columns = [f"{quoted(name)} {kind}" for name, kind in wanted.items()]
        connection.execute(
            f"CREATE TABLE {table} ({', '.join([*columns, *([key] if key else [])])})"
        )
        return
    named = {name.lower() for name in wanted}
    lacks, has_more = sorted(named - found), sorted(found - named)
    if lacks or has_more:
        differs = [f"lacks {', '.join(lacks)}"] if lacks else []
        differs += [f"also has {', '.join(has_more)}"] if has_more else []
        raise OutputError(
            f"table {table} of {path} has other columns than the notifications: it "
            f"{' and '.join(differs)}",
            hint="choose another table with ?table=NAME, or change --include",
        )


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def sqlite_type(kind: pa.DataType) -> str:
    """A declared type is an affinity in SQLite; times and decimals are text, exact as they are."""
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind):
        return "INTEGER"
    return "REAL" if pa.types.is_floating(kind) else "TEXT"
