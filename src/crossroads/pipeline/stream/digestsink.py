"""A sink behind which any other sink receives digests: one message for many notifications.

For each delivery, in this order:

    1. the log has the rows that came and who is told of what       (durable, in one file)
    2. the inner sink has the messages, under the same number       (idempotent, or at least once)
    3. the log notes that, and drops what nobody waits for

A crash before 1 has changed nothing: the stream hands the delivery over again. After 1 the messages
follow from the log alone, and opening completes 2 before anything else happens. So a notification
is in exactly one message, and each message is offered until the inner sink has it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from crossroads.pipeline.notify import NOTIFICATIONS, Notify
from crossroads.pipeline.output import part_path, replacing, write_part
from crossroads.pipeline.stream.digest import SUBSCRIBER, Digest, messages
from crossroads.pipeline.stream.digestlog import DigestLog, Entry, Waiting, arrived
from crossroads.pipeline.stream.foldersink import emptied
from crossroads.pipeline.stream.sinkcolumns import json_line, plain_rows
from crossroads.pipeline.stream.sinks import FLUSHES_PER_BATCH, Delivery, Sink


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class DigestSink:
    """`inner` is made for rows of `MESSAGE_COLUMNS`, in the format of `notify`. Deliveries come as
    Parquet. `staging` is scratch on the file system of the output."""

    def __init__(
        self,
        inner: Sink,
        folder: Path,
        digest: Digest,
        *,
        notify: Notify,
        staging: Path,
        clock: Callable[[], int] = now_ms,
    ) -> None:
        self.inner = inner
        self.digest = digest
        self.notify = notify
        self.staging = staging
        self.clock = clock
        self._log = DigestLog(folder)
        self._state = Waiting(-1, None, None)
        self._is_published = True

    @property
    def name(self) -> str:
        return f"{self.inner.name}, in digests"

    @property
    def exactly_once(self) -> bool:
        return self.inner.exactly_once

    def open(self) -> None:
        self.inner.open()
        self._state = self._log.load()
        self._is_published = self._log.published() >= self._state.number
        self._complete()

    def has(self, number: int) -> bool:
        last = self._state.number
        return number < last or (number == last and self._is_published)

    def publish(self, delivery: Delivery) -> None:
        if delivery.number > self._state.number:
            # Decided with the time of now, which the log keeps: a replay does not ask the clock.
            self._advance(delivery.number, _rows(delivery), self.clock())
        self._complete()

    @property
    def waiting(self) -> int:
        """Notifications that are matched and not yet told."""
        return 0 if self._state.staying is None else self._state.staying.num_rows

    def due(self, now_ms: int) -> bool:
        """Whether somebody has to be told now although nothing comes: then `flush`."""
        staying = self._state.staying
        return staying is not None and self.digest.is_due(staying, now_ms)

    def due_ms(self) -> int | None:
        """When `due` will be true, if nothing comes before."""
        return None if self._state.staying is None else self.digest.due_ms(self._state.staying)

    def flush(self, now_ms: int, *, everything: bool = False) -> int:
        """A delivery of its own, between two batches; returns how many notifications it told.
        `everything`: also what is not due, because the stream has come to its end."""
        before = self.waiting
        if not before:
            return 0
        # The next number after the last that changed something: the inner sink saw none beyond.
        number = self._state.number + 1
        assert number % FLUSHES_PER_BATCH, "more flushes than there are numbers for"
        self._advance(number, None, now_ms, everything=everything)
        self._complete()
        return before - self.waiting

    def close(self) -> None:
        self.inner.close()

    def _advance(
        self, number: int, rows: pa.Table | None, now_ms: int, *, everything: bool = False
    ) -> None:
        self._complete()  # the log completes its last delivery only
        waiting = arrived(self._state.staying, rows, number, now_ms)
        if waiting is None:
            return
        told = self.digest.told(waiting, now_ms, everything=everything)
        if rows is None and told.num_rows == 0:
            return  # nothing came, nobody is told: nothing to remember either
        entry = Entry(number, now_ms, rows, told)
        after = entry.after(self._state)
        self._log.append(entry)
        self._state, self._is_published = after, False

    def _complete(self) -> None:
        """Step 2 and 3 of the last delivery, if they are not done."""
        if self._is_published:
            return
        leaving = self._state.leaving
        if leaving is not None and leaving.num_rows and not self.inner.has(self._state.number):
            table = messages(leaving, self.digest.size, self._state.number)
            self.inner.publish(self._staged(table))
        self._log.note_published(self._state)
        self._is_published = True
        self._state = replace(self._state, leaving=None)

    def _staged(self, table: pa.Table) -> Delivery:
        folder = emptied(self.staging) / NOTIFICATIONS
        if self.notify.format == "jsonl":
            with replacing(part_path(folder, 0, "jsonl")) as file:
                for row in plain_rows(table):
                    file.write(f"{json_line(row)}\n".encode())
        else:
            write_part(folder, 0, table, self.notify.format)
        return Delivery(self._state.number, self.staging, self.notify, table.num_rows)


def _rows(delivery: Delivery) -> pa.Table | None:
    """All of a delivery in one table of plain columns, whatever the part had them as."""
    if not delivery.rows:
        return None
    table = pa.concat_tables(delivery.tables(), promote_options="permissive")
    fields = [pa.field(field.name, _decoded(field.type)) for field in table.schema]
    table = table.cast(pa.schema(fields))
    named = table[SUBSCRIBER].fill_null("")
    return table.set_column(table.column_names.index(SUBSCRIBER), SUBSCRIBER, named)


def _decoded(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind
